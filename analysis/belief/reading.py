"""The settings of `analysis.belief`, and long sequences read in blocks that bound the memory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.arrays import IntArray
from analysis.framework.settings import AnalysisSettings
from automata.command_line import progress_bar
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from theory.transition import State


class BeliefSettings(AnalysisSettings):
    """The settings of the measurement."""

    sequences: int = Field(default=64, ge=2, description="test sequences; they are the independent units")
    multiples: tuple[PositiveInt, ...] = Field(
        default=(1, 2, 4, 8), min_length=1, description="lengths, as multiples of the training length"
    )
    lengths: tuple[PositiveInt, ...] = Field(
        default=(), description="lengths in tokens, in place of the multiples"
    )
    batch_size: PositiveInt = Field(default=16, description="sequences that a model reads at a time")
    seed: NonNegativeInt = Field(default=0, description="seed of the test sequences")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="level of the confidence intervals")
    probe: bool = Field(default=True, description="whether a linear probe of the state is fitted")
    probe_sequences: int = Field(default=256, ge=2, description="sequences that the probe is fitted to")
    probe_validation: int = Field(
        default=64, ge=2, description="sequences on which its regularisation is chosen"
    )
    probe_seed: NonNegativeInt = Field(
        default=1, description="seed of these sequences and of the random projection"
    )
    window: PositiveInt = Field(
        default=32, description="last tokens of each length at which the decoded belief is looked at"
    )
    mode: Mode = Field(
        default="auto",
        description="of implicit models: how fixed points are sought; auto answers as the sequential mode",
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")

    def lengths_for(self, run: Run) -> tuple[int, ...]:
        """Return the lengths at which a run is looked at, in tokens, without repetition, the shortest first.

        Example:
            >>> from implicit.runs.loading import load_run
            >>> BeliefSettings(multiples=(2, 1)).lengths_for(load_run("parity"))
            (32, 64)
        """
        chosen = self.lengths or tuple(multiple * run.reading_length for multiple in self.multiples)
        return tuple(sorted(set(chosen)))

    @property
    def solve(self) -> Solve:
        """How fixed points are sought."""
        return Solve(self.mode, stopping=Stopping(rtol=self.rtol, max_iterations=self.max_iterations))


_NUMBERS_AT_ONCE = 2**25  # in the states of a block, 128 MiB in float32, or in its logits
_LONGEST_BLOCK = 1024


@dataclass(frozen=True, eq=False)
class Block:
    """The outputs of a model for the sequences ``rows``, from position ``first`` on.

    Logits are ``[sequences, tokens, output_size]``. States, None where they grow with every token, are those
    before the first token and after each, ``[sequences, tokens + 1, …]``. ``unconverged`` counts tokens
    without a converged fixed point.
    """

    rows: slice
    first: int
    logits: Tensor
    states: State | None
    unconverged: int

    @property
    def after(self) -> int:
        """The position behind the last token."""
        return self.first + self.logits.shape[1]


@torch.no_grad()
def read_in_blocks(
    model: SequenceModel, tokens: IntArray, settings: BeliefSettings, label: str
) -> Iterator[Block]:
    """Read sequences from their beginning, so many at a time, in blocks of tokens that bound the memory.

    Padding is read like any token: models are causal, so that nothing before it changes.
    Blocks have states where these do not grow; ``label`` is that of the progress bar.
    """
    at_once = settings.batch_size
    given = torch.from_numpy(tokens).to(model.device)
    size = block_length(model, at_once, given.shape[1])
    places = [
        (slice(row, min(row + at_once, len(given))), first)
        for row in range(0, len(given), at_once)
        for first in range(0, given.shape[1], size)
    ]
    state: State | None = None
    for rows, first in progress_bar(places, desc=label, unit="block"):
        piece = given[rows, first : first + size]
        before = None if first == 0 else state
        output = model.run(piece, before, settings.solve)
        states, unconverged = None, 0
        if output.solution is not None:
            unconverged = int((~output.solution.converged).sum())
        if not model.state_grows:
            implicit = model.implicit
            if implicit is not None and output.solution is not None:
                states = implicit.states_at(piece, output.solution.latents, before)
            else:
                states = model.states(piece, before)
        state = output.state
        yield Block(rows, first, output.logits, states, unconverged)


def block_length(model: SequenceModel, sequences: int, length: int) -> int:
    """Return how many tokens a model reads at a time so that what is kept of them stays small."""
    numbers = model.config.output_size
    if not model.state_grows:
        numbers = max(numbers, state_size(model))
    return max(1, min(length, _LONGEST_BLOCK, _NUMBERS_AT_ONCE // (sequences * numbers)))


def state_size(model: SequenceModel) -> int:
    """Return the numbers in the state of one sequence, all parts together."""
    return sum(math.prod(part.shape[1:]) for part in model.init_state(1).values())
