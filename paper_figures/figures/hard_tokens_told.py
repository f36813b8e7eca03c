"""What is told of training on few hard tokens: the drawing, the caption and the verdict, of any group."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.figures import new_panels
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from automata.tasks.registry import make_task
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import TRAINING, Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import Results
from paper_figures.figures.groups import Group, grouped
from paper_figures.figures.hard_tokens_experiments import EXPERIMENTS, FULL, ON_S3, full_cost, tokens_trained
from paper_figures.figures.hard_tokens_measured import MODES, NO_LIMIT
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.shortcuts import shortcuts
from paper_figures.figures.trained import Training, is_small, published_sentences, trained_as, training_of

LIMITED = {
    "sequential": "self-iterations per token, at most",
    "simultaneous": "sweeps over the sequence, at most",
}
"""What the limit is of, by mode."""
FRACTION_LOOKS = {
    0.02: Look("#CC79A7", "v", ":"),
    0.05: Look("#56B4E9", "D", ":"),
    0.1: Look("#0072B2", "o"),
    0.25: Look("#E69F00", "P", "--"),
    0.5: Look("#D55E00", "s", "--"),
    1.0: Look("#009E73", "^", "-."),
}
"""By the probability of a hard token in training."""

TRAINED, TESTED, ENOUGH = 0.1, 0.5, 8
"""What is claimed: the share of hard tokens in training and at test, and the self-iterations that suffice."""
TOLD = ("4", "8", "16")
"""Self-iterations of which the caption tells how many tokens take more."""
SOLVED_ACCURACY = 0.99
"""A run solves the task if it is this accurate."""

GROUPS = {"S3xM": "S3", "A5-generatorsxM": "A5", "A5xM": "A5"}
"""The group of a task, for readers."""
TOKENS = {"A5-generatorsxM": ", the identity and three generators of A5 with each of the memory's four"}
"""What the tokens of a task are, where they are not all pairs."""
SMALLER = {
    "S3xM": "with S3 in place of A5 and few updates, ",
    "A5-generatorsxM": "with three generators of A5 and few updates, ",
}
"""What of the paper's setting was not run, by task."""
LEFT_OUT = {"A5-generatorsxM": " with an initial decay that is not set here"}
"""What the trial had that chose the training of a task, and the runs do not have."""


