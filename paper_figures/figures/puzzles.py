"""Swapped balls and small programs: accuracy by the number of swaps and of statements."""

from matplotlib.axes import Axes

from analysis.framework.palette import GREY
from paper_figures import families
from paper_figures import figure as pf
from paper_figures.measurements.answers import PuzzleSettings, puzzle_accuracy

BALLS, PROGRAMS = "swap-balls-3", "small-programs"
TRAINING = {**families.COMMON, "steps": 600, "batch_size": 32, "growth_accuracy": None}


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge balls at four times the swaps of training.

    Reproduced if every run of DeltaNet [-1, 1] or of the LSTM has 0.95 and no Transformer does; not
    reproduced if no recurrent run does; partly otherwise.
    """
    balls = {families.family(row.settings): row for row in rows if row.settings["task"] == BALLS}
    solved = {name: row.reaching("accuracy@64", 0.95) for name, row in balls.items()}
    because = "runs with at least 0.95 after 64 swaps: " + "; ".join(
        f"{name} {solved[name]} of {row.of} ({min(row.each('accuracy@64')):.3f} to "
        f"{max(row.each('accuracy@64')):.3f})"
        for name, row in balls.items()
    )
    every = any(solved[name] == balls[name].of for name in ("DeltaNet [-1, 1]", "LSTM"))
    return pf.graded(
        every and not solved["Transformer"],
        any(count for name, count in solved.items() if name != "Transformer"),
        because,
    )


def _panel(task: str, title: str, unit: str, trained: int) -> pf.Drawn:
    lines = pf.Lines(
        "accuracy",
        xlabel=unit,
        ylabel="accuracy of the answers",
        title=title,
        trained=(trained,),
        only=pf.where(task=task),
        name=lambda row: families.family(row.settings),
        ylim=(0, 1.05),
        equal=True,
    )

    def draw(axes: Axes, rows: pf.Rows) -> None:
        lines.draw(axes, rows)
        shares = next(run for row in rows if row.settings["task"] == task for run in row.runs).at("baseline")
        axes.plot(
            [int(number) for number in shares], list(shares.values()),
            color=GREY, linestyle=":", label="most frequent answer",
        )  # fmt: skip

    return pf.Drawn(draw)


FIGURE = pf.Figure(
    title="Swapped balls and small programs",
    section="Sessions and beliefs",
    claim=pf.Claim(
        "following swapped balls through a text needs a state, which Transformers do not keep (the slides); "
        "recurrent models do it beyond the lengths they were trained at (this toolkit)",
        pf.SLIDES,
        _judge,
    ),
    runs=(
        *families.seeds_of(
            *families.COMPARED,
            **TRAINING,
            task=BALLS,
            length=82,
            start_length=12,
            length_growth=10,
            length_growth_every=40,
        ),
        *families.seeds_of(
            families.REFLECTING_DELTANET,
            families.TRANSFORMER,
            families.LSTM,
            families.PLAIN_DELTANET,
            families.IMPLICIT_MAMBA2,
            **TRAINING,
            task=PROGRAMS,
            length=125,
        ),
    ),
    measure=(
        pf.Measurement(
            "puzzle_accuracy", puzzle_accuracy, PuzzleSettings(), ("accuracy", "baseline", "share_converged")
        ),
    ),
    label=lambda settings: f"{settings['task']}: {families.family(settings)}",
    looks=families.look,
    panels=[
        _panel(BALLS, "where a ball ends up", "swaps", 16),
        _panel(PROGRAMS, "what a program prints", "statements", 8),
    ],
    layout=pf.Layout(columns=(2, 1), height=(2.9, 4.6), share=("none", "all"), legend=(4, 2)),
)
