"""What automaton did the network learn? ``python -m analysis.extraction RUN [RUN ...]``.

The automaton behind the model (`analysis.extraction.state_merging`) is compared with the task's: either no
word tells them apart, or a shortest one does, and then the model itself is asked that word. How well the
automaton describes the model is measured on fresh words: the share of tokens at which both answer alike.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.extraction.behaviour import IntArray, Reader
from analysis.extraction.state_merging import Effort, Extraction, extract_machine
from analysis.framework.needs import CONSTANT_STATE, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.settings import settings_from
from analysis.framework.visited_states import sample_sequences
from automata.machines.mealy import MealyMachine, distinguishing_tokens, word_in_names
from automata.tasks.allowed_traces import allowed_traces
from automata.tasks.word_problem import WordProblem
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch

Verdict = Literal["equivalent", "differs", "inconclusive"]
SHOWN_TOKENS = 40


class ExtractionSettings(CheckedConfig):
    """How an automaton is extracted and what is asked of it.

    Example:
        >>> ExtractionSettings(seed=1).sequences
        128
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sequences: PositiveInt = Field(default=128, description="sequences whose states are looked at")
    length: PositiveInt | None = Field(
        default=None, description="tokens per sequence; the training length if none"
    )
    votes: PositiveInt = Field(default=4, description="the least votes for a transition")
    inconsistent: float = Field(
        default=1e-3, ge=0, lt=1, description="share of votes against the majority that is put up with"
    )
    max_suffixes: NonNegativeInt = Field(
        default=12, description="suffixes that states are told apart by, beyond the single tokens"
    )
    max_states: PositiveInt = Field(default=1000, description="more classes than this are not looked at")
    fresh_words: PositiveInt = Field(default=64, description="fresh words on which the automaton is checked")
    times: PositiveInt = Field(
        default=4, description="length of the fresh words, as a multiple of that of the sequences"
    )
    demanded: float = Field(
        default=0.99,
        gt=0,
        le=1,
        description="share of tokens of that length at which automaton and model must agree",
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences and of the fresh words")


@dataclass(frozen=True)
class Difference:
    """A word after whose last token two answers differ.

    Attributes:
        word: token numbers.
        model: the model's answer to the last token.
        automaton: that of the extracted automaton.
        task: that of the task's automaton.

    Example:
        >>> Difference((1, 1), model=1, automaton=1, task=0).model_is_wrong
        True
    """

    word: tuple[int, ...]
    model: int
    automaton: int
    task: int

    @property
    def model_is_wrong(self) -> bool:
        """Whether the model itself differs from the task on this word."""
        return self.model != self.task

    def sentence(self, task: WordProblem) -> str:
        """The word and the answers by name."""
        names = task.state_names
        shown = word_in_names(self.word[:SHOWN_TOKENS], task.token_names)
        word = shown if len(self.word) <= SHOWN_TOKENS else f"{shown}… ({len(self.word)} tokens)"
        return (
            f"after {word} the model answers {names[self.model]}, its automaton {names[self.automaton]}, "
            f"the task {names[self.task]}"
        )


@dataclass(frozen=True, eq=False)
class ExtractionAnalysis:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was chosen.
        task: what the model was trained on.
        length: tokens of the sequences whose states were looked at.
        extraction: the automaton and how it came about.
        agrees: where model and automaton give the same answer on fresh words, ``[words, longest]``; nowhere
            if there is no automaton.
        correct: where the model gives the task's answer, ``[words, longest]``.
        difference: on a shortest word that tells the extracted from the task's automaton; None if no word
            does, or there is no automaton.
        departure: the earliest token of the fresh words at which model and automaton differ; None if none.
        first_error: the earliest token of the fresh words at which the model is wrong; None if none.
        share_converged: of all tokens that were read.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=8, length=8, fresh_words=4, times=2)
        >>> found.verdict, found.extraction.machine.state_count, found.fidelity(16)
        ('equivalent', 2, 1.0)
    """

    run: RunIdentity
    settings: ExtractionSettings
    task: WordProblem
    length: int
    extraction: Extraction
    agrees: NDArray[np.bool_]
    correct: NDArray[np.bool_]
    difference: Difference | None
    departure: Difference | None
    first_error: Difference | None
    share_converged: float

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
        """Whether the automaton describes the model up to the length of the sequences."""
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

        The fidelity of a position is that of the ten positions around it.
        """
        window = np.full(min(10, self.agrees.shape[1]), 1.0) / min(10, self.agrees.shape[1])
        running = np.convolve(self.agrees.mean(axis=0), window, mode="valid")
        below = np.flatnonzero(running < self.settings.demanded)
        return int(below[0]) if below.size else None

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        machine = self.extraction.machine
        follows = (
            f"the model follows it at {self.fidelity(self.length):.2%} of tokens at length {self.length} "
            f"and {self.fidelity(self.agrees.shape[1]):.2%} at {self.agrees.shape[1]}"
        )
        if machine is None:
            return (
                f"inconclusive: more than {self.settings.max_states} classes of states after "
                f"{len(self.extraction.suffixes)} suffixes; the model does not act like a smaller automaton"
            )
        if self.verdict == "equivalent":
            return f"equivalent to the automaton of {self.task.name}: {machine.state_count} states; {follows}"
        if self.difference is not None and self.verdict == "differs":
            return f"differs: {self.difference.sentence(self.task)}; {machine.state_count} states; {follows}"
        why = (
            f"the automaton, of {machine.state_count} states, is that of {self.task.name}"
            if self.difference is None
            else f"no automaton of {machine.state_count} states describes the model"
        )
        where = self.departure or self.difference
        return f"inconclusive: {why}, but {follows}{f'; {where.sentence(self.task)}' if where else ''}"

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
                "answer_names": self.task.state_names,
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

    Args:
        run: a loaded run, of any model whose state has a constant size, on a word problem.
        settings: how.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, a task that is no word problem, or a model whose state grows.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=8, length=8, fresh_words=4, times=2)
        >>> found.sentence
        'equivalent to the automaton of parity: 2 states; the model follows it at 100.00% of tokens at ...'
    """
    settings = settings_from(ExtractionSettings, chosen, settings)
    CONSTANT_STATE.require(run)
    task, length = word_problem_of(run), settings.length or run.config.length
    reader = Reader(run.model, Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations))
    tokens, _ = sample_sequences(task, settings.sequences, length, settings.seed)
    effort = Effort(settings.votes, settings.inconsistent, settings.max_suffixes, settings.max_states)
    extraction = extract_machine(reader, tokens, task.vocabulary_size, effort)
    # Another batch of the test stream than that of the sequences, whose number is 0.
    fresh, labels = draw_batch(
        task, settings.fresh_words, settings.times * length, settings.seed, Stream.TEST, 1
    )[:2]
    answers = reader.answers(fresh)
    machine, difference, departure, first_error = extraction.machine, None, None, None
    correct = answers == labels.numpy()
    agrees = np.zeros(answers.shape, dtype=np.bool_)
    if machine is not None:
        replies = machine.read(fresh.numpy())
        agrees = answers == replies
        first = partial(_first, fresh.numpy(), answers, replies, labels.numpy())
        departure, first_error = first(agrees), first(correct)
        difference = _difference(reader, machine, task)
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


def _first(
    tokens: IntArray, model: IntArray, automaton: IntArray, labels: IntArray, agrees: NDArray[np.bool_]
) -> Difference | None:
    """The shortest beginning of a word that ends where ``agrees`` is False, with all answers there."""
    places = np.argwhere(~agrees)
    if not places.size:
        return None
    row, column = min(places.tolist(), key=lambda place: (place[1], place[0]))
    answers = (int(answer[row, column]) for answer in (model, automaton, labels))
    return Difference(tuple(tokens[row, : column + 1].tolist()), *answers)


def _difference(reader: Reader, machine: MealyMachine, task: WordProblem) -> Difference | None:
    """A shortest word that tells the automata apart, with the model's own answer to it."""
    exact = task.machine()
    spoken = {*machine.answers.ravel().tolist(), *exact.answers.ravel().tolist()}
    word = distinguishing_tokens(machine, exact, allowed_traces(task, spoken))
    if word is None:
        return None
    last = [int(replies[0, -1]) for replies in (machine.read([word]), exact.read([word]))]
    return Difference(word, int(reader.answers(torch.tensor([word]))[0, -1]), *last)
