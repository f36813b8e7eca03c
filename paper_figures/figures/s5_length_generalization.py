"""Accuracy against length on S5: one implicit layer, and one, two or four layers of the other families."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import LengthSettings
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import Group, grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.s5_training import (
    ACCURACY,
    FULL_GRIDS,
    GRIDS,
    SETTINGS,
    TASK_WORDS,
    family,
    task_and_length,
    trained_as,
    training_sentence,
)
from paper_figures.figures.shortcuts import shortcuts, shortcuts_sentence

SOLVED_LENGTH = 256
SOLVED_ACCURACY = 0.99
"""A run extrapolates if it is this accurate at that length."""
LEARNT_ACCURACY = 0.5
"""Below it at the length of its training a run did not learn the task, whatever it does beyond."""

EXPERIMENT = Experiment("s5_length_generalization", GRIDS, (ACCURACY,))
FULL = Experiment("s5_length_generalization", FULL_GRIDS, (ACCURACY,))


def collect(outcomes: Sequence[Outcome], settings: LengthSettings = SETTINGS) -> Results:
    """Collect the accuracies, count the runs that extrapolate, and audit the task for shortcuts.

    Example:
        >>> found = collect([])
        >>> found["groups"], found["shortcuts"]["length"]
        ([], 32)
    """
    groups = grouped(outcomes, "accuracy")
    for group in groups:
        accuracies = [accuracy_at(run, SOLVED_LENGTH) for run in group["seeds"].values()]
        group["solved"] = sum(accuracy >= SOLVED_ACCURACY for accuracy in accuracies)
        group["of"] = len(accuracies) + len(group["failed"])
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training": trained_as(outcomes),
        "shortcuts": shortcuts(*task_and_length(outcomes)),
        "groups": groups,
    }


DEPTH_MARKS: dict[int, tuple[str, Any]] = {
    1: ("o", "-"),
    2: ("s", "--"),
    4: ("^", ":"),
    8: ("D", "-."),
    16: ("v", (0, (1, 3))),
}
"""Marker and dashes by the number of layers."""


def depth_look(model: str, layers: int) -> Look:
    """Return the look of a family at a depth: the colour of the model, marker and dashes of the depth.

    Example:
        >>> depth_look("mamba2", 4)
        Look(color='#D55E00', marker='^', dashes=':')
    """
    marker, dashes = DEPTH_MARKS[layers]
    return Look(MODEL_LOOKS[model].color, marker, dashes)


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per family, every run as a thin line.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("s5_length_generalization").results, 6.75).axes)
        6
    """
    lengths = found["settings"]["lengths"]
    models = list(dict.fromkeys(family(group)[0] for group in found["groups"]))
    columns = 2 if width < 5 else 3
    rows = -(-len(models) // columns)
    figure = new_figure(width, (1.0 if width < 5 else 0.7) + 1.55 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, model in zip(panels, models, strict=False):
        for group in found["groups"]:
            if family(group)[0] == model:
                _draw_group(axes, group, lengths)
        axes.axhline(found["shortcuts"]["majority"], color=GREY, linewidth=0.9, linestyle=":")
        axes.axvline(found["training"]["length"], color=GREY, linewidth=0.9, linestyle="--")
        powers_of_two(axes, lengths[::2])
        axes.set(title=model_label(model), ylim=(-0.04, 1.06))
    depths = sorted({family(group)[1] for group in found["groups"]})
    for layers in depths:
        marker, dashes = DEPTH_MARKS[layers]
        label = f"{layers} layer{'s' * (layers > 1)}, mean of the runs"
        panels[0].plot([], [], color=GREY, marker=marker, linestyle=dashes, markersize=4, label=label)
    handles = panels[0].get_lines()[-len(depths) :]
    figure.legend(handles=handles, loc="outside lower center", ncols=1 if width < 5 else 3)
    for axes in panels[-columns:]:
        axes.set_xlabel("tokens")
    figure.supylabel(f"accuracy (last {found['reported_tokens']} tokens)", fontsize="medium")
    return figure


def _draw_group(axes: Axes, group: Group, lengths: Sequence[int]) -> None:
    model, layers = family(group)
    runs = [[accuracy_at(run, length) for length in lengths] for run in group["seeds"].values()]
    label = f"{layers} layer{'s' * (layers > 1)}"
    draw_runs(axes, lengths, runs, depth_look(model, layers), label, breadth=1.4)


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and how many runs extrapolate.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("s5_length_generalization").results))
        Accuracy on S5 against length. ...
    """
    settings = found["settings"]
    return (
        f"Accuracy on S5 against length. {TASK_WORDS[found['training']['task']]} Mean over the last "
        f"{found['reported_tokens']} tokens of {settings['sequences']} fresh sequences (data seed "
        f"{settings['seed']}), the implicit model in {settings['mode']} mode to a relative tolerance of "
        f"{settings['rtol']:g}; dotted: chance, dashed: training length. {RUN_LINES} "
        f"{interval_sentence(settings['sequences'])} {training_sentence(found['training'])} "
        f"{shortcuts_sentence(found['shortcuts'])} Runs with at least {SOLVED_ACCURACY} at {SOLVED_LENGTH} "
        f"tokens: {shares(_solved(found))}."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that one implicit layer extrapolates on S5 where explicit models of any depth here do not.

    Reproduced if all implicit runs do and no run of another family but the LSTM, an RNN, does; not reproduced
    if no implicit run does; partly otherwise. Beside it stands the most that explicit models and the
    Transformer reach at the length of training: if that is less than `LEARNT_ACCURACY`, what they do not
    reach beyond it is not a matter of length; if not, it may be.

    Example:
        >>> judge({"groups": []}).word
        'not reproduced'
    """
    counts = _solved(found)
    lifted, of = counts.get(model_label("implicit-mamba2"), (0, 0))
    because = f"at least {SOLVED_ACCURACY} at {SOLVED_LENGTH} tokens: {shares(counts) or 'no runs'}"
    below = [
        accuracy_at(run, found["training"]["length"])
        for group in found["groups"]
        if family(group)[0] not in ("implicit-mamba2", "lstm")
        for run in group["seeds"].values()
    ]
    if below:
        because += (
            f"; at the {found['training']['length']} tokens of training explicit models and the Transformer "
            f"have at most {max(below):.3f}"
        )
        if max(below) < LEARNT_ACCURACY:
            because += ", so that this is not a matter of length"
    if lifted == 0:
        return Verdict("not reproduced", because)
    recurrent = (model_label("implicit-mamba2"), model_label("lstm"))
    others = sum(runs for name, (runs, _) in counts.items() if not name.startswith(recurrent))
    return Verdict("reproduced" if lifted == of and not others else "partly", because)


def _solved(found: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    for group in found["groups"]:
        label = model_label(family(group)[0])
        runs, of = counts.get(label, (0, 0))
        counts[label] = (runs + group["solved"], of + group["of"])
    return counts


FIGURE = PaperFigure(
    title="Accuracy against length on S5",
    claim=Claim(
        "one implicit Mamba-2 layer trained at 32 tokens tracks S5 far beyond them; explicit models do not",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
