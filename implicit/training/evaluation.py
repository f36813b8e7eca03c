"""Accuracy and convergence on fresh sequences."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from automata.checks import check_integer, check_type
from automata.errors import InputError, warn_caller
from automata.tasks.interface import Task
from implicit.cells.contract import evaluation_mode
from implicit.fixed_point import NotConvergedWarning, Solution
from implicit.models.interface import SequenceModel
from implicit.modes import Solve
from implicit.training.streams import Stream, draw_batch

REPORTED_TOKENS = 10
"""Reports give the accuracy over the last ten answers: those that need the longest memory."""


@dataclass(frozen=True)
class Convergence:
    """The outcome of the search for fixed points, over all tokens.

    ``mean_iterations`` counts evaluations of Φ per token; the relative residual is ‖Φ(z) − z‖ / ‖z‖.
    """

    share_converged: float
    mean_iterations: float
    mean_relative_residual: float

    @staticmethod
    def of(solutions: Sequence[Solution]) -> "Convergence":
        """Return the means over the tokens of several solutions."""

        def mean(name: str) -> float:
            values = [(getattr(one, name), one.counted) for one in solutions]
            parts = [value if counted is None else value[counted] for value, counted in values]
            return float(torch.cat([part.flatten() for part in parts]).double().mean())

        return Convergence(*map(mean, ("converged", "iterations", "relative_residual")))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Which tokens of which sequences a model got right.

    Attributes:
        correct: ``[sequences, length]``, bool.
        convergence: of the fixed points; None for an explicit model.
        counted: where something is asked, ``[sequences, length]``, bool; None for everywhere.

    Example:
        >>> evaluation = Evaluation(np.array([[True] * 12, [False] * 2 + [True] * 10]), None)
        >>> evaluation.accuracy, evaluation.token_accuracy, evaluation.sequence_accuracy
        (1.0, 0.9166..., 0.5)
    """

    correct: NDArray[np.bool_]
    convergence: Convergence | None
    counted: NDArray[np.bool_] | None = None

    @property
    def _asked(self) -> NDArray[np.bool_]:
        return np.ones_like(self.correct) if self.counted is None else self.counted

    @property
    def accuracy(self) -> float:
        """The figure of reports: mean over the last ten answers of each sequence, all if there are fewer."""
        still_to_come = self._asked[:, ::-1].cumsum(axis=1)[:, ::-1]  # answers from here to the end
        return float(self.correct[self._asked & (still_to_come <= REPORTED_TOKENS)].mean())

    @property
    def token_accuracy(self) -> float:
        """Mean over all answers."""
        return float(self.correct[self._asked].mean())

    @property
    def sequence_accuracy(self) -> float:
        """Share of the sequences whose every answer is right, among those in which something is asked."""
        asked = self._asked
        return 1 - float((asked & ~self.correct).any(axis=1).sum() / asked.any(axis=1).sum())

    @property
    def per_position(self) -> NDArray[np.float64]:
        """Mean over the sequences that are asked at a position, ``[length]``; NaN where none is."""
        asked, right = (part.sum(axis=0) for part in (self._asked, self._asked & self.correct))
        return np.where(asked > 0, right / np.maximum(asked, 1), np.nan)


def evaluate(
    model: SequenceModel,
    task: Task,
    length: int,
    *,
    sequences: int = 256,
    batch_size: int = 64,
    seed: int = 0,
    stream: Stream = Stream.TEST,
    number: tuple[int, ...] = (),
    solve: Solve | None = None,
    warn: bool = True,
) -> Evaluation:
    """Measure a model on fresh sequences of one length.

    InputError for a length or a number of sequences below 1 or beyond the memory, a negative seed, or a task
    whose tokens the model does not know.

    Args:
        model: its weights and its training flag stay as they are.
        task: the task.
        length: tokens per sequence.
        sequences: how many.
        batch_size: sequences at a time; it changes which sequences are drawn.
        seed: seed of the stream.
        stream: reports take TEST, training VALIDATION.
        number: which part of the stream.
        solve: how an implicit model seeks its fixed points; its own defaults if None.
        warn: whether to warn of tokens without a fixed point; their share is in the result either way.

    Warns:
        NotConvergedWarning: if some token has no fixed point.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.models.registry import build_model
        >>> _ = torch.manual_seed(0)
        >>> parity = make_task("parity")
        >>> model = build_model("lstm", {"d_model": 4}, parity)
        >>> evaluation = evaluate(model, parity, length=20, sequences=100)
        >>> evaluation.correct.shape, 0.3 < evaluation.accuracy < 0.7
        ((100, 20), True)
    """
    check_type("model", model, SequenceModel, "give a model, such as load_run(...).model")
    check_type("task", task, Task, "give a task, such as automata.task_from('parity')")
    for field, value in (("length", length), ("sequences", sequences), ("batch_size", batch_size)):
        check_integer(field, value, 1)
    known = model.config.vocabulary_size, model.config.output_size
    if task.vocabulary_size > known[0] or task.output_size > known[1]:
        raise InputError(
            f"task {task.name} has {task.vocabulary_size} tokens and {task.output_size} answers, and the "
            f"model knows {known[0]} and {known[1]}; give the task that it was trained on"
        )
    correct, counted, solutions = [], [], []
    with evaluation_mode(model), torch.no_grad():
        for index, first in enumerate(range(0, sequences, batch_size)):
            size = min(batch_size, sequences - first)
            drawn = draw_batch(task, size, length, seed, stream, *number, length, index)
            batch = drawn.to(model.device)
            output = model.run(batch.tokens, solve=solve, lengths=batch.lengths)
            if output.solution is not None:
                solutions.append(output.solution)
            correct.append((output.answers == batch.targets).cpu().numpy())
            counted.append(batch.counted.cpu().numpy())
    if warn and (message := _unconverged(solutions)):
        warn_caller(message, NotConvergedWarning)
    asked = np.concatenate(counted)
    return Evaluation(
        np.concatenate(correct),
        Convergence.of(solutions) if solutions else None,
        None if asked.all() else asked,
    )


def _unconverged(solutions: Sequence[Solution]) -> str:
    """Return a sentence on the first batch with tokens without a fixed point; empty if there is none."""
    for number, solution in enumerate(solutions):
        if not bool(solution.converged.all()):
            return (
                f"answers without a fixed point in batch {number} of {len(solutions)}: {solution.message()}"
            )
    return ""
