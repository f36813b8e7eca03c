"""Sequences on which a trained model predicts reveals worst: a beam search against the model itself.

A sequence is made of rounds: some actions, then a reveal with a value that can occur. All models are searched
against with as many candidates, so that their figures compare; a beam finds a bad sequence, not the worst.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from analysis.belief.prediction import divergence
from analysis.framework.arrays import FloatArray, IntArray
from automata.checks import check_integer, check_memory, check_number, check_type
from automata.errors import InputError
from automata.tasks.partially_observed import PartiallyObserved
from implicit.models.interface import SequenceModel
from implicit.runs.loading import Run
from theory.transition import State

LEAST_PROBABILITY = 1e-12
"""Values less likely than this are taken for impossible: rounding of the exact belief is far below."""

_MOST_ACTIONS = 64  # of two kinds: 2⁶⁴ words of them are beyond any memory already


@dataclass(frozen=True, eq=False)
class WorstRounds:
    """The result of a search, beside the same model on random rounds."""

    tokens: IntArray  # of the sequence found, ``[length]``
    errors: FloatArray  # KL(exact ‖ model) at its reveals, in nats, ``[rounds]``
    random: FloatArray  # the same on random rounds, ``[sequences, rounds]``

    @property
    def mean(self) -> float:
        """The mean error over the rounds of the sequence found, in nats."""
        return float(self.errors.mean())

    @property
    def random_mean(self) -> float:
        """The mean error over random rounds, in nats."""
        return float(self.random.mean())


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Sequences so far, with the model's state, the exact belief and the sum of errors after each."""

    tokens: IntArray  # [candidates, length]
    errors: FloatArray  # [candidates, rounds]
    beliefs: FloatArray  # [candidates, states]
    state: State

    def chosen(self, rows: IntArray) -> "_Candidates":
        places = torch.from_numpy(rows)
        state = {name: part[places] for name, part in self.state.items()}
        return _Candidates(self.tokens[rows], self.errors[rows], self.beliefs[rows], state)


@torch.no_grad()
def worst_rounds(
    run: Run,
    rounds: int = 12,
    actions: int = 3,
    *,
    beam: int = 8,
    least_probability: float = LEAST_PROBABILITY,
    sequences: int = 256,
    seed: int = 0,
) -> WorstRounds:
    """Search for rounds on which a model's predictions are farthest from the exact ones, in the sum.

    Implicit models take one token after the other, with their own defaults. InputError if a number is below
    1, the probability outside (0, 1], the task is of another kind or asks hidden states, or the candidates of
    a round do not fit into memory.

    Args:
        run: a loaded run on a probabilistic automaton whose reveals are asked.
        rounds: of a sequence.
        actions: before each reveal.
        beam: candidates that are kept after each round, each with every value that can occur.
        least_probability: that a value of the search has, given all before it; with as much as 1/6, say,
            a model cannot be misled by what hardly ever happens. A reveal none of whose values is as likely
            shows its likeliest.
        sequences: of random rounds, with values drawn as they occur.
        seed: of these.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = worst_rounds(load_run("lazy-swaps-gated-deltanet"), rounds=3, sequences=32)
        >>> found.tokens.shape, found.mean > found.random_mean
        ((15,), True)
    """
    check_type("run", run, Run, "give a loaded one, implicit.load_run(...)")
    numbers = {"rounds": rounds, "actions": actions, "beam": beam, "sequences": sequences}
    for field, value in numbers.items():
        check_integer(field, value, 1)
    if not 0 < check_number("least_probability", least_probability) <= 1:
        raise InputError(f"least_probability is {least_probability}; give a number in (0, 1]")
    check_integer("seed", seed, 0)
    check_type("task", run.task, PartiallyObserved, "give a run on a probabilistic automaton")
    task, model = run.task, run.model
    assert isinstance(task, PartiallyObserved)
    if task.target != "reveals":
        raise InputError(
            f"the task {task.name} asks its {task.target}; give a run whose task asks its reveals"
        )
    search = _Search(task, model)
    search.check_memory(rounds, actions, beam, sequences)
    was_training = model.training
    model.eval()
    words = list(product(range(len(task.automaton.actions)), repeat=actions))
    kept = search.beginning(1)
    for _ in range(rounds):
        asked = search.asked(search.moved(kept, words))
        sums = asked.errors.sum(axis=1)
        worst = asked.chosen(np.argsort(-sums, kind="stable")[:beam])
        kept = search.shown(worst, least_probability)
    best = int(kept.errors.sum(axis=1).argmax())
    random = search.random_errors(rounds, actions, sequences, seed)
    model.train(was_training)
    return WorstRounds(kept.tokens[best], kept.errors[best], random)


