"""At how many tokens a fixed point has to be reached: most get few self-iterations, the hard ones more."""

from collections.abc import Callable

from analysis.framework.palette import Look
from paper_figures import figure as pf
from paper_figures.figures.s5_length_generalization import TRAINING
from paper_figures.measurements.hard_tokens import HardTokenSettings, hard_pairs

SETTINGS = HardTokenSettings()
PLACES = range(len(SETTINGS.shares))


def _accuracies(run: pf.MeasuredRun, order: str, budget: int) -> list[float]:
    return [point["accuracy"] for point in run.values[order][str(budget)]]


def _by_share(order: str, budget: int) -> Callable[[pf.MeasuredRun], tuple[range, list[float]]]:
    return lambda run: (PLACES, _accuracies(run, order, budget))


def _few_suffice(run: pf.MeasuredRun, budget: int) -> bool:
    """Return whether the hardest tenth of the pairs restores what the budget costs, and a random one not."""
    hardest, random = (_accuracies(run, order, budget) for order in ("hardest", "random"))
    few = [place for place, share in enumerate(SETTINGS.shares) if 0 < share <= 0.1]
    return hardest[-1] - hardest[0] >= 0.1 and any(
        hardest[place] >= hardest[-1] - 0.01 > random[place] for place in few
    )


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count runs in which, with some budget elsewhere, the hardest tenth of the pairs suffices."""
    (row,) = rows
    shown = sum(any(_few_suffice(run, budget) for budget in SETTINGS.budgets) for run in row.runs)
    tenth = SETTINGS.shares.index(0.1)
    told = [
        f"{budget} elsewhere "
        + ", ".join(
            "/".join(f"{_accuracies(run, 'hardest', budget)[place]:.3f}" for place in (0, tenth, -1))
            for run in row.runs
        )
        for budget in SETTINGS.budgets
    ]
    return pf.verdict(
        shown,
        row.of,
        "runs in which some budget elsewhere costs 0.1 of the accuracy, the hardest tenth of the pairs "
        f"restores it to within 0.01 and a random tenth does not: {shown} of {row.of}; accuracy without "
        f"full budgets, with them at that tenth, and everywhere: {'; '.join(told)}",
    )


FIGURE = pf.Figure(
    title="Few hard tokens",
    section="Fixed points",
    claim=pf.Claim(
        "approximate fixed points suffice: full convergence is needed at a small subset of the tokens",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=(pf.Grid({"seed": range(3)}, {"model": "implicit-mamba2", **TRAINING, "layers": 1}),),
    measure=(pf.Measurement("hard_tokens", hard_pairs, SETTINGS),),
    panels=[
        pf.Lines(
            {
                "hardest pairs": (_by_share("hardest", budget), Look("#0072B2", "o")),
                "random pairs": (_by_share("random", budget), Look("#D55E00", "s", "--")),
            },
            xlabel="pairs with 64 (%)",
            title=f"{budget} self-iterations\nelsewhere",
            xscale="linear",
            xticks=(PLACES, [f"{100 * share:g}" for share in SETTINGS.shares]),
        )
        for budget in SETTINGS.budgets
    ],
    layout=pf.Layout(columns=(3, 1), height=(2.6, 5.7), share=("all", "all"), legend=(2, 2)),
)
