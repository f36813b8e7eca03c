"""How many self-iterations tokens need on three tasks, in both modes, and what tells those that need many."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.framework.figures import log_axis, new_panels, powers_of_two
from analysis.framework.palette import GREY
from automata.tasks.registry import make_task
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.iterations_at_test import EXPERIMENT as SAME_RUNS
from paper_figures.figures.iterations_at_test import FULL as SAME_FULL_RUNS
from paper_figures.figures.iterations_at_test import TASK_LABELS, TASK_LOOKS
from paper_figures.figures.token_iterations import TokenSettings, measure, measure_hardest
from paper_figures.figures.trained import (
    is_small,
    of_free_phase,
    published_sentences,
    trained_as,
    training_of,
)

SETTINGS = TokenSettings()
FEW, MANY = 8, 16
"""Self-iterations: few are at most the first number, many are more than the second."""
MOST_TOKENS = 0.9
"""Most tokens are at least this share of them."""
FEW_TOKENS = 10
"""The mean of so many tokens, or more, counts as known."""
RAREST, SUBSET = 1e-4, 0.1
"""A small subset is at least and at most this share of the tokens."""

EXPERIMENT = Experiment(
    "iterations_needed",
    SAME_RUNS.grids,
    (
        Measurement("token_iterations", measure, SETTINGS),
        Measurement("hardest_tokens", measure_hardest, SETTINGS),
    ),
)
FULL = Experiment(EXPERIMENT.name, SAME_FULL_RUNS.grids, EXPERIMENT.measurements)


def collect(outcomes: Sequence[Outcome], settings: TokenSettings = SETTINGS) -> Results:
    """Collect what was measured by task and seed.

    Example:
        >>> collect([])["tasks"]
        {}
    """
    tasks: dict[str, dict[str, Any]] = {}
    for group, hardest in zip(
        grouped(outcomes, "token_iterations"), grouped(outcomes, "hardest_tokens"), strict=True
    ):
        both = group["seeds"].keys() & hardest["seeds"].keys()
        seeds = {
            seed: {**run, "hardest": hardest["seeds"][seed]}
            for seed, run in group["seeds"].items()
            if seed in both
        }
        failed = sorted({*group["failed"], *hardest["failed"]})
        tasks[group["settings"]["task"]] = {"seeds": seeds, "failed": failed}
    return {
        "settings": settings.model_dump(mode="json"),
        "training": trained_as(outcomes, EXPERIMENT),
        "tasks": tasks,
    }


def shows_claim(tokens: Mapping[str, Any]) -> bool:
    """Return whether most tokens need few self-iterations and a small subset needs many; see `judge`.

    Args:
        tokens: of one run at one tolerance, as `token_iterations.counted` returns them.

    Example:
        >>> shows_claim({"more_than": {"8": 0.05, "16": 0.01}}), shows_claim({"more_than": {"8": 0, "16": 0}})
        (True, False)
    """
    more_than = tokens["more_than"]
    return more_than[str(FEW)] <= 1 - MOST_TOKENS + 1e-12 and RAREST <= more_than[str(MANY)] <= SUBSET


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that most tokens need few self-iterations and a small subset of them needs many.

    A run shows it at a tolerance if at least `MOST_TOKENS` of its tokens, in sequential mode, need at most
    `FEW` self-iterations, and at least `RAREST` but at most `SUBSET` of them need more than `MANY`.
    Reproduced if all runs show it at both tolerances, 0.01 and 1e-4; not reproduced if no run does at
    either; partly otherwise. The rule was written before the runs were measured. Beside it stands a reading
    that depends less on how far one iterates: the share of tokens that need more than twice the median of
    their run, and the share of all self-iterations that the hardest tenth of the tokens takes.

    Example:
        >>> judge({"settings": {"tolerances": [0.01]}, "tasks": {}}).word
        'not reproduced'
    """
    names = [f"{rtol:g}" for rtol in found["settings"]["tolerances"]]
    failed = sum(len(group["failed"]) for group in found["tasks"].values())
    shown, runs = dict.fromkeys(names, 0), len(list(_runs(found)))
    counted = [(name, run["tolerances"][name]["tokens"]) for _, run in _runs(found) for name in names]
    for name, tokens in counted:
        shown[name] += shows_claim(tokens)
    because = (
        f"runs in which at least {MOST_TOKENS:.0%} of the tokens need at most {FEW} and {RAREST:.2%} to "
        f"{SUBSET:.0%} more than {MANY}: "
        + ", ".join(f"{count} of {runs + failed} at {name}" for name, count in shown.items())
    )
    if counted:
        tails = _range([tokens["more_than_twice_the_median"] for _, tokens in counted])
        hardest = _range([tokens["iterations_of_hardest_tenth"] for _, tokens in counted])
        because += (
            f"; {tails} of the tokens need more than twice the median of their run, and the hardest tenth "
            f"takes {hardest} of all self-iterations"
        )
    if not any(shown.values()):
        return Verdict("not reproduced", because)
    everywhere = all(count == runs for count in shown.values()) and not failed
    return Verdict("reproduced" if everywhere else "partly", because)


