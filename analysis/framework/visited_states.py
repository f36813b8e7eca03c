"""The states that a model visits on real sequences of its task, in float64."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from automata.errors import InputError
from automata.tasks.interface import Task
from implicit.cells.plain import in_double_precision as in_double_precision
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.modes import Solve
from implicit.training.streams import Stream, TokenBatch, draw_batch
from theory import State, Status

TIGHT_RTOL = 1e-10
"""Relative tolerance of the fixed points on the way: far below that of training, reachable in float64."""


@dataclass(frozen=True, eq=False)
class VisitedState:
    """A state that a sequence leads to, float64 without a batch axis, and the token that is read in it.

    ``position`` counts the tokens before it; ``reached`` says whether the fixed points of all of them
    converged.
    """

    sequence: int
    position: int
    token: int
    state: State
    reached: bool = True

    @property
    def label(self) -> str:
        """Where the state was visited, in words."""
        return f"token {self.token} at position {self.position} of sequence {self.sequence}"


def joined(states: Sequence[State]) -> State:
    """Return batches of states as one batch."""
    return {name: torch.cat([state[name] for state in states]) for name in states[0]}


def relative_distance(one: Tensor, other: Tensor) -> Tensor:
    """Return ‖one − other‖ / ‖other‖ over the last axis; 0 where they are the same, zeros among them.

    Example:
        >>> relative_distance(torch.tensor([[0.0], [3.0]]), torch.tensor([[0.0], [2.0]])).tolist()
        [0.0, 0.5]
    """
    distance = (one - other).norm(dim=-1)
    return torch.where(distance == 0, 0.0, distance / other.norm(dim=-1))


def entries(state: State, names: Iterable[str] | None = None, leading: int = 1) -> Tensor:
    """Return parts of a state side by side behind its ``leading`` axes; complex ones as pairs of numbers.

    Example:
        >>> entries({"h": torch.ones(2, 3), "clock": torch.zeros(2), "c": torch.ones(2, 1) * 1j})[0].tolist()
        [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]
    """
    parts = [state[name] for name in (state if names is None else names)]
    real = [torch.view_as_real(part.resolve_conj()) if part.is_complex() else part for part in parts]
    return torch.cat([part.unsqueeze(-1).flatten(leading) for part in real], dim=-1)


def finite(vectors: Tensor) -> Tensor:
    """Return states as they are; InputError if they overflowed, so that nothing can be said of them."""
    if not bool(vectors.isfinite().all()):
        raise InputError("states are not finite: the model overflows on such words; give a shorter length")
    return vectors


def sample_batch(task: Task, sequences: int, length: int, seed: int) -> TokenBatch:
    """Draw sequences of the test stream, with what is asked of each and how long they are."""
    return draw_batch(task, sequences, length, seed, Stream.TEST, 0)


def sample_sequences(task: Task, sequences: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Draw sequences of the test stream: tokens and the labels after each, int64 ``[sequences, length]``.

    InputError for a task that pads them, for padding would be read as tokens.
    """
    batch = sample_batch(task, sequences, length, seed)
    if batch.lengths is not None:
        raise InputError(
            f"task {task.name} pads its sequences, of which the shortest has {int(batch.lengths.min())} of "
            f"{length} tokens, and this analysis reads whole ones; give another task or a longer length"
        )
    return batch[:2]


@torch.no_grad()
def visited_states(
    model: SequenceModel, tokens: Tensor, count: int, *, lengths: Tensor | None = None
) -> tuple[VisitedState, ...]:
    """Choose states that sequences visit, the same number for every token and spread over all positions.

    A state is the one before its token is read. No two have the same history; the state before the first
    token, which no token has changed yet, is left out unless sequences have one token only. Fewer come back
    if fewer different ones were visited. The model is in float64, tokens are ``[sequences, length]``, and
    ``lengths`` the real tokens of each sequence, ``[sequences]``; padding is left out. InputError for a model
    whose state grows.
    """
    model.require_constant_state()
    chosen = choose_positions(tokens, count, lengths=lengths)
    positions = {position for _, position in chosen}
    states, state = {}, model.init_state(len(tokens))
    reached, reached_at = torch.ones(len(tokens), dtype=torch.bool), {}
    for position in range(max(positions) + 1):
        if position in positions:
            states[position], reached_at[position] = state, reached
        if position < max(positions):
            state, converged = _read(model, state, tokens[:, position])
            reached = reached & converged
    return tuple(
        VisitedState(
            sequence,
            position,
            int(tokens[sequence, position]),
            {name: entry[sequence].clone() for name, entry in states[position].items()},
            bool(reached_at[position][sequence]),
        )
        for sequence, position in chosen
    )


def _read(model: SequenceModel, state: State, token: Tensor) -> tuple[State, Tensor]:
    """The next states, and of which sequences the token's fixed point converged."""
    implicit = model.implicit
    if implicit is None:
        return model.step(state, token)[0], torch.ones(len(token), dtype=torch.bool)
    # A token without a fixed point leads somewhere all the same; what is said of that state is theory's.
    stopping = Stopping(rtol=TIGHT_RTOL, max_iterations=implicit.stopping.max_iterations)
    output = implicit.run(token[:, None], state, Solve("sequential", stopping=stopping))
    assert output.solution is not None
    return output.state, (output.solution.status == Status.CONVERGED)[:, 0].cpu()


def choose_positions(tokens: Tensor, count: int, *, lengths: Tensor | None = None) -> list[tuple[int, int]]:
    """Choose (sequence, position) pairs: equally many for every token, none with another one's history.

    Fewer come back if fewer histories are different. ``lengths`` are the real tokens of each sequence; all if
    None.
    """
    length = tokens.shape[1]
    real = [length] * len(tokens) if lengths is None else lengths.tolist()
    by_token: dict[int, list[tuple[int, int]]] = defaultdict(list)
    numbers: dict[tuple[int, int], int] = {}  # of a history, by that of the one before it and the token
    before = [-1] * len(tokens)
    for position, column in enumerate(tokens.T.tolist()):
        for sequence, token in enumerate(column):
            if position < real[sequence]:
                fresh = len(numbers)
                before[sequence] = numbers.setdefault((before[sequence], token), fresh)
                if before[sequence] == fresh and position >= min(1, length - 1):
                    by_token[token].append((sequence, position))
    chosen: list[tuple[int, int]] = []
    for remaining, token in zip(range(len(by_token), 0, -1), sorted(by_token), strict=True):
        share = -(-(count - len(chosen)) // remaining)  # what is left, in equal parts, rounded up
        chosen += _spread(by_token[token], share)
    return chosen


def _spread(candidates: Sequence[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Take up to ``count`` candidates at even distances, the last one included."""
    count = min(count, len(candidates))
    places = np.linspace(len(candidates) - 1, 0, count).round().astype(int)[::-1]
    return [candidates[place] for place in places]
