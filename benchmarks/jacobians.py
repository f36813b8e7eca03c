"""Jacobians of all tokens of a sequence: batched factors against one at a time and against `jacrev`.

Everybody starts from the same states, finds the fixed points to the same tolerance by damped iteration, and
gives ∂h'/∂h at a fixed window. A method too slow for the whole sequence does some of its tokens, evenly
spread, and its times are scaled in proportion.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from analysis.framework.needs import as_implicit
from analysis.framework.visited_states import in_double_precision
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError, require_close
from implicit import load_run
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import SequenceSolution, Solve
from implicit.training.streams import Stream, draw_batch
from theory import (
    BatchedJacobian,
    FactoredJacobian,
    State,
    Transition,
    batched_layer_jacobians,
    layer_jacobians,
)

RUN = "parity"
LENGTH = 256
SINGLE_TOKENS = 16
JACREV_TOKENS = 4
STOPPING = Stopping(rtol=1e-10, max_iterations=2000)
TOLERANCE = 1e-8  # error of every entry over the largest one of its matrix, in float64


@dataclass(frozen=True, eq=False)
class VisitedSequence:
    """A sequence ``[length]`` with the state before each of its tokens, of a model of one layer in
    float64.
    """

    model: FixedPointModel
    tokens: Tensor
    states: State

    @classmethod
    @torch.no_grad()
    def of(cls, model: FixedPointModel, tokens: Tensor) -> "VisitedSequence":
        latents = model.fixed_points(tokens[None], solve=Solve("simultaneous", stopping=STOPPING)).latents[0]
        start = {name: entry[0] for name, entry in model.init_state(1).items()}
        return cls(model, tokens, model.transitions(tokens).states_along(start, latents))

    @torch.no_grad()
    def solve(self, positions: slice = slice(None)) -> SequenceSolution:
        """The fixed points at some positions, each given its state: a batch of sequences of one token."""
        states = {name: entry[positions] for name, entry in self.states.items()}
        return self.model.fixed_points(
            self.tokens[positions, None], states, Solve("sequential", stopping=STOPPING)
        )

    @cached_property
    def iterations(self) -> list[int]:
        iterations: list[int] = self.solve().iterations[:, 0].tolist()
        return iterations

    def batched(self) -> BatchedJacobian:
        latents = self.solve().latents[:, 0]
        return batched_layer_jacobians(self.model.transitions(self.tokens), self.states, latents)[0]

    def singles(self, positions: list[int]) -> list[FactoredJacobian]:
        found = []
        for position in positions:
            latent = self.solve(slice(position, position + 1)).latents[0, 0]
            transition = self.model.transition(int(self.tokens[position]))
            found.append(layer_jacobians(transition, self.state(position), latent)[0])
        return found

    def jacrevs(self, positions: list[int]) -> list[Tensor]:
        found = []
        for position in positions:
            transition = self.model.transition(int(self.tokens[position]))
            state, iterations = self.state(position), self.iterations[position]

            def following(
                ssm: Tensor,
                transition: Transition = transition,
                state: State = state,
                iterations: int = iterations,
            ) -> Tensor:
                here = {**state, "ssm.0": ssm}
                latent = ssm.new_zeros(transition.latent_size)
                for _ in range(iterations):
                    latent = latent + transition.damping * (transition.self_map(latent, here) - latent)
                return transition.state_update(latent, here)["ssm.0"]

            size = state["ssm.0"].numel()
            found.append(torch.func.jacrev(following)(state["ssm.0"]).reshape(size, size))
        return found

    def state(self, position: int) -> State:
        return {name: entry[position] for name, entry in self.states.items()}


def cases() -> Iterator[Case]:
    run = load_run(RUN)
    # Weights that want gradients would make jacrev keep the whole graph of its own backward pass.
    model = in_double_precision(as_implicit(run)).requires_grad_(False)
    sequence = VisitedSequence.of(model, draw_batch(run.task, 1, LENGTH, 0, Stream.TEST, LENGTH)[0][0])
    single, reverse = spread(SINGLE_TOKENS), spread(JACREV_TOKENS)
    rank, size = model.latent_size, sequence.states["ssm.0"][0].numel()
    factored = {"megabytes_of_results": round(8e-6 * LENGTH * size * (2 * rank + 1))}
    dense = {"megabytes_of_results": round(8e-6 * LENGTH * size**2)}
    yield Case(
        parameters={"run": RUN, "length": LENGTH, "state": size, "latent": rank, "rtol": STOPPING.rtol},
        check=partial(check, sequence, single, reverse),
        contenders=(
            Contender("batched", sequence.batched, factored),
            Contender("one at a time", partial(sequence.singles, single), factored, len(single) / LENGTH),
            Contender("jacrev", partial(sequence.jacrevs, reverse), dense, len(reverse) / LENGTH),
        ),
        turns=5,
    )


def spread(count: int) -> list[int]:
    """Positions in the middle of equal parts of the sequence."""
    return [LENGTH * (2 * part + 1) // (2 * count) for part in range(count)]


def check(sequence: VisitedSequence, single: list[int], reverse: list[int]) -> None:
    share = sequence.solve().share_converged
    if share < 1:
        raise IncorrectError(f"only {share:.2%} of the tokens converged")
    batched = sequence.batched()
    others = {
        "one at a time": zip(single, (found.dense() for found in sequence.singles(single)), strict=True),
        "jacrev": zip(reverse, sequence.jacrevs(reverse), strict=True),
    }
    for name, matrices in others.items():
        for position, matrix in matrices:
            differs = f"{name} differs from the batched Jacobian of token {position}"
            require_close(differs, batched[position].dense(), matrix, TOLERANCE)


BENCHMARK = Benchmark(
    "jacobians",
    "State-to-state Jacobians of a sequence: batched factors against torch.func.jacrev",
    cases,
    checked="matrices equal to 1e-8 in float64",
    headlines=(
        Headline(
            "Jacobians of 256 tokens, state of 1024", "jacrev", "batched", {"run": RUN}, aim="at least 50"
        ),
    ),
)