def _runs(found: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every run with its task."""
    for task, group in found["tasks"].items():
        for run in group["seeds"].values():
            yield task, run


def _range(shares: Sequence[float]) -> str:
    low, high = (percentage(share) for share in (min(shares), max(shares)))
    return low if low == high else f"{low} to {high}"


def percentage(share: float) -> str:
    """Return a share in percent with two digits, all of them before the point.

    Example:
        >>> percentage(1.0), percentage(0.534), percentage(0.00034)
        ('100%', '53%', '0.034%')
    """
    return f"{100 * share:.0f}%" if share >= 0.0995 else f"{100 * share:.2g}%"


def draw(found: Results, width: float) -> Figure:
    """Draw iterations against length, shares of tokens against iterations, and what explains them.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("iterations_needed").results, 6.75).axes)
        4
    """
    loose, *_, tight = (f"{rtol:g}" for rtol in found["settings"]["tolerances"])
    figure, (length, at_loose, at_tight, kinds) = new_panels(
        width, 4, height=1.95 if width < 5 else 2.25, columns=2
    )
    _draw_lengths(length, found, tight)
    _draw_shares(at_loose, found, loose)
    _draw_shares(at_tight, found, tight)
    _draw_explained(kinds, found, tight)
    tasks = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle="", label=TASK_LABELS[task])
        for task, look in TASK_LOOKS.items()
        if task in found["tasks"]
    ]
    modes = [
        Line2D([], [], color=GREY, linestyle=dashes, label=f"{mode} mode") for mode, dashes in DASHES.items()
    ]
    figure.legend(handles=[*tasks, *modes], loc="outside lower center", ncols=2 if width < 5 else 5)
    return figure


DASHES: dict[str, Any] = {"sequential": "-", "simultaneous": "--"}


def _draw_lengths(axes: Axes, found: Results, tolerance: str) -> None:
    lengths = found["settings"]["lengths"]
    for task, run in _runs(found):
        at, look = run["tolerances"][tolerance], TASK_LOOKS[task]
        sweeps = at["simultaneous"]["sweeps"]
        lines = {
            "sequential": [at["sequential"]["iterations"][str(length)] for length in lengths],
            "simultaneous": [sum(sweeps[str(length)]) / len(sweeps[str(length)]) for length in lengths],
        }
        for mode, values in lines.items():
            axes.plot(
                lengths, values, color=look.color, marker=look.marker, linestyle=DASHES[mode], linewidth=0.8
            )
    axes.axhline(found["settings"]["max_sweeps"], color=GREY, linewidth=0.9, linestyle=":")
    log_axis(axes)
    powers_of_two(axes, lengths)
    axes.set(
        title=f"by length, to {tolerance}", xlabel="length (tokens)", ylabel="self-iterations\nper token"
    )


def _draw_shares(axes: Axes, found: Results, tolerance: str) -> None:
    for task, run in _runs(found):
        numbers, shares = shares_beyond(run["tolerances"][tolerance]["tokens"]["histogram"])
        look = TASK_LOOKS[task]
        axes.step(
            numbers,
            shares,
            where="post",
            color=look.color,
            marker=look.marker,
            markevery=0.06,
            markersize=2.5,
            linewidth=0.9,
        )
    for threshold in found["settings"]["thresholds"]:
        axes.axvline(threshold, color=GREY, linewidth=0.9, linestyle=":")
    axes.set(ylim=(5e-6, 1.6))
    log_axis(axes)
    powers_of_two(axes, (4, 8, 16, 32, 64, 128, 256, 512))
    axes.set(
        xlim=(3, 600),
        title=f"sequential mode, to {tolerance}",
        xlabel="self-iterations k",
        ylabel="tokens that need\nmore than k (share)",
    )


def shares_beyond(histogram: Mapping[str, int]) -> tuple[list[int], list[float]]:
    """Return numbers of self-iterations from 1, and the share of tokens that need more than each.

    Example:
        >>> shares_beyond({"2": 3, "4": 1})
        ([1, 2, 3, 4], [1.0, 0.25, 0.25, 0.0])
    """
    counts = {int(number): tokens for number, tokens in histogram.items()}
    total = sum(counts.values())
    numbers = list(range(1, max(counts) + 1))
    return numbers, [
        sum(tokens for number, tokens in counts.items() if number > limit) / total for limit in numbers
    ]


KINDS = {
    "state changes or not": "state changes",
    "token": "token",
    "last 4 tokens": "last 4 tokens",
    "position": "position",
    "state before": "state",
    "state before and token": "state, token",
}
"""What may tell tokens apart, and its name in the figure."""


def _draw_explained(axes: Axes, found: Results, tolerance: str) -> None:
    tasks = list(found["tasks"])
    for task, run in _runs(found):
        explained, look = run["hardest"][tolerance]["explained"], TASK_LOOKS[task]
        offset = 0.22 * (tasks.index(task) - (len(tasks) - 1) / 2)
        shares = {row: explained[kind]["variance"] for row, kind in enumerate(KINDS)}
        marked = {row: share for row, share in shares.items() if share is not None}
        places = [row + offset for row in marked]
        axes.plot(
            list(marked.values()), places, color=look.color, marker=look.marker, linestyle="", alpha=0.8
        )
    axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
    axes.set(
        title=f"what foretells them, to {tolerance}",
        xlabel="variance explained (share)",
        xlim=(-0.1, 1.05),
        yticks=range(len(KINDS)),
        yticklabels=KINDS.values(),
        ylim=(len(KINDS) - 0.5, -0.5),
    )


def caption(found: Results) -> str:
    """Tell what is drawn, and the numbers that the claim is judged by.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("iterations_needed").results))
        Self-iterations of implicit Mamba-2 ...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    loose, *_, tight = (f"{rtol:g}" for rtol in settings["tolerances"])
    small = is_small(training, EXPERIMENT)
    in_training = "as in training" if small else f"in training {training['free_rtol']:g}"
    trained = (
        "Trained at 32 tokens with a penalty on contraction, which makes fixed points quick to reach."
        if small
        else published_sentences(training)
    )
    easy = ", so these words lack the easy tokens of the claim; it is" if small else "; the claim is"
    first = _times(found, tight, "positions 1 to 1", "mean")
    identities = _times(found, tight, "state stays", "state changes")
    return (
        f"Self-iterations of implicit Mamba-2 at test, from zero, to relative tolerances of {loose} "
        f"({in_training}) and {tight}: {settings['sequences']} sequences of {settings['lengths'][-1]} tokens "
        f"(data seed {settings['seed']}) in sequential mode, {settings['swept_sequences']} of them in "
        "simultaneous mode, where a self-iteration is a sweep over all tokens until the last is done "
        f"(dotted: the limit of {settings['max_sweeps']:,}). {_unconverged(found)} A line or mark per run. "
        f"Tokens that need more than {FEW} to {loose}: {_beyond(found, loose, FEW)}; more than {MANY} to "
        f"{tight}: {_beyond(found, tight, MANY)}. Last panel: variance of the self-iterations that the "
        "means of groups, taken on half of the sequences, explain on the other (state and token: "
        f"{_explained(found, tight)}{_small_groups(found)}), without first tokens, which meet an empty "
        f"state and take {first} times the mean. In training, mean per token over all records"
        f"{of_free_phase(training)}: {_training(found)}. {trained} Identities, the only tokens that leave "
        f"the state as it is, take {identities} times what others take{easy} of answers, too, which can be "
        "right before a tolerance is met."
    )


