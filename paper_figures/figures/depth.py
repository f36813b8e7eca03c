"""How many layers a family needs for how many tokens of S5: fewest layers by position of the token."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.figures import new_figure
from analysis.framework.palette import MODEL_LOOKS, model_label
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.s5_training import (
    ACCURACY,
    FULL_GRIDS,
    GRIDS,
    SETTINGS,
    TASK_WORDS,
    family,
    trained_as,
    training_sentence,
)

TOKENS = (4, 6, 8, 12, 16, 24, 32)
ENOUGH = 0.9
"""The accuracy at a token that counts as reached."""
NONE_ENOUGH = "–"

EXPERIMENT = Experiment("depth", GRIDS, (ACCURACY,))
FULL = Experiment("depth", FULL_GRIDS, (ACCURACY,))

STRENGTHS = {1: 0.75, 2: 0.45, 4: 0.2, 8: 0.1, 16: 0.05}
"""Of the colour of a cell, by number of layers."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect by family, number of layers and seed the accuracy at some tokens; a failed run reaches none.

    Example:
        >>> found = collect([])
        >>> found["families"], found["tokens"]
        ({}, [4, 6, 8, 12, 16, 24, 32])
    """
    families: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, "accuracy"):
        model, layers = family(group)
        runs = {
            seed: {str(token): run["by_position"][token - 1] for token in TOKENS}
            for seed, run in group["seeds"].items()
        }
        families.setdefault(model, {})[str(layers)] = {"seeds": runs, "failed": group["failed"]}
    return {
        "sequences": SETTINGS.sequences,
        "training": trained_as(outcomes),
        "tokens": list(TOKENS),
        "enough": ENOUGH,
        "families": families,
    }


def fewest_layers(depths: Mapping[str, Any], token: int, *, every: bool) -> int | None:
    """Return the fewest layers with which a family reaches the accuracy at a token; None if none do.

    Args:
        depths: runs by number of layers, as `collect` returns them for a family.
        token: number of the token, from 1.
        every: whether all runs have to reach it, or one.

    Example:
        >>> depths = {"1": {"seeds": {"0": {"8": 0.5}}, "failed": []},
        ...           "2": {"seeds": {"0": {"8": 0.95}, "1": {"8": 0.8}}, "failed": []}}
        >>> fewest_layers(depths, 8, every=False), fewest_layers(depths, 8, every=True)
        (2, None)
    """
    for layers in sorted(map(int, depths)):
        runs = depths[str(layers)]
        reached = [run[str(token)] >= ENOUGH for run in runs["seeds"].values()]
        reached += [False] * len(runs["failed"])
        if reached and (all(reached) if every else any(reached)):
            return layers
    return None


def draw(found: Results, width: float) -> Figure:
    """Draw a row per family and a column per token, with the fewest layers in each cell.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     axes, = draw(StoredResults.read("depth").results, 3.3).axes
        >>> axes.get_xlabel()
        'number of the token'
    """
    families, tokens = found["families"], found["tokens"]
    figure = new_figure(width, 0.75 + 0.36 * len(families))
    axes = figure.subplots()
    for row, (model, depths) in enumerate(families.items()):
        for column, token in enumerate(tokens):
            best = fewest_layers(depths, token, every=False)
            every = fewest_layers(depths, token, every=True)
            if best is not None:
                color = MODEL_LOOKS[model].color
                axes.fill_between(
                    [column - 0.5, column + 0.5],
                    row - 0.5,
                    row + 0.5,
                    color=color,
                    alpha=STRENGTHS[best],
                    linewidth=0,
                )
            axes.text(column, row, _cell_words(best, every), ha="center", va="center")
    axes.set(
        xticks=range(len(tokens)),
        xticklabels=tokens,
        yticks=range(len(families)),
        yticklabels=[model_label(model) for model in families],
        xlim=(-0.5, len(tokens) - 0.5),
        ylim=(len(families) - 0.5, -0.5),
        xlabel="number of the token",
    )
    axes.tick_params(length=0)
    return figure


def _cell_words(best: int | None, every: int | None) -> str:
    """Fewest layers of the best run and, in brackets where they differ, of all runs."""
    if best is None:
        return NONE_ENOUGH
    return f"{best}" if best == every else f"{best} ({every or NONE_ENOUGH})"


def caption(found: Results) -> str:
    """Tell what the cells hold and how the models were trained.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("depth").results))
        Fewest layers with which a family reaches 90% at a token of S5...
    """
    training = found["training"]
    depths = ", ".join(
        f"{model_label(model)} {', '.join(by_depth)}" for model, by_depth in found["families"].items()
    )
    return (
        f"Fewest layers with which a family reaches {found['enough']:.0%} at a token of S5: one run of those "
        f"trained; in brackets, where it differs, all of them; {NONE_ENOUGH} if no depth tried does. Share "
        f"of {found['sequences']} fresh sequences. {interval_sentence(found['sequences'])} The same models "
        f"at every token, trained at {_lengths(training)} tokens, not one per length. Depths tried: "
        f"{depths}. {TASK_WORDS[training['task']]} {training_sentence(training)}"
    )


def _lengths(training: Mapping[str, Any]) -> str:
    """The longest sequences of training, and whether there were shorter ones."""
    return f"{'' if training['start_length'] is None else 'up to '}{training['length']}"


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that explicit models need more layers for more tokens, and an implicit one does not.

    Reproduced if every implicit run reaches the last token with one layer, as an LSTM of one layer does, the
    control, and explicit Mamba-2 reaches the first token and takes more layers for the last one, or more than
    were tried. One layer of an LSTM can track S5, and if it does not, what is not reached is not shown to
    need more layers; nor is it if no depth of explicit Mamba-2 reaches the first token. Not reproduced if no
    implicit run reaches the last token; partly otherwise.

    Example:
        >>> judge({"tokens": [4, 32], "families": {}}).word
        'not reproduced'
    """
    first, last = found["tokens"][0], found["tokens"][-1]
    families = found["families"]
    one_layer = families.get("implicit-mamba2", {})
    explicit = families.get("mamba2", {})
    before, after = (fewest_layers(explicit, token, every=False) for token in (first, last))
    because = (
        f"layers for tokens {first} and {last}: implicit Mamba-2 "
        f"{_words(fewest_layers(one_layer, first, every=True))} and "
        f"{_words(fewest_layers(one_layer, last, every=True))} (all runs), explicit Mamba-2 "
        f"{_words(before)} and {_words(after)} (best run)"
    )
    control = fewest_layers(families.get("lstm", {}), last, every=False)
    because += f"; LSTM, which can do with 1, at token {last} {_words(control)}"
    if fewest_layers(one_layer, last, every=False) is None:
        return Verdict("not reproduced", because)
    needs_more = before is not None and (after is None or after > before)
    complete = fewest_layers(one_layer, last, every=True) == 1 and needs_more and control == 1
    return Verdict("reproduced" if complete else "partly", because)


def _words(layers: int | None) -> str:
    return "none of those tried" if layers is None else str(layers)


FIGURE = PaperFigure(
    title="Layers against tokens on S5",
    claim=Claim(
        "explicit models need more layers for longer words of S5; one implicit layer does for all of them",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
