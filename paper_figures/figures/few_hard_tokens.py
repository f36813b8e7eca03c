"""At how many tokens a fixed point has to be reached: most get few self-iterations, the hard ones more.

How hard a token is follows from the state that it meets: what is called hard here is a pair of state and
token, by the self-iterations that it took on other sequences.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.convergence.explained import group_means
from analysis.framework.figures import new_panels
from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.palette import Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.framework.visited_states import sample_sequences
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.s5_training import SEEDS, TASK, TASK_WORDS, TRAINING

ORDERS = {"hardest": Look("#0072B2", "o"), "random": Look("#D55E00", "s", "--")}
"""Which pairs of state and token get the full budget: those that took most self-iterations, or any."""


class HardTokenSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> HardTokenSettings().budgets
        (4, 6, 8)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    budgets: tuple[PositiveInt, ...] = Field(
        default=(4, 6, 8), description="the most self-iterations of an easy token"
    )
    full_budget: PositiveInt = Field(default=64, description="the most self-iterations of a hard token")
    shares: tuple[float, ...] = Field(
        default=(0.0, 0.05, 0.1, 0.2, 0.4, 1.0), description="shares of the pairs that count as hard"
    )
    length: PositiveInt = Field(default=96, description="tokens per sequence")
    sequences: PositiveInt = Field(
        default=128, description="sequences that say what is hard, and as many others that are answered"
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance at which a token stops early")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences and of the random order")


SETTINGS = HardTokenSettings()


def measure(run: Run, settings: HardTokenSettings) -> dict[str, Any]:
    """Measure accuracy with every budget of the easy tokens and every share of hard ones, in both orders.

    Raises:
        InputError: for a run that is no word problem, or that is not asked for the state itself.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = HardTokenSettings(budgets=(2,), shares=(0.0, 1.0), length=8, sequences=4)
        >>> found = measure(load_run("parity"), small)
        >>> none, every = found["hardest"]["2"]
        >>> none["hard_tokens"], every["hard_tokens"], every["accuracy"]
        (0.0, 1.0, 1.0)
    """
    model, task = as_implicit(run), word_problem_of(run)
    if task.output_size != task.state_count:
        raise InputError(f"task {task.name} does not ask for its state; give a run of one that does")
    tokens, labels = sample_sequences(task, 2 * settings.sequences, settings.length, settings.seed)
    first = torch.full_like(labels[:, :1], task.start())
    pairs = torch.cat([first, labels[:, :-1]], dim=1) * task.vocabulary_size + tokens
    seen, asked = slice(0, settings.sequences), slice(settings.sequences, None)
    hardness = mean_iterations(
        model, tokens[seen], pairs[seen], task.state_count * task.vocabulary_size, settings
    )
    order = {
        "hardest": np.argsort(-hardness, kind="stable"),
        "random": np.random.default_rng(settings.seed).permutation(len(hardness)),
    }
    return {
        name: {
            str(budget): [
                _answer(
                    model,
                    tokens[asked],
                    labels[asked],
                    _among(pairs[asked], order[name], share),
                    budget,
                    settings,
                )
                for share in settings.shares
            ]
            for budget in settings.budgets
        }
        for name in ORDERS
    }


@torch.no_grad()
def mean_iterations(
    model: FixedPointModel, tokens: Tensor, pairs: Tensor, count: int, settings: HardTokenSettings
) -> NDArray[np.float64]:
    """Return the mean self-iterations of every pair of state and token; 0 for one that does not occur.

    Args:
        model: in sequential mode.
        tokens: ``[sequences, length]``.
        pairs: the number of the pair at each token, ``[sequences, length]``.
        count: how many pairs there are.
        settings: tolerance and the full budget.
    """
    solution = model.run(tokens, solve=_solve(settings.full_budget, settings)).solution
    assert solution is not None
    numbers, iterations = pairs.flatten().numpy(), solution.iterations.flatten().double().numpy()
    return group_means(iterations, numbers, count, otherwise=0.0)


def _among(pairs: Tensor, order: NDArray[np.int64], share: float) -> Tensor:
    """Whether the pair at each token is among the first so many of an order."""
    chosen = torch.zeros(len(order), dtype=torch.bool)
    chosen[torch.from_numpy(order[: round(share * len(order))].copy())] = True
    return chosen[pairs]


def _solve(budget: int, settings: HardTokenSettings) -> Solve:
    return Solve("sequential", stopping=Stopping(rtol=settings.rtol, max_iterations=budget))


@torch.no_grad()
def _answer(
    model: FixedPointModel,
    tokens: Tensor,
    labels: Tensor,
    hard: Tensor,
    budget: int,
    settings: HardTokenSettings,
) -> dict[str, float]:
    """Answer token after token, the hard ones with the full budget and the others with a smaller one."""
    state = model.init_state(len(tokens))
    right = torch.zeros(labels.shape, dtype=torch.bool)
    spent, converged = 0, 0
    for place in range(tokens.shape[1]):
        following = {name: part.clone() for name, part in state.items()}
        for rows, limit in ((hard[:, place], settings.full_budget), (~hard[:, place], budget)):
            if not rows.any():
                continue
            before = {name: part[rows] for name, part in state.items()}
            output = model.run(tokens[rows, place : place + 1], before, solve=_solve(limit, settings))
            assert output.solution is not None
            for name, part in output.state.items():
                following[name][rows] = part
            right[rows, place] = output.logits[:, 0].argmax(dim=-1) == labels[rows, place]
            spent += int(output.solution.iterations.sum())
            converged += int(output.solution.converged.sum())
        state = following
    return {
        "accuracy": right[:, -REPORTED_TOKENS:].double().mean().item(),
        "hard_tokens": hard.double().mean().item(),
        "iterations": spent / tokens.numel(),
        "share_converged": converged / tokens.numel(),
    }


EXPERIMENT = Experiment(
    "few_hard_tokens",
    (Grid({"seed": SEEDS}, {"model": "implicit-mamba2", **TRAINING, "layers": 1}),),
    (Measurement("hard_tokens", measure, SETTINGS),),
)


def collect(outcomes: Sequence[Outcome], settings: HardTokenSettings = SETTINGS) -> Results:
    """Collect what was measured by seed.

    Example:
        >>> collect([])["seeds"]
        {}
    """
    groups = grouped(outcomes, "hard_tokens")
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "seeds": groups[0]["seeds"] if groups else {},
        "failed": groups[0]["failed"] if groups else [],
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per budget of the easy tokens: accuracy against the share of pairs with the full one.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("few_hard_tokens").results, 6.75).axes)
        3
    """
    budgets, shares = found["settings"]["budgets"], found["settings"]["shares"]
    figure, panels = new_panels(width, len(budgets), height=1.9 if width < 5 else 2.6)
    for axes, budget in zip(panels, budgets, strict=True):
        for order, look in ORDERS.items():
            runs = [
                [point["accuracy"] for point in run[order][str(budget)]] for run in found["seeds"].values()
            ]
            draw_runs(axes, range(len(shares)), runs, look, order, breadth=1.4)
        axes.set(title=f"at most {budget} self-iterations elsewhere", ylim=(-0.04, 1.06))
        axes.set_xticks(range(len(shares)), [f"{100 * share:g}" for share in shares])
    for axes in panels if width < 5 else panels[:1]:
        axes.set_ylabel(f"accuracy (last {found['reported_tokens']})")
    panels[-1 if width < 5 else len(panels) // 2].set_xlabel("pairs with the full budget (%)")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=1 if width < 5 else 2
    )
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn, and what the hardest pairs buy.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("few_hard_tokens").results))
        Accuracy of implicit Mamba-2 on S5 when most tokens get few self-iterations ...
    """
    settings = found["settings"]
    return (
        "Accuracy of implicit Mamba-2 on S5 when most tokens get few self-iterations and the others up to "
        f"{settings['full_budget']} (sequential mode, relative tolerance {settings['rtol']:g}): mean over "
        f"the last {found['reported_tokens']} tokens of {settings['sequences']} fresh sequences of "
        f"{settings['length']} tokens (data seed {settings['seed']}). {TASK_WORDS[TASK]} Those with the full "
        "budget are pairs of the state before a token and the token: the ones that took most "
        "self-iterations on as many other sequences, or randomly chosen ones; their shares are evenly "
        f"spaced. The state before a token is read off the right answers. {RUN_LINES} "
        f"{interval_sentence(settings['sequences'])} {_words(found)}"
    )


def _words(found: Mapping[str, Any]) -> str:
    """What the second budget reaches without hard tokens, with a tenth of the pairs, and with all."""
    settings = found["settings"]
    budget, shares = str(_middle_budget(settings)), settings["shares"]
    said = []
    for share in (0.0, 0.1, 1.0):
        if share in shares:
            points = [run["hardest"][budget][shares.index(share)] for run in found["seeds"].values()]
            accuracy = ", ".join(f"{point['accuracy']:.3f}" for point in points)
            iterations = ", ".join(f"{point['iterations']:.1f}" for point in points)
            said.append(
                f"{share:.0%} of the pairs: accuracy {accuracy or 'none'}, {iterations or 'no'} "
                "self-iterations per token"
            )
    return (
        f"With {budget} self-iterations elsewhere and the full budget at the hardest " + "; ".join(said) + "."
    )


def _middle_budget(settings: Mapping[str, Any]) -> int:
    return int(settings["budgets"][len(settings["budgets"]) // 2])


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that fixed points have to be reached at a small subset of the tokens only.

    A run shows it if with some budget elsewhere no full budget anywhere costs at least 0.1 of the accuracy,
    the full budget at no more than the hardest tenth of the pairs leaves it within 0.01 of that with the full
    one everywhere, and the same share of random pairs does not. Reproduced if all runs do, not reproduced if
    none does; partly otherwise.

    Example:
        >>> judge({"seeds": {}, "failed": [], "settings": {"budgets": [], "shares": []}}).word
        'not reproduced'
    """
    settings, runs = found["settings"], found["seeds"].values()
    shown = [
        any(_few_suffice(run, str(budget), settings["shares"]) for budget in settings["budgets"])
        for run in runs
    ]
    of = len(shown) + len(found["failed"])
    because = (
        "runs in which some budget elsewhere costs 0.1 of the accuracy, the hardest tenth of the pairs "
        f"restores it to within 0.01 and a random tenth does not: {sum(shown)} of {of}"
    )
    if shown:
        because += "; accuracy without full budgets, with them at that tenth, and everywhere: " + "; ".join(
            f"{budget} elsewhere {', '.join(_restored(run, str(budget), settings['shares']) for run in runs)}"
            for budget in settings["budgets"]
        )
    if not any(shown):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if sum(shown) == of else "partly", because)


def _restored(run: Mapping[str, Any], budget: str, shares: Sequence[float]) -> str:
    """Accuracy with full budgets nowhere, at the hardest tenth, and everywhere."""
    places = (0, shares.index(0.1), len(shares) - 1)
    return "/".join(f"{run['hardest'][budget][place]['accuracy']:.3f}" for place in places)


def _few_suffice(run: Mapping[str, Any], budget: str, shares: Sequence[float]) -> bool:
    hardest, random = ([point["accuracy"] for point in run[order][budget]] for order in ORDERS)
    least, full = hardest[0], hardest[-1]
    few = [place for place, share in enumerate(shares) if 0 < share <= 0.1]
    return full - least >= 0.1 and any(
        hardest[place] >= full - 0.01 and random[place] < full - 0.01 for place in few
    )


FIGURE = PaperFigure(
    title="Few hard tokens",
    claim=Claim(
        "approximate fixed points suffice: full convergence is needed at a small subset of the tokens",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