def _unconverged(found: Results) -> str:
    """Which share of the tokens converged, where not all did."""
    last, said = str(found["settings"]["lengths"][-1]), []
    for rtol in found["settings"]["tolerances"]:
        for mode in DASHES:
            for task in found["tasks"]:
                shares = [
                    run["tolerances"][f"{rtol:g}"][mode]["share_converged"][last]
                    for of, run in _runs(found)
                    if of == task
                ]
                if shares and min(shares) < 1:
                    said.append(f"{TASK_LABELS[task]} {mode} to {rtol:g} {_range(shares)}")
    return f"Not all tokens converged: {'; '.join(said)}." if said else "All tokens converged."


def _beyond(found: Results, tolerance: str, limit: int) -> str:
    """The shares of tokens above a limit, by task."""
    said = []
    for task in found["tasks"]:
        tokens = [run["tolerances"][tolerance]["tokens"] for of, run in _runs(found) if of == task]
        if tokens:
            said.append(f"{TASK_LABELS[task]} {_range([of['more_than'][str(limit)] for of in tokens])}")
    return "; ".join(said) or "none"


def _times(found: Results, tolerance: str, of: str, over: str) -> str:
    """The ratio of two mean numbers of self-iterations: the least and the most of any run."""
    counted = [run["tolerances"][tolerance]["tokens"] for _, run in _runs(found)]
    means = [{**tokens["means"], "mean": tokens["mean"]} for tokens in counted]
    ratios = [mean[of] / mean[over] for mean in means] or [1.0]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def _explained(found: Results, tolerance: str) -> str:
    """What state and token explain, by task."""
    said = []
    for task in found["tasks"]:
        runs = [run["hardest"][tolerance]["explained"] for of, run in _runs(found) if of == task]
        both = [run["state before and token"]["variance"] for run in runs]
        shares = [share for share in both if share is not None]
        if shares:
            said.append(f"{TASK_LABELS[task]} {_range(shares)}")
    return "; ".join(said) or "nothing"


def _small_groups(found: Results) -> str:
    """On which tasks a pair of state and token is so rare that its mean is uncertain; nothing if on none."""
    settings, said = found["settings"], []
    counted = settings["sequences"] // 2 * (settings["lengths"][-1] - 1)
    for name in found["tasks"]:
        task = make_task(name)
        tokens = counted / (task.output_size * task.vocabulary_size)
        if tokens < FEW_TOKENS:
            said.append(f"{TASK_LABELS[name]} {tokens:.1f}")
    return f"; such means are of few tokens, {', '.join(said)} each" if said else ""


def _training(found: Results) -> str:
    said = []
    for task in found["tasks"]:
        means = [
            sum(entry["iterations"] for entry in run["training"]) / len(run["training"])
            for of, run in _runs(found)
            if of == task and run["training"]
        ]
        if means:
            said.append(f"{TASK_LABELS[task]} " + ", ".join(f"{mean:.1f}" for mean in means))
    return "; ".join(said) or "none"


FIGURE = PaperFigure(
    title="Which tokens need many self-iterations",
    claim=Claim(
        "most tokens need few self-iterations, and a small subset of them needs many",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