@dataclass(frozen=True, eq=False)
class _Search:
    task: PartiallyObserved
    model: SequenceModel

    def check_memory(self, rounds: int, actions: int, beam: int, sequences: int) -> None:
        """Refuse a search whose candidates after the reveals of a round, or random rounds, do not fit."""
        names = self.task.automaton
        each = len(names.reveals) * len(names.actions) ** min(actions, _MOST_ACTIONS)
        candidates = each if rounds == 1 else each * min(beam, each)  # later each of the beam has so many
        state = sum(part.numel() * part.element_size() for part in self.model.init_state(1).values())
        length = rounds * (actions + 2)  # in int64 each; the candidates of the last round are nearly as long
        check_memory(
            f"a search over at least {candidates} candidates and {sequences} random sequences of {length} "
            "tokens",
            candidates * (8 * (length - 1 + len(names.states)) + state) + 8 * sequences * length,
            "give fewer actions, rounds or sequences, or a smaller beam",
        )

    def beginning(self, count: int) -> _Candidates:
        none = np.zeros((count, 0))
        beliefs = np.tile(self.task.initial_belief, (count, 1))
        return _Candidates(none.astype(np.int64), none, beliefs, self.model.init_state(count))

    def read(self, found: _Candidates, token: IntArray) -> tuple[_Candidates, Tensor]:
        """Let every candidate read a token, which says nothing of the belief yet."""
        state, logits = self.model.step(found.state, torch.from_numpy(token).to(self.model.device))
        tokens = np.concatenate([found.tokens, token[:, None]], axis=1)
        return _Candidates(tokens, found.errors, found.beliefs, state), logits

    def moved(self, found: _Candidates, words: Sequence[tuple[int, ...]]) -> _Candidates:
        count = len(found.tokens)
        moved = found.chosen(np.repeat(np.arange(count), len(words)))
        for column in np.array(words).T:
            moved = self.acted(moved, np.tile(column, count))
        return moved

    def acted(self, found: _Candidates, action: IntArray) -> _Candidates:
        read, _ = self.read(found, action)
        beliefs = np.einsum("nij,nj->ni", self.task.automaton.matrices[action], found.beliefs)
        return replace(read, beliefs=beliefs)

    def asked(self, found: _Candidates) -> _Candidates:
        """Every candidate after every reveal was asked, with its error."""
        reveals = len(self.task.automaton.reveals)
        asked = found.chosen(np.repeat(np.arange(len(found.tokens)), reveals))
        return self.with_errors(asked, np.tile(np.arange(reveals), len(found.tokens)))

    def with_errors(self, found: _Candidates, reveal: IntArray) -> _Candidates:
        read, logits = self.read(found, reveal + len(self.task.automaton.actions))
        exact = self.task.predicted(read.beliefs, reveal)
        errors = divergence(exact, logits.double().log_softmax(dim=-1).cpu().numpy())
        return replace(read, errors=np.column_stack([read.errors, errors]))

    def shown(self, found: _Candidates, least: float) -> _Candidates:
        """Every candidate after every value that is so likely, or the likeliest."""
        exact = self.task.predicted(found.beliefs, found.tokens[:, -1] - len(self.task.automaton.actions))
        rows, values = np.nonzero(exact >= np.minimum(least, exact.max(axis=1, keepdims=True)))
        return self.after_value(found.chosen(rows), values)

    def after_value(self, found: _Candidates, values: IntArray) -> _Candidates:
        names = self.task.automaton
        read, _ = self.read(found, values + len(names.actions) + len(names.reveals))
        beliefs = np.empty_like(found.beliefs)
        observed = self.task.observations(read.tokens)[:, -1]
        for number in np.unique(observed).tolist():
            rows = observed == number
            mass = self.task.moved(found.beliefs[rows], number)
            beliefs[rows] = mass / mass.sum(axis=1, keepdims=True)
        return replace(read, beliefs=beliefs)

    def random_errors(self, rounds: int, actions: int, sequences: int, seed: int) -> FloatArray:
        """Return the errors at the reveals of random rounds, ``[sequences, rounds]``."""
        rng, names = np.random.default_rng(seed), self.task.automaton
        found = self.beginning(sequences)
        for _ in range(rounds):
            for _ in range(actions):
                found = self.acted(found, rng.integers(0, len(names.actions), sequences))
            reveal = rng.integers(0, len(names.reveals), sequences)
            found = self.with_errors(found, reveal)
            exact = self.task.predicted(found.beliefs, reveal)
            values = (exact.cumsum(axis=1) > rng.random((sequences, 1)) * (1 - 1e-12)).argmax(axis=1)
            found = self.after_value(found, values)
        return found.errors
