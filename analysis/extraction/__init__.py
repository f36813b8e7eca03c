"""The automaton that a network learned: ``python -m analysis.extraction RUN [RUN ...]``.

The automaton behind the model (`analysis.extraction.state_merging`) is compared with the task's: either no
word tells them apart, or a shortest one does, and then the model itself is asked that word. How well the
automaton describes the model is measured on fresh words: the share of tokens at which both answer alike.
"""

from collections import defaultdict
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray
from torch import Tensor

from analysis.extraction.state_merging import (
    Difference,
    Extraction,
    ExtractionSettings,
    Reader,
    extract_machine,
    first_difference,
    shortest_difference,
)
from analysis.framework.analysis import EachRunAnalysis
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.finding import Answer, Finding, Rows, for_title
from analysis.framework.needs import CONSTANT_STATE, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.palette import GREY, QUANTITY_LOOKS
from analysis.framework.settings import settings_from
from analysis.framework.terminal import percent
from automata.drawing import COLORS, draw_dfa_or_table, in_legend, show_plainly
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.mealy import MealyMachine
from automata.tasks.final_answers import Recognition
from automata.tasks.interface import Task
from implicit.fixed_point import Stopping
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch

__all__ = ["ANALYSIS", "Difference", "ExtractionAnalysis", "ExtractionSettings", "analyse", "draw", "main"]

UNNAMED = ("automaton", "word problem")
"""The names of tasks that were given none."""
Verdict = Literal["equivalent", "differs", "inconclusive"]
COLUMNS = (
    "states: two that give the same answers to all further words count as one. against: votes against the "
    "majority. fidelity, longest: share of tokens at which model and automaton agree on fresh words, of the "
    "sequences' length and of the longest. follows for: tokens for which that share is as demanded (0: for "
    "none, –: for all). Where the votes against are more than a few per cent, the states are not cleanly "
    "apart, and their number says little."
)
TRANSITIONS = "a row for every state, the initial one first; a state is named by the answers that lead to it."
LARGEST_TABLE = 12  # states, and tokens, that a terminal has space for


