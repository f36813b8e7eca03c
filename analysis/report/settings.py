"""Settings of the report."""

from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from implicit.checked_config import CheckedConfig


class ReportSettings(CheckedConfig):
    """How much is looked at; the defaults take about two minutes of one core for the models of the demo.

    Which of them an analysis follows stands in its `ReportSection`.

    Example:
        >>> ReportSettings().lengths
        (32, 64, 128, 256)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    seed: NonNegativeInt = Field(default=0, description="seed of all test sequences and random starts")
    states: PositiveInt = Field(default=64, description="states at which Theorem 1 is checked")
    states_length: PositiveInt = Field(default=64, description="length of the sequences that visit them")
    lengths: tuple[PositiveInt, ...] = Field(
        default=(32, 64, 128, 256), min_length=1, description="lengths at which accuracy is measured"
    )
    sequences: PositiveInt = Field(default=256, description="sequences for the accuracy")
    agreement_sequences: PositiveInt = Field(
        default=32, description="sequences on which the two modes are compared"
    )
    convergence_sequences: PositiveInt = Field(
        default=4, description="sequences whose iterations are followed"
    )
    mode_length: PositiveInt = Field(
        default=256, description="length of the sequences for modes and iterations"
    )
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations in both of these")
