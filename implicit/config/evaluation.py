"""When and how a model is validated while it is trained."""

from pydantic import Field, PositiveFloat, PositiveInt

from implicit.checked_config import CheckedConfig


class EvaluationConfig(CheckedConfig):
    """The validation during training, and the accuracy at which training ends early.

    Flags and overrides have one level only, so that a field whose name says too little alone has a longer
    name there: ``rtol`` is ``evaluation_rtol``.

    Example:
        >>> EvaluationConfig(lengths=(32, 64)).sequences
        128
    """

    every: PositiveInt = Field(
        default=50,
        description="training steps between two evaluations",
        json_schema_extra={"flat_name": "evaluate_every"},
    )
    lengths: tuple[PositiveInt, ...] = Field(
        default=(),
        description="lengths to validate at; the training length if none is given",
        json_schema_extra={"flat_name": "evaluation_lengths"},
    )
    sequences: PositiveInt = Field(
        default=128,
        description="validation sequences of each length",
        json_schema_extra={"flat_name": "evaluation_sequences"},
    )
    rtol: PositiveFloat | None = Field(
        default=None,
        description="relative tolerance when validating; that of the phase if none",
        json_schema_extra={"flat_name": "evaluation_rtol"},
    )
    max_iterations: PositiveInt | None = Field(
        default=None,
        description="the most self-iterations when validating; that of the phase if none",
        json_schema_extra={"flat_name": "evaluation_max_iterations"},
    )
    target_accuracy: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="end early once validation accuracy stays this high at every length; none for never",
    )
    patience: PositiveInt = Field(
        default=3, description="evaluations in a row, after the bounded phase, that the target has to be met"
    )
