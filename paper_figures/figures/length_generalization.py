"""Accuracy against length on parity: several seeds of implicit Mamba-2, explicit Mamba-2 and LSTM."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY, model_label
from analysis.framework.run_lines import RUN_LINES, breadths, draw_runs
from analysis.length_generalization import LengthSettings, analyse
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import draw_legend, group_label, group_looks, grouped
from paper_figures.figures.intervals import interval_sentence

SETTINGS = LengthSettings(lengths=(32, 64, 128, 256, 512), sequences=512, mode="sequential", seed=0)
SOLVED_LENGTH = 256
SOLVED_ACCURACY = 0.99
"""A run solves parity if it is this accurate at that length."""


def measure(run: Run, settings: LengthSettings) -> dict[str, Any]:
    """Measure the accuracy of a run at every length.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure(load_run("parity"), LengthSettings(lengths=(4,), sequences=2))
        >>> sorted(found), found["chance"]
        (['accuracy', 'chance', 'interval', 'share_converged'], 0.5)
    """
    (numbers,) = analyse(run, settings).numbers().values()
    return {name: numbers[name] for name in ("accuracy", "interval", "share_converged", "chance")}


EXPERIMENT = Experiment(
    "length_generalization",
    (
        Grid({"model": ["implicit-mamba2"], "seed": range(5)}, {"task": "parity", "carried_share": 0.9}),
        Grid(
            {"model": ["mamba2", "lstm"], "carried_share": [0.9, 0.0], "seed": range(3)}, {"task": "parity"}
        ),
    ),
    (Measurement("accuracy", measure, SETTINGS),),
)


def collect(outcomes: Sequence[Outcome], settings: LengthSettings = SETTINGS) -> Results:
    """Collect the accuracies, and count the runs that solve parity; one that failed does not.

    Example:
        >>> collect([])["groups"]
        []
    """
    groups = grouped(outcomes, "accuracy")
    measured = [run for group in groups for run in group["seeds"].values()]
    trained = [outcome.run["training_length"] for outcome in outcomes if "accuracy" in outcome.values]
    for group in groups:
        accuracies = [accuracy_at(run, SOLVED_LENGTH) for run in group["seeds"].values()]
        group["solved"] = {
            "length": SOLVED_LENGTH,
            "accuracy": SOLVED_ACCURACY,
            "runs": sum(accuracy >= SOLVED_ACCURACY for accuracy in accuracies),
            "of": len(accuracies) + len(group["failed"]),
        }
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training_lengths": sorted(set(trained)),
        "chance": sorted({run["chance"] for run in measured}),
        "groups": groups,
    }


def accuracy_at(run: dict[str, Any], length: int) -> float:
    """Return the stored accuracy of a run at a length.

    Example:
        >>> accuracy_at({"accuracy": {"32": 1.0, "256": 0.75}}, 256)
        0.75
    """
    return float(run["accuracy"][str(length)])


def draw(found: Results, width: float) -> Figure:
    """Draw every run as a thin line, and mean and band of each group's runs.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("length_generalization").results, 3.3).axes)
        1
    """
    lengths, groups = found["settings"]["lengths"], found["groups"]
    figure = new_figure(width, 3.4 if width < 5 else 3.2)
    axes = figure.subplots()
    for group, look, breadth in zip(groups, group_looks(groups), breadths(len(groups)), strict=True):
        runs = [[accuracy_at(run, length) for length in lengths] for run in group["seeds"].values()]
        draw_runs(axes, lengths, runs, look, group_label(group["settings"]), breadth=breadth)
    for chance in found["chance"]:
        axes.axhline(chance, color=GREY, linewidth=0.9, linestyle=":", label="chance")
    for length in found["training_lengths"]:
        axes.axvline(length, color=GREY, linewidth=0.9, linestyle="--", label="training length")
    powers_of_two(axes, lengths)
    axes.set(
        xlabel="sequence length (tokens)",
        ylabel=f"accuracy (share of the last {found['reported_tokens']} tokens)",
        ylim=(0.4, 1.04),
        title="Parity: train short, test long",
    )
    draw_legend(axes, columns=1 if width < 5 else 2)
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn and how many runs solve the task.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("length_generalization").results))
        Accuracy on parity against length: ...
    """
    settings = found["settings"]
    solved = "; ".join(
        f"{group_label(group['settings'])}: {group['solved']['runs']} of {group['solved']['of']}"
        for group in found["groups"]
    )
    return (
        f"Accuracy on parity against length: mean over the last {found['reported_tokens']} tokens of "
        f"{settings['sequences']} fresh sequences (data seed {settings['seed']}), implicit models in "
        f"{settings['mode']} mode. {RUN_LINES} {interval_sentence(settings['sequences'])} Lines are drawn "
        "broader the earlier they stand in the legend, so that equal ones show; accuracy begins at 0.4. "
        f"Trained at length {', '.join(map(str, found['training_lengths']))} tokens, {_updates()}. Runs with "
        f"an accuracy of at least {SOLVED_ACCURACY} at length {SOLVED_LENGTH}: {solved}."
    )


def _updates() -> str:
    """When the training of a run ends: after as many updates as it needs."""
    config = EXPERIMENT.points[0].config
    curriculum = config.curriculum
    assert curriculum.growth_accuracy is not None
    assert curriculum.loss_until_error
    return (
        f"each run until {curriculum.final_steps} updates after an accuracy of "
        f"{curriculum.growth_accuracy:g}, at most for {config.steps:,}, the loss of a sequence ending at its "
        "first wrong answer"
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that a fixed point lets Mamba-2 keep parity beyond its training length.

    Reproduced if all implicit runs solve it and no explicit Mamba-2 run does, not reproduced if no implicit
    run does; partly otherwise. What a run has to reach to solve it is `SOLVED_ACCURACY` at `SOLVED_LENGTH`.

    Example:
        >>> judge({"groups": []}).word
        'not reproduced'
    """
    counts: dict[str, tuple[int, int]] = {}
    for group in found["groups"]:
        runs, of = counts.get(label := model_label(group["settings"]["model"]), (0, 0))
        counts[label] = (runs + group["solved"]["runs"], of + group["solved"]["of"])
    lifted, all_lifted = counts.get(model_label("implicit-mamba2"), (0, 0))
    because = f"at least {SOLVED_ACCURACY} at {SOLVED_LENGTH} tokens: {shares(counts) or 'no runs'}"
    if lifted == 0:
        return Verdict("not reproduced", because)
    complete = lifted == all_lifted and counts.get(model_label("mamba2"), (0, 0))[0] == 0
    return Verdict("reproduced" if complete else "partly", because)


FIGURE = PaperFigure(
    title="Accuracy against length on parity",
    claim=Claim(
        "one implicit Mamba-2 layer tracks a state, parity, beyond its training length; explicit ones do not",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
