"""Layers that a family needs for so many tokens of S5: the fewest with which it reaches 90% at a token."""

from typing import Any

from matplotlib.axes import Axes

from analysis.framework.palette import MODEL_LOOKS, model_label
from paper_figures import figure as pf
from paper_figures.figures.s5_length_generalization import GRIDS, MEASURE, MODELS, family

TOKENS = (4, 6, 8, 12, 16, 24, 32)
ENOUGH = 0.9
STRENGTHS = {1: 0.55, 2: 0.35, 4: 0.18}  # strength of the colour of a cell, by number of layers


def fewest_layers(rows: pf.Rows, model: str, token: int, *, every: bool) -> int | None:
    """Return the fewest layers with which all runs of a model, or one, reach 90% at a token; None if none."""
    enough: Any = all if every else any
    depths = [
        row.settings.get("layers", 1)
        for row in rows
        if row.settings["model"] == model
        and enough(
            [*(run[token - 1] >= ENOUGH for run in row.each("by_position")), *(False for _ in row.failed)]
        )
    ]
    return min(depths, default=None)


def _draw(axes: Axes, rows: pf.Rows) -> None:
    """Draw a row per family and a column per token, with the fewest layers in each cell."""
    for place, model in enumerate(MODELS):
        for column, token in enumerate(TOKENS):
            best, every = (fewest_layers(rows, model, token, every=which) for which in (False, True))
            words = "–" if best is None else str(best)
            if best is not None:
                axes.fill_between(
                    [column - 0.5, column + 0.5], place - 0.5, place + 0.5,
                    color=MODEL_LOOKS[model].color, alpha=STRENGTHS[best], linewidth=0,
                )  # fmt: skip
                if best != every:
                    words = f"{best} ({every or '–'})"
            axes.text(column, place, words, ha="center", va="center", fontsize=7)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge that explicit Mamba-2 needs more layers for the last token than the first, and implicit does not.

    An LSTM of one layer can track S5. Where it does not reach the last token, more layers are not shown to be
    needed, and the claim is reproduced in part at best; likewise where another family does with one too.
    Not reproduced if no implicit run reaches the last.
    """
    first, last = TOKENS[0], TOKENS[-1]
    before, after = (fewest_layers(rows, "mamba2", token, every=False) for token in (first, last))
    implicit = fewest_layers(rows, "implicit-mamba2", last, every=True)
    control = fewest_layers(rows, "lstm", last, every=False)
    because = (
        f"layers for tokens {first} and {last}: implicit Mamba-2 "
        f"{fewest_layers(rows, 'implicit-mamba2', first, every=True)} and {implicit} (all runs), explicit "
        f"Mamba-2 {before} and {after} (best run); LSTM, which can do with 1, at token {last} {control}"
    )
    others = ("deltanet", "gated-deltaproduct", "transformer")
    alone = [model_label(model) for model in others if fewest_layers(rows, model, last, every=False) == 1]
    because += f"; {' and '.join(alone)} 1 (best run)" if alone else ""
    if fewest_layers(rows, "implicit-mamba2", last, every=False) is None:
        return pf.Verdict("not reproduced", because)
    more = before is not None and (after is None or after > before)
    whole = implicit == 1 and more and control == 1 and not alone
    return pf.Verdict("reproduced" if whole else "partly", because)


FIGURE = pf.Figure(
    title="Layers against tokens on S5",
    section="State tracking",
    claim=pf.Claim(
        "explicit models need more layers for longer words of S5; one implicit layer does for all of them",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=GRIDS,
    measure=MEASURE,
    label=family,
    panels=[
        pf.Drawn(
            _draw,
            {
                "xticks": range(len(TOKENS)),
                "xticklabels": TOKENS,
                **pf.lines_of_text([model_label(model) for model in MODELS]),
                "xlim": (-0.5, len(TOKENS) - 0.5),
                "xlabel": "number of the token",
                "title": "fewest layers that\nreach 90% (in all runs)",
            },
        )
    ],
    layout=pf.Layout(columns=(1, 1), height=(2.9, 2.9)),
)