def collect_from(outcomes: Sequence[Outcome], experiment: Experiment) -> Results:
    """Collect what was measured by the hard tokens of training, audit the tests, and tell what a token cost.

    Args:
        outcomes: what came of the runs.
        experiment: the small one of the figure, which stands for the runs if there are none; its settings are
            those of what was measured, at the size of the paper, too.

    Example:
        >>> found = collect_from([], ON_S3)
        >>> found["groups"], found["seconds_per_token"], found["shortcuts"]["0.5"]["length"]
        ([], None, 256)
    """
    (measurement,) = experiment.measurements
    settings = measurement.settings_json
    points = [outcome.point for outcome in outcomes] or experiment.points
    task = str(points[0].all_settings["task"])
    trained = [outcome for outcome in outcomes if TRAINING in outcome.records]
    tokens = sum(tokens_trained(outcome.point.config) for outcome in trained)
    seconds = sum(outcome.records[TRAINING].seconds for outcome in trained)
    return {
        "task": task,
        "settings": settings,
        "reported_tokens": REPORTED_TOKENS,
        "training": trained_as(outcomes, experiment),
        "seconds_per_token": seconds / tokens if tokens else None,
        "shortcuts": {
            str(fraction): shortcuts(task, settings["length"], fraction)
            for fraction in settings["hard_fractions"]
        },
        "groups": grouped(outcomes, "limits"),
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a row of panels per mode, a panel per test and a line per training, every run thin.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("hard_tokens_in_training").results, 6.75).axes)
        4
    """
    settings = found["settings"]
    limits = [*map(str, settings["limits"]), NO_LIMIT]
    asked = [(mode, str(fraction)) for mode in MODES for fraction in settings["hard_fractions"]]
    figure, panels = new_panels(width, len(asked), height=1.8 if width < 5 else 2.2, columns=2)
    beside = 1 if width < 5 else 2
    for number, (axes, (mode, fraction)) in enumerate(zip(panels, asked, strict=True)):
        for group in found["groups"]:
            in_training = group["settings"]["hard_fraction"]
            runs = [list(run[fraction][mode].values()) for run in group["seeds"].values()]
            label = f"trained on {_percent(in_training)} hard"
            draw_runs(axes, range(len(limits)), runs, FRACTION_LOOKS[in_training], label, breadth=1.4)
        axes.axhline(found["shortcuts"][fraction]["accuracy"], color=GREY, linewidth=0.9, linestyle=":")
        axes.set_xticks(range(len(limits)), limits)
        axes.set(title=f"{mode}, {_percent(fraction)} hard at test", ylim=(-0.04, 1.06))
        if number % beside == 0:
            axes.set_ylabel(f"accuracy (last {found['reported_tokens']})")
        axes.set_xlabel(LIMITED[mode])
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=1 if width < 5 else 2
    )
    return figure


def _percent(fraction: float | str) -> str:
    return f"{100 * float(fraction):g}%"


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and what tokens take without a limit.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("hard_tokens_in_training").results))
        Accuracy of implicit Mamba-2 on S3 times a memory with three resets, 24 tokens, ...
    """
    settings, group = found["settings"], GROUPS[found["task"]]
    experiment = _experiment(found)
    audits = dict.fromkeys(f"{audit['accuracy']:.3f}" for audit in found["shortcuts"].values())
    window = next(iter(found["shortcuts"].values()))["window"]
    tokens = make_task(found["task"]).vocabulary_size
    return (
        f"Accuracy of implicit Mamba-2 on {group} times a memory with three resets, {tokens} tokens"
        f"{TOKENS.get(found['task'], '')}, against the most self-iterations allowed at test. Hard tokens are "
        f"drawn from all {tokens}, easy ones from the four that leave {group} as it is. Mean over the last "
        f"{found['reported_tokens']} of "
        f"{settings['length']} tokens of {settings['sequences']} fresh sequences answered token after token "
        f"(sequential), of the first {settings['swept_sequences']} in sweeps over the whole sequence "
        f"(simultaneous); data seed {settings['seed']}, relative tolerance {settings['rtol']:g}, none: at "
        f"most {settings['no_limit']:,}. Dotted: the best answer on the last {window} tokens, "
        f"{' and '.join(audits)}. {interval_sentence(settings['sequences'], 'sequential accuracy')} "
        f"{interval_sentence(settings['swept_sequences'], 'accuracy in sweeps')} {RUN_LINES} "
        f"{_training(training_of(found, experiment), experiment)} Sequentially without a limit, lowest to "
        f"highest run: {_accuracies(found['groups'], settings['hard_fractions'])}. "
        f"{_effort(found['groups'], group)} {_cost(found)}"
    ).strip()


def _experiment(found: Results) -> Experiment:
    """The small one of the task; that of S3 for the task of the paper, as both have one figure."""
    return EXPERIMENTS.get(found["task"], ON_S3)


def _training(training: Training, experiment: Experiment) -> str:
    """How the models were trained."""
    if not is_small(training, experiment):
        return published_sentences(training)
    config = experiment.points[0].config
    curriculum = config.curriculum
    own = "where the loss of a sequence ends, and which go on, depends"
    if not curriculum.loss_until_error:
        own = "which sequences go on depends"
    return (
        f"All models: {config.steps:,} updates of {config.batch_size} sequences of {curriculum.start_length} "
        f"tokens, {curriculum.length_growth} more every {curriculum.length_growth_every} updates up to "
        f"{config.length}; after {curriculum.carried_after} updates {_percent(curriculum.carried_share)} of "
        "the sequences that are right and reached their fixed points go on in the next. The setting was "
        f"chosen on {_percent(TRAINED)} hard tokens in training, by one seed's accuracy at both tests, on "
        f"other sequences{LEFT_OUT.get(training['task'], '')}; {own} on the model's answers."
    )


def _accuracies(groups: Sequence[Group], fractions: Sequence[float]) -> str:
    """The lowest and the highest accuracy of a run without a limit, sequentially, by training and test."""
    said = []
    for group in groups:
        tested = []
        for fraction in fractions:
            runs = [run[str(fraction)]["sequential"][NO_LIMIT] for run in group["seeds"].values()]
            reached = f"{min(runs):.3f} to {max(runs):.3f}" if runs else "no run"
            tested.append(f"{reached} at {_percent(fraction)}")
        said.append(f"trained on {_percent(group['settings']['hard_fraction'])} {' and '.join(tested)}")
    return "; ".join(said) or "no run"


