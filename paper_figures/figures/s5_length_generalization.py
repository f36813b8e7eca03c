"""Accuracy against length on S5: one implicit layer, and one, two or four layers of the other families."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import LengthSettings, analyse
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import Group, grouped
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.shortcuts import shortcuts, shortcuts_sentence

TASK = "S5-generators"
TASK_WORDS = "Tokens are the identity and four permutations that generate S5."
SETTINGS = LengthSettings(
    lengths=(4, 8, 16, 32, 64, 128, 256, 512, 1024), sequences=256, mode="sequential", seed=0
)
POSITIONS = 32
"""Of so many first tokens the accuracy is stored by position."""
SOLVED_LENGTH = 256
SOLVED_ACCURACY = 0.99
"""A run extrapolates if it is this accurate at that length."""

TRAINING: dict[str, Any] = {
    "task": TASK,
    "length": 32,
    "steps": 2000,
    "start_length": 4,
    "length_growth": 4,
    "length_growth_every": 100,
    "growth_accuracy": None,
    "carried_after": 1200,
}
"""The same sequences for every model: their length follows the number of the update, not the accuracy."""
REFLECTING = {"negative_eigenvalues": True}
"""Of the delta rules: eigenvalues in [-1, 1], so that a step can reflect."""
SEEDS = range(3)
LAYERS = (1, 2, 4)
GRIDS = (
    Grid({"model": ["implicit-mamba2", "lstm"], "seed": SEEDS}, {**TRAINING, "layers": 1}),
    Grid({"model": ["mamba2"], "layers": LAYERS, "seed": SEEDS}, TRAINING),
    Grid({"model": ["deltanet"], "layers": LAYERS, "seed": SEEDS}, {**TRAINING, **REFLECTING}),
    Grid({"model": ["gated-deltaproduct"], "layers": LAYERS[:2], "seed": SEEDS}, {**TRAINING, **REFLECTING}),
    Grid({"model": ["transformer"], "layers": LAYERS[1:], "seed": SEEDS}, TRAINING),
)
"""One implicit layer, and every other family at several depths."""


def measure(run: Run, settings: LengthSettings) -> dict[str, Any]:
    """Measure the accuracy of a run at every length, and at each of the first tokens.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure(load_run("parity"), LengthSettings(lengths=(4,), sequences=2))
        >>> sorted(found), found["by_position"]
        (['accuracy', 'by_position', 'chance', 'interval', 'share_converged'], [1.0, 1.0, 1.0, 1.0])
    """
    (numbers,) = analyse(run, settings).numbers().values()
    kept = {name: numbers[name] for name in ("accuracy", "interval", "share_converged", "chance")}
    return {**kept, "by_position": [float(share) for share in numbers["accuracy_by_position"][:POSITIONS]]}


ACCURACY = Measurement("accuracy", measure, SETTINGS)
EXPERIMENT = Experiment("s5_length_generalization", GRIDS, (ACCURACY,))


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
        "training_length": TRAINING["length"],
        "shortcuts": shortcuts(TASK, TRAINING["length"]),
        "groups": groups,
    }


def family(group: Group) -> tuple[str, int]:
    """Return the model and the number of layers of a group.

    Example:
        >>> family({"settings": {"model": "mamba2", "layers": 4}})
        ('mamba2', 4)
    """
    return group["settings"]["model"], group["settings"].get("layers", 1)


DEPTH_MARKS: dict[int, tuple[str, Any]] = {1: ("o", "-"), 2: ("s", "--"), 4: ("^", ":")}
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
    figure = new_figure(width, 0.5 + 1.55 * rows)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    for axes, model in zip(panels, models, strict=False):
        for group in found["groups"]:
            if family(group)[0] == model:
                _draw_group(axes, group, lengths)
        axes.axhline(found["shortcuts"]["majority"], color=GREY, linewidth=0.9, linestyle=":")
        axes.axvline(found["training_length"], color=GREY, linewidth=0.9, linestyle="--")
        powers_of_two(axes, lengths)
        axes.set(title=model_label(model), ylim=(-0.04, 1.06))
        axes.legend(loc="center right", fontsize="x-small", handlelength=2.2)
    figure.supxlabel("sequence length (tokens)", fontsize="medium")
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
        f"Accuracy on S5 against length. {TASK_WORDS} Mean over the last "
        f"{found['reported_tokens']} tokens of {settings['sequences']} fresh sequences (data seed "
        f"{settings['seed']}), the implicit model in {settings['mode']} mode to a relative tolerance of "
        f"{settings['rtol']:g}; dotted: chance, dashed: training length. {RUN_LINES} {training_sentence()} "
        f"{shortcuts_sentence(found['shortcuts'])} Runs with at least {SOLVED_ACCURACY} at "
        f"{SOLVED_LENGTH} tokens: {shares(_solved(found))}."
    )


def training_sentence() -> str:
    """Say how the models of this experiment were trained, and where they differ.

    Example:
        >>> training_sentence()
        'All models saw sequences of the same lengths, 4 tokens and 4 more every 100 updates up to 32, ...'
    """
    config = EXPERIMENT.points[0].config
    return (
        f"All models saw sequences of the same lengths, {TRAINING['start_length']} tokens and "
        f"{TRAINING['length_growth']} more every {TRAINING['length_growth_every']} updates up to "
        f"{TRAINING['length']}, in batches of {config.batch_size}, for {TRAINING['steps']:,} updates, with "
        f"width {config.sizes['d_model']} and one learning rate, {config.optimizer.learning_rate:g}, chosen "
        "on implicit Mamba-2; numbers of parameters differ. "
        f"After {TRAINING['carried_after']:,} updates nine in ten sequences whose last answers were right "
        "went on in the next batch, except for the Transformer; which ones depends on the model. Delta rules "
        "have eigenvalues in [-1, 1]."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that one implicit layer extrapolates on S5 where explicit models of any depth here do not.

    Reproduced if all implicit runs do and no run of another family but the LSTM, an RNN, does; not reproduced
    if no implicit run does; partly otherwise.

    Example:
        >>> judge({"groups": []}).word
        'not reproduced'
    """
    counts = _solved(found)
    lifted, of = counts.get(model_label("implicit-mamba2"), (0, 0))
    because = f"at least {SOLVED_ACCURACY} at {SOLVED_LENGTH} tokens: {shares(counts) or 'no runs'}"
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
        "one implicit Mamba-2 layer trained at 32 tokens tracks S5 at 128 and beyond; explicit models do not",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
