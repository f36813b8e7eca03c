"""What `analysis.belief` looks at: how many sequences, how long, and what the probe is fitted to."""

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.framework.settings import AnalysisSettings
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run


class BeliefSettings(AnalysisSettings):
    """What is measured."""

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
        chosen = self.lengths or tuple(multiple * run.config.length for multiple in self.multiples)
        return tuple(sorted(set(chosen)))

    @property
    def solve(self) -> Solve:
        """How fixed points are sought."""
        return Solve(self.mode, stopping=Stopping(rtol=self.rtol, max_iterations=self.max_iterations))