@dataclass(frozen=True, eq=False)
class ExtractionAnalysis(Answer):
    """The result of `analyse`."""

    run: RunIdentity
    settings: ExtractionSettings
    task: Task  # what the model was trained on
    length: int  # tokens of the sequences whose states were looked at
    extraction: Extraction  # the automaton and how it came about
    # where model and automaton give the same answer on fresh words, ``[words, longest]``; nowhere if there is
    # no automaton
    agrees: NDArray[np.bool_]
    correct: NDArray[np.bool_]  # where the model gives the task's answer, ``[words, longest]``
    # on a shortest word that tells the extracted from the task's automaton; None if no word does, or there is
    # no automaton
    difference: Difference | None
    # the earliest token of the fresh words at which model and automaton differ; None if none
    departure: Difference | None
    # the earliest token of the fresh words at which the model is wrong; None if none
    first_error: Difference | None
    share_converged: float  # of all tokens that were read

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths at which figures are given: that of the sequences, and its doubles."""
        doubles = [self.length * 2**power for power in range(self.settings.times.bit_length())]
        return tuple(sorted({*doubles, self.agrees.shape[1]}))

    def fidelity(self, length: int) -> float:
        """Return the share of tokens, in fresh words of a length, at which model and automaton agree."""
        return float(self.agrees[:, :length].mean())

    def accuracy(self, length: int) -> float:
        """Return the share of tokens, in fresh words of a length, at which the model is right."""
        return float(self.correct[:, :length].mean())

    @property
    def describes(self) -> bool:
        """Return whether the automaton describes the model up to the length of the sequences."""
        return self.fidelity(self.length) >= self.settings.demanded

    @property
    def verdict(self) -> Verdict:
        """*differs* only if the model itself does; *equivalent* only if the automaton describes the model."""
        if self.difference is not None and self.difference.model_is_wrong:
            return "differs"
        if self.extraction.machine is not None and self.difference is None and self.describes:
            return "equivalent"
        return "inconclusive"

    @property
    def departs_after(self) -> int | None:
        """The tokens after which fresh words fall below the demanded fidelity; None if they do not.

        They end before the first token that is below it and in ten tokens whose mean is, too.
        """
        share, demanded = self.agrees.mean(axis=0), self.settings.demanded
        tens = np.lib.stride_tricks.sliding_window_view(share, min(10, len(share)))
        short = tens < demanded
        below = np.flatnonzero((tens.mean(axis=1) < demanded) & short.any(axis=1))  # means round
        return int(below[0] + np.argmax(short[below[0]])) if below.size else None

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        machine = self.extraction.machine
        task = "the task" if self.task.name in UNNAMED else self.task.name
        longest = self.agrees.shape[1]
        near, far = (percent(self.fidelity(length), 2) for length in (self.length, longest))
        follows = f"the model follows it at {near} of tokens at length {self.length} and {far} at {longest}"
        if machine is None:
            return (
                f"inconclusive: more than {self.settings.max_states} classes of states after "
                f"{len(self.extraction.suffixes)} suffixes; the model does not act like a smaller automaton"
            )
        if self.verdict == "equivalent":
            departs = f"; not always: {self.departure.sentence(self.task)}" if self.departure else ""
            return f"equivalent to the automaton of {task}: {machine.state_count} states; {follows}{departs}"
        if self.difference is not None and self.verdict == "differs":
            return f"differs: {self.difference.sentence(self.task)}; {machine.state_count} states; {follows}"
        why = (
            f"the automaton, of {machine.state_count} states, is that of {task}"
            if self.difference is None
            else f"no automaton of {machine.state_count} states describes the model"
        )
        where = self.departure or self.difference
        return f"inconclusive: {why}, but {follows}{f'; {where.sentence(self.task)}' if where else ''}"

    @property
    def finding(self) -> Finding:
        """The verdict, the size of the automaton, and how well it describes the model."""
        machine, departs = self.extraction.machine, self.departs_after
        row = [
            "–" if machine is None else str(machine.state_count),
            f"{self.extraction.inconsistent:.2%}",
            percent(self.fidelity(self.length), 2),
            percent(self.fidelity(self.agrees.shape[1]), 2),
            "–" if departs is None else str(departs),
            self.verdict,
        ]
        columns = ["states", "against", "fidelity", "longest", "follows for", "verdict"]
        lost = (
            f"{percent(1 - self.share_converged, 2)} of the tokens that were read have no converged fixed "
            "point, and later ones rest on them; raise max_iterations, loosen rtol, or train on (a run that "
            "ended in the bounded phase has not learnt to converge)"
        )
        return Finding(
            self.sentence,
            [Rows(columns, [row], title="automata behind the models", note=COLUMNS), *self._transitions],
            limits="The two automata are compared exactly. That the model follows its automaton is "
            "measured on fresh words, and says nothing of other words.",
            warnings=[lost] if self.share_converged < 1 else [],
            holds=self.verdict == "equivalent",
            verdict=self.verdict,
        )

    @cached_property
    def dfa(self) -> DFA:
        """The automaton with names, as `automata.draw_dfa` draws it; no state accepts.

        A state is named by the answers that lead to it, behind its number where these are those of another,
        too. InputError where there are too many states to be listed.
        """
        machine, labels = self.extraction.machine, state_labels(self)
        if machine is None:
            raise InputError(f"the extraction has no automaton: {self.sentence}")
        several = len({*labels}) < len(labels)
        states = [f"{number} {label}" if several else label for number, label in enumerate(labels)]
        return DFA.from_table(machine.table, machine.initial, (), states, self.task.token_names)

    @property
    def _transitions(self) -> list[Rows]:
        """The table of an automaton that has space in a terminal."""
        machine, tokens = self.extraction.machine, self.task.token_names
        if machine is None or machine.state_count > LARGEST_TABLE or len(tokens) > LARGEST_TABLE:
            return []
        labels = state_labels(self)
        names = [
            label if labels.count(label) == 1 else f"{label} ({state})" for state, label in enumerate(labels)
        ]
        order = [machine.initial, *(state for state in range(len(names)) if state != machine.initial)]
        rows = [[names[state], *(names[after] for after in machine.table[state])] for state in order]
        return [Rows(["state", *tokens], rows, title="next state by state and token", note=TRANSITIONS)]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON; states are numbers, answers and tokens too, with their names beside."""
        found, machine = self.extraction, self.extraction.machine
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "automaton": None
            if machine is None
            else {
                "states": machine.state_count,
                "table": machine.table,
                "answers": machine.answers,
                "initial": machine.initial,
                "token_names": self.task.token_names,
                "answer_names": self.task.target_names,
            },
            "classes": found.classes,
            "reachable_classes": found.reachable,
            "suffixes": found.suffixes,
            "votes": found.votes,
            "inconsistent_votes": found.inconsistent,
            "stray_states": found.stray,
            "length": self.length,
            "fidelity": {length: self.fidelity(length) for length in self.lengths},
            "accuracy": {length: self.accuracy(length) for length in self.lengths},
            "fidelity_by_position": self.agrees.mean(axis=0),
            "accuracy_by_position": self.correct.mean(axis=0),
            "departs_after": self.departs_after,
            "difference": None if self.difference is None else asdict(self.difference),
            "departure": None if self.departure is None else asdict(self.departure),
            "first_error": None if self.first_error is None else asdict(self.first_error),
            "share_converged": self.share_converged,
        }


