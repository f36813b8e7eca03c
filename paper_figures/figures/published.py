"""The language models of the slides, explicit and implicit: perplexity and accuracies, as published."""

from matplotlib.axes import Axes

from analysis.framework.palette import GREY, Look
from paper_figures import figure as pf
from paper_figures.published_tables import read_table
from paper_figures.wikitext import EXPLICIT, IMPLICIT

TABLE = read_table("downstream")
FAMILIES, SIZES, DATA = ("Llama", "Mamba-2"), ("760M", "1.3B"), "D-Pile"
"""Models that are compared with each other were trained on the same data."""
TASKS = {
    "lambada": "LAMBADA",
    "hellaswag": "HellaSwag",
    "piqa": "PIQA",
    "arc_easy": "ARC-Easy",
    "arc_challenge": "ARC-Challenge",
    "winogrande": "WinoGrande",
    "openbookqa": "OpenbookQA",
}
MODELS = [(family, size) for family in FAMILIES for size in SIZES]


def _value(family: str, size: str, variant: str, column: str) -> float:
    return float(TABLE.row(family=family, size=size, variant=variant, data=DATA)[column])


def _mark(axes: Axes, x: float, y: float, look: Look, *, filled: bool, size: float = 4.5) -> None:
    axes.plot(
        x, y, linestyle="", marker=look.marker, color=look.color, markersize=size,
        markerfacecolor=look.color if filled else "white",
    )  # fmt: skip


def _models(column: str, label: str) -> pf.Drawn:
    def draw(axes: Axes, _: pf.Rows) -> None:
        """Draw explicit, bounded and free of each family and size, joined by a line; crosses: other data."""
        for place, (family, size) in enumerate(MODELS):
            values = [_value(family, size, variant, column) for variant in ("explicit", "bounded", "free")]
            heights = [place + step for step in (-0.11, 0.11, 0.33)]
            axes.plot(values, heights, color=GREY, linewidth=0.7, zorder=1)
            _mark(axes, values[0], heights[0], EXPLICIT[family], filled=True)
            _mark(axes, values[1], heights[1], IMPLICIT[family], filled=False)
            _mark(axes, values[2], heights[2], IMPLICIT[family], filled=True)
            for row in TABLE.rows:
                other = (row["family"], row["size"]) == (family, size) and row["data"] != DATA
                if other and row[column] is not None:
                    axes.plot(row[column], place - 0.33, "x", color=GREY, markersize=4.5)
        axes.set(xlabel=label, **pf.lines_of_text([" ".join(model) for model in MODELS]))

    return pf.Drawn(draw)


def _gains(axes: Axes, _: pf.Rows) -> None:
    """Draw the accuracy of the free model less that of the explicit one, a row per task."""
    axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
    for row, task in enumerate(TASKS):
        for number, (family, size) in enumerate(MODELS):
            gained = _value(family, size, "free", task) - _value(family, size, "explicit", task)
            height = row + 0.22 * (number - (len(MODELS) - 1) / 2)
            _mark(axes, gained, height, IMPLICIT[family], filled=True, size=2.7 if size == SIZES[0] else 4.5)
    axes.set(
        xlabel="accuracy gained, free less explicit\n(small: 760M, large: 1.3B)",
        **pf.lines_of_text([*TASKS.values()]),
    )


FIGURE = pf.Figure(
    title="Language models of the slides, as published",
    section="Published",
    claim=pf.Claim(
        "implicit Llama and Mamba-2 of 760M and 1.3B, free at the end of training, have a lower perplexity "
        "and a higher average accuracy than explicit ones trained on the same data",
        TABLE.cited,
        pf.as_published,
    ),
    panels=[
        _models("d_pile_perplexity", "perplexity, deduplicated Pile\n(lower is better)"),
        _models("lambada_perplexity", "perplexity, LAMBADA\n(lower is better)"),
        _models("average", "average accuracy\n(higher is better)"),
        pf.Drawn(_gains),
    ],
    layout=pf.Layout(
        columns=(2, 1),
        height=(4.8, 9.0),
        share=("none", "none"),
        legend=(4, 2),
        keys={
            **{f"{name}, explicit": Look(look.color, look.marker, "") for name, look in EXPLICIT.items()},
            **{f"{name}, implicit": Look(look.color, look.marker, "") for name, look in IMPLICIT.items()},
            "explicit, other data": Look(GREY, "x", ""),
        },
    ),
)