def _effort(groups: Sequence[Group], group: str) -> str:
    """What tokens take in the runs that the claim is about."""
    runs = [run[str(TESTED)] for run in _claimed(groups)["seeds"].values()]
    if not runs:
        return ""
    easy, hard = (_mean(run["iterations"][kind] for run in runs) for kind in ("easy", "hard"))
    above = {limit: 100 * _mean(run["share_above"][limit] for run in runs) for limit in TOLD}
    shares = ", ".join(f"{share:.1f}% over {limit}" for limit, share in above.items())
    converged = 100 * _mean(run["share_converged"] for run in runs)
    return (
        f"Trained on {_percent(TRAINED)} and tested on {_percent(TESTED)}, a token then takes {easy:.1f} "
        f"self-iterations where {group} rests and {hard:.1f} where it moves (mean of {len(runs)} runs; "
        f"{shares}; {converged:.1f}% converge)."
    )


def _claimed(groups: Sequence[Group]) -> Group:
    """The runs that the claim is about."""
    return _trained_on(groups, TRAINED)


def _trained_on(groups: Sequence[Group], fraction: float) -> Group:
    nothing: Group = {"settings": {}, "seeds": {}, "failed": []}
    return next((group for group in groups if group["settings"]["hard_fraction"] == fraction), nothing)


def _unlimited(group: Group, fraction: float) -> str:
    """The accuracy of every run at a share of hard tokens, sequentially, without a limit."""
    return ", ".join(f"{run[str(fraction)]['sequential'][NO_LIMIT]:.3f}" for run in group["seeds"].values())


def _mean(values: Iterable[float]) -> float:
    several = list(values)
    return sum(several) / len(several)


def _cost(found: Results) -> str:
    """What the setting of the paper would cost, as an estimate; nothing if it is that setting."""
    seconds_per_token = found["seconds_per_token"]
    if found["task"] not in EXPERIMENTS or seconds_per_token is None:
        return ""
    cost, width = full_cost(seconds_per_token, _experiment(found)), FULL.points[0].config.sizes["d_model"]
    return (
        f"The paper's setting, A5 times a four-element monoid, width {width}, {cost['tokens'] / 1e9:.1f} "
        f"billion tokens per run, was not trained here: estimated from our {1e6 * seconds_per_token:.0f} µs "
        f"per token in proportion to the cell's weights, {cost['days']:,.0f} days of this core per run."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that training on 10% hard tokens generalises to 50%, and that 8 self-iterations suffice there.

    A run trained at 0.1 shows it in a mode if, with 0.5 at test, it is right at no less than 0.99 of the last
    tokens of the sequences without a limit, and with at most 8 self-iterations no more than 0.01 less often.
    Reproduced if all of these runs show it in both modes; not reproduced if none does in either; partly
    otherwise.

    Example:
        >>> judge({"task": "S3xM", "groups": []}).word
        'not reproduced'
    """
    group = _claimed(found["groups"])
    runs = [run[str(TESTED)] for run in group["seeds"].values()]
    of = len(runs) + len(group["failed"])
    shown = {mode: sum(_shows(run[mode]) for run in runs) for mode in MODES}
    because = SMALLER.get(found["task"], "")
    because += f"of {of} runs trained on {_percent(TRAINED)} hard tokens and tested on {_percent(TESTED)}: "
    because += "; ".join(f"{mode} mode {_counted(runs, mode)}" for mode in MODES)
    told = [f"tested on {_percent(TRAINED)} they reach {_unlimited(group, TRAINED)}"] if runs else []
    control = _trained_on(found["groups"], TESTED)
    if control["seeds"] or control["failed"]:
        reached = _unlimited(control, TESTED) or "no accuracy"
        failed = f" ({len(control['failed'])} failed)" if control["failed"] else ""
        told.append(f"those trained on {_percent(TESTED)} reach {reached} at {_percent(TESTED)}{failed}")
    if told:
        because += f"; {'; '.join(told)} (sequential, without a limit)"
    if not any(shown.values()):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if min(shown.values()) == of else "partly", because)


def _counted(runs: Sequence[Mapping[str, Any]], mode: str) -> str:
    solved = sum(run[mode][NO_LIMIT] >= SOLVED_ACCURACY for run in runs)
    reached = ", ".join(f"{run[mode][NO_LIMIT]:.3f}" for run in runs)
    return (
        f"{solved} reach {SOLVED_ACCURACY:g} without a limit ({reached or 'no run'}), "
        f"{sum(_shows(run[mode]) for run in runs)} with {ENOUGH} self-iterations too"
    )


def _shows(accuracy: Mapping[str, float]) -> bool:
    unlimited = accuracy[NO_LIMIT]
    return unlimited >= SOLVED_ACCURACY and accuracy[str(ENOUGH)] >= unlimited - 0.01


CLAIM = Claim(
    "trained on 10% hard tokens, implicit SSMs generalise to 50%, and 8 self-iterations suffice at 256 "
    "tokens",
    f"{IMPLICIT_ARE_RNNS}; numbers from a secondary source",
    judge,
)