def analyse(run: Run, settings: ExtractionSettings | None = None, **chosen: Any) -> ExtractionAnalysis:
    """Extract the automaton behind a model and compare it with the task's.

    The run is of a word problem, or of the recognition of a language at all lengths; its state has a constant
    size. Settings can be given by name instead. InputError for a bad setting, another task, or a model whose
    state grows.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=8, length=8, fresh_words=4, times=2)
        >>> found.sentence
        'equivalent to the automaton of parity: 2 states; the model follows it at 100.00% of tokens at ...'
    """
    settings = settings_from(ExtractionSettings, chosen, settings)
    CONSTANT_STATE.require(run)
    length = settings.length or run.reading_length
    task, exact, first_asked = _with_machine(run)
    reader = Reader(run.model, Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations))
    tokens = _words(task, settings.sequences, length, settings.seed, 0)
    extraction = extract_machine(reader, tokens, task.vocabulary_size, settings)
    # Another batch of the test stream than that of the sequences, whose number is 0.
    fresh = _words(task, settings.fresh_words, settings.times * length, settings.seed, 1)
    asked = np.arange(1, fresh.shape[1] + 1) >= first_asked
    answers, labels = reader.answers(fresh) * asked, exact.read(fresh.numpy()) * asked
    machine, difference, departure, first_error = extraction.machine, None, None, None
    correct = answers == labels
    agrees = np.zeros(answers.shape, dtype=np.bool_)
    if machine is not None:
        replies = machine.read(fresh.numpy()) * asked
        agrees = answers == replies
        first = partial(first_difference, fresh.numpy(), answers, replies, labels)
        departure, first_error = first(agrees), first(correct)
        one, other = (_silent_before(known, first_asked) for known in (machine, exact))
        difference = shortest_difference(reader, one, other, task)
    return ExtractionAnalysis(
        RunIdentity.of(run),
        settings,
        task,
        length,
        extraction,
        agrees,
        correct,
        difference,
        departure,
        first_error,
        1 - reader.counts["unconverged"] / reader.counts["tokens"],
    )


def _with_machine(run: Run) -> tuple[Task, MealyMachine, int]:
    """The task of a run, the machine that says what is right, and the least length at which it is asked."""
    if not isinstance(run.task, Recognition):
        task = word_problem_of(run)
        return task, task.machine(), 1
    first = run.task.first_asked()
    if first is None:
        raise InputError(
            f"run {run.name} was trained on the task {run.task.name}, which never asks at some lengths: "
            "what the model answers there has no meaning, so no automaton follows from it; give the run of a "
            "language with words in and out of it at every length"
        )
    return run.task, run.task.machine(), first


def _silent_before(machine: MealyMachine, first: int) -> MealyMachine:
    """The machine with the answer 0 to tokens before the length at which the task asks first."""
    if first == 1:
        return machine
    states = machine.state_count
    later = np.minimum(np.arange(1, first + 1), first - 1)[:, None, None] * states
    spoken = (np.arange(first) >= first - 1)[:, None, None]
    shape = first * states, machine.token_count
    return MealyMachine(
        (machine.table + later).reshape(shape), (machine.answers * spoken).reshape(shape), machine.initial
    )


def _words(task: Task, count: int, length: int, seed: int, number: int) -> Tensor:
    """Draw whole words of the test stream; behind a shorter one follow tokens at random."""
    batch = draw_batch(task, count, length, seed, Stream.TEST, number)
    if batch.lengths is None:
        return batch.tokens
    generator = torch.Generator().manual_seed(seed)
    more = torch.randint(task.vocabulary_size, batch.tokens.shape, generator=generator)
    return torch.where(torch.arange(length) < batch.lengths[:, None], batch.tokens, more)


LARGEST_SHOWN = 24  # an automaton of more states is given in the JSON only


