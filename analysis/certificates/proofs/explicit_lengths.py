"""Words of every length, of an explicit model: as `lengths`, with the model's own code on balls.

A step of an explicit model is an evaluation, and there is no iteration to speak of. Rounding is covered by an
allowance: the sets hold all steps that are off by at most `STEP_ERROR`, that of float64 being far smaller.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from analysis.certificates.certificate import Claim
from analysis.certificates.claims.explicit_lengths import ExplicitLengths
from analysis.certificates.producing import stated
from analysis.certificates.proofs.cover_search import IntArray, LengthsSettings, find_cover, for_run
from analysis.certificates.proofs.lengths import LENGTHS, FoundLengths
from analysis.certificates.proofs.steps import LARGEST_STATE
from analysis.framework.needs import Need, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.visited_states import in_double_precision
from automata.errors import InputError
from implicit.enclosed.any_loop import LARGEST, EnclosedAnyLoop
from implicit.enclosed.closed_loop import flatten_state, unflatten_state
from implicit.models.interface import SequenceModel
from implicit.models.step_model import StepModel
from implicit.models.torch_rnn import TorchRNN
from implicit.runs.loading import Run
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import StepErrors, extents
from theory.rigorous.tensors.agreement import AsReal, compare_beside

STEP_ERROR = 1e-9
POINTS = 16
"""Sets at whose centres the code is compared with itself on floats."""


@dataclass(frozen=True, eq=False)
class FoundExplicit(FoundLengths):
    """What is found of an explicit model: no iteration, and no starts."""

    @property
    def proved(self) -> bool:
        """Whether the answers to all words of every length are proved right."""
        return self.found is not None and bool(self.found.closed.all())

    def _proved(self, sets: int, margin: str) -> str:
        return (
            f"proved right on all words of every length, in exact arithmetic and if every next state is off "
            f"by at most {STEP_ERROR}: {sets} sets of states are mapped into each other, with a margin of at "
            f"least {margin}"
        )

    @property
    def limits(self) -> str:
        """What is not covered."""
        return "that a program is off by no more is not covered" if self.proved else ""

    @property
    def claims(self) -> list[Claim]:
        """What is proved of every length."""
        if self.found is None or not self.proved:
            return []
        statements = self.statements["explicit_lengths"]
        return [ExplicitLengths(statements=statements, step_error=STEP_ERROR, **self.sets())]


def prove(run: Run, settings: LengthsSettings | None = None) -> FoundExplicit:
    """Prove that an explicit model answers words of every length as its task does."""
    settings, began = for_run(settings or LengthsSettings(), run), time.monotonic()
    model, task = in_double_precision(run.model), word_problem_of(run)
    loop = EnclosedAnyLoop(model)
    if loop.state_size > LARGEST_STATE:
        raise InputError(
            f"the state of the model has {loop.state_size} numbers; give at most {LARGEST_STATE}"
        )

    @torch.no_grad()
    def step(states: Array, tokens: IntArray) -> tuple[Array, Array]:
        after, _ = model.step(unflatten_state(model, torch.as_tensor(states)), torch.as_tensor(tokens))
        vectors = flatten_state(after).numpy()
        return vectors, vectors

    found, fault = find_cover(step, loop, task, settings, StepErrors(state=STEP_ERROR))
    if found is not None and found.closed.all():
        sets = np.arange(found.cover.set_count)
        reach = np.abs(found.cover.centres) + extents(found.cover, sets)
        if not reach.max() + found.bounds.latent_radius.max() <= LARGEST:
            found, fault = None, f"states are larger than {LARGEST:g}"
        else:
            _compare(model, loop, found.cover.centres[:POINTS], task.vocabulary_size)
    statements = {"explicit_lengths": stated(ExplicitLengths, run)}
    proved = found, None, None, fault, task.initial_state, statements
    return FoundExplicit(RunIdentity.of(run), settings, *proved, seconds=time.monotonic() - began)


@torch.no_grad()
def _compare(model: SequenceModel, loop: EnclosedAnyLoop, centres: Array, tokens: int) -> None:
    """Refuse code that is another function on balls than on float64 tensors."""
    states, read = np.repeat(centres, tokens, axis=0), np.tile(np.arange(tokens), len(centres))
    parts: Mapping[str, Any] = unflatten_state(model, torch.as_tensor(states))
    where = torch.as_tensor(read)
    with AsReal():
        precise = model.transitions(where)
    compare_beside(
        precise,
        loop.transitions(read),
        {name: part.numpy() for name, part in parts.items()},
        np.zeros((len(read), 0)),
        [np.arange(len(read)) % loop.state_size],
    )
    logits = loop.logits(Dual.constant(Ball.exact(states), 0)).value
    reader: Any = model
    with AsReal():
        expected = reader.read(parts).numpy()
    if not (np.abs(logits.midpoint - expected) <= logits.radius + 1e-9 * (1 + np.abs(expected))).all():
        raise InputError("read gives other logits on balls than on tensors; write one formula for both")


PROOFS = (
    replace(
        LENGTHS,
        needs=Need(
            lambda model: isinstance(model, StepModel | TorchRNN),
            "whose step is not one of its state",
            "give the run of an implicit model, of an elman, gru or lstm, or of a StepModel",
        ),
        prove=prove,
    ),
)