def draw(found: ExtractionAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw the automaton, if small, the visited states coloured by class, and the fidelity by position."""
    with styled():
        figure, (automaton, states, positions) = new_panels(
            width, 3, **for_title(found.run.title, found.finding), height=2.7
        )
        automaton.set_title("extracted automaton")
        _draw_states(states, found)
        _draw_positions(positions, found)
        show_plainly(*figure.findobj(Text))
        _draw_automaton(automaton, found)
        return figure


def state_labels(found: ExtractionAnalysis) -> list[str]:
    """Return for every state of the automaton the answers that lead to it, at most three.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> state_labels(analyse(load_run("parity"), sequences=8, length=8, fresh_words=4))
        ['0', '1']
    """
    machine, names = found.extraction.machine, found.task.target_names
    if machine is None:
        return []
    answers: defaultdict[int, set[int]] = defaultdict(set)
    for target, answer in zip(machine.table.ravel().tolist(), machine.answers.ravel().tolist(), strict=True):
        answers[target].add(answer)
    return [
        "/".join(names[answer] for answer in sorted(answers[state])[:3]) or "-"
        for state in range(machine.state_count)
    ]


def _draw_automaton(axes: Axes, found: ExtractionAnalysis) -> None:
    machine = found.extraction.machine
    if machine is None or machine.state_count > LARGEST_SHOWN:
        size = "too many" if machine is None else str(machine.state_count)
        axes.set_axis_off()
        axes.text(0.5, 0.5, f"{size} states", ha="center", va="center", transform=axes.transAxes)
    else:
        labels: dict[object, str] = dict(zip(found.dfa.states, state_labels(found), strict=True))
        draw_dfa_or_table(found.dfa, axes, labels)
        if axes.tables:
            axes.set_title("extracted automaton:\nnext states")


def _draw_states(axes: Axes, found: ExtractionAnalysis) -> None:
    """Project the visited states to their first two principal components."""
    vectors, classes = found.extraction.vectors, found.extraction.visited_class
    centred = vectors - vectors.mean(dim=0)
    # The eigenvectors of the smaller of the two matrices of inner products are the cheaper way.
    if centred.shape[0] < centred.shape[1]:
        values, basis = torch.linalg.eigh(centred @ centred.T)
        places = basis[:, -2:] * values[-2:].clamp_min(0).sqrt()
    else:
        values, basis = torch.linalg.eigh(centred.T @ centred)
        places = centred @ basis[:, -2:]
    reachable = classes < found.extraction.reachable
    # a state of one number has one component only
    first, second = (places.flip(dims=(1,)) if places.shape[1] > 1 else places.repeat(1, 2)).T.numpy()
    labels = state_labels(found)
    # more classes than colours cannot be told apart, and merged ones have no name of their own
    named = len(labels) == found.extraction.reachable <= len(COLORS)
    for number in np.unique(classes[reachable]).tolist():
        axes.scatter(
            first[classes == number],
            second[classes == number],
            s=5,
            color=COLORS[number % len(COLORS)],
            linewidths=0,
            label=in_legend(labels[number]) if named else None,
        )
    if not reachable.all():
        axes.scatter(first[~reachable], second[~reachable], s=10, c=GREY, marker="x", label="stray")
    if axes.get_legend_handles_labels()[1]:
        legend_below(axes, columns=3)
    share = float(values[-2:].sum() / values.sum().clamp_min(torch.finfo(values.dtype).tiny))
    axes.set(
        title="visited states by class",
        xlabel="first principal component",
        ylabel=f"second ({share:.0%} of variance in both)",
    )


def _draw_positions(axes: Axes, found: ExtractionAnalysis) -> None:
    x = np.arange(1, found.agrees.shape[1] + 1)
    for name, shares, label, breadth in (
        ("accuracy", found.correct, "accuracy (model right)", 3.0),
        ("fidelity", found.agrees, "fidelity (model as automaton)", None),
    ):
        color = QUANTITY_LOOKS[name].color
        axes.plot(x, shares.mean(axis=0), color=color, linewidth=breadth, label=label)
    axes.axvline(found.length, color=GREY, linestyle="--", linewidth=0.8, label="length of the sequences")
    axes.set(title="fresh words", xlabel="position of the token", ylabel="share of words", ylim=(-0.02, 1.03))
    legend_below(axes)


ANALYSIS = EachRunAnalysis(
    name="extraction",
    question="Which automaton did the model learn, and which shortest word tells it from its task?",
    description="Extract the automaton behind a model and compare it with that of its task.",
    settings=ExtractionSettings,
    measure=analyse,
    draw=draw,
    shows="Left: the automaton extracted from the states that sequences visit. A state is named by the "
    "answers that lead to it. A graph whose labels would overlap is given as its transition table: a row "
    "for every state, the initial one first, and a column for every token; by its size if even that has no "
    "space. Middle: visited states by "
    "class, on their first two principal components. Right: shares of fresh words.",
    needs=CONSTANT_STATE,
)
main = ANALYSIS.main
