"""Everything that determines a training run: with it and a machine, the weights are determined."""

import math
from typing import Any

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from automata.errors import InputError, unknown_name
from automata.tasks.registry import task_names
from implicit.checked_config import validated
from implicit.config.curriculum import Curriculum
from implicit.models.registry import MODELS, Sizes, complete_sizes, model_class


class TrainConfig(Curriculum):
    """The configuration of a training run, its curriculum included; what ``config.json`` holds.

    Use `TrainConfig.of` to make one from values that may be wrong: its faults are one sentence each.

    Example:
        >>> config = TrainConfig.of(task="parity", model="lstm", sizes={"d_model": 8}, steps=200)
        >>> config.sizes, config.length
        ({'d_model': 8, 'layers': 1}, 32)
        >>> TrainConfig.of(task="parity", model="lstm", steps=0)
        Traceback (most recent call last):
        automata.errors.InputError: steps is 0; it should be greater than 0
    """

    task: str = Field(description="name of the task; --list shows them")
    model: str = Field(description="name of the model; --list shows them")
    hard_fraction: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="probability that a token is drawn uniformly, not easy; 1 if none",
    )
    sizes: Sizes = Field(
        default_factory=dict,
        validate_default=True,
        description="sizes of the model; those left out are filled in",
    )
    batch_size: PositiveInt = Field(default=64, description="sequences a training step")
    length: PositiveInt = Field(default=32, description="training length, in tokens")
    steps: PositiveInt = Field(default=1500, description="training steps")
    learning_rate: PositiveFloat = Field(default=1e-3, le=1e6, description="peak learning rate of AdamW")
    betas: tuple[float, float] = Field(default=(0.9, 0.95), description="decay rates of AdamW's two moments")
    weight_decay: NonNegativeFloat = Field(default=0.0, description="weight decay of AdamW")
    gradient_clip: PositiveFloat | None = Field(
        default=0.25, description="largest norm of the gradient; none for no clipping"
    )
    warmup_steps: NonNegativeInt = Field(default=100, description="steps of the linear warm-up")
    final_learning_rate_fraction: float = Field(
        default=0.1, ge=0, le=1, description="what the cosine ends at, as a fraction of the peak"
    )
    seed: NonNegativeInt = Field(
        default=0, le=2**63 - 1, description="seed of the initial weights and of all data streams"
    )
    evaluate_every: PositiveInt = Field(default=50, description="training steps between two evaluations")
    evaluation_lengths: tuple[PositiveInt, ...] = Field(
        default=(), description="lengths to validate at; the training length if none is given"
    )
    evaluation_sequences: PositiveInt = Field(default=128, description="validation sequences of each length")
    evaluation_rtol: PositiveFloat | None = Field(
        default=None, description="relative tolerance when validating; that of the phase if none"
    )
    evaluation_max_iterations: PositiveInt | None = Field(
        default=None, description="the most self-iterations when validating; that of the phase if none"
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
    checkpoint_every: PositiveInt = Field(
        default=100, description="training steps between two checkpoints, what a kill can cost at most"
    )

    @classmethod
    def of(cls, **values: Any) -> "TrainConfig":
        """Return the configuration with these values.

        Raises:
            InputError: for the first fault, naming the field, its value and the remedy.
        """
        return validated(cls, values)

    @field_validator("task")
    @classmethod
    def _known_task(cls, task: str) -> str:
        if task not in task_names():
            raise unknown_name("task", task, task_names())
        return task

    @field_validator("model")
    @classmethod
    def _known_model(cls, model: str) -> str:
        return model_class(model).name

    @field_validator("sizes")
    @classmethod
    def _complete_sizes(cls, sizes: Sizes, info: ValidationInfo) -> Sizes:
        model = info.data.get("model")
        return complete_sizes(model, sizes) if model in MODELS else sizes

    @field_validator("betas")
    @classmethod
    def _decaying(cls, betas: tuple[float, float]) -> tuple[float, float]:
        for beta in betas:
            if not 0 <= beta < 1:
                raise InputError(f"betas holds {beta}; give two numbers of at least 0 and below 1")
        return betas

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        if self.start_length is not None and self.start_length > self.length:
            raise InputError(
                f"start_length is {self.start_length}; give at most the training length, {self.length}"
            )
        if self.warmup_steps > self.steps:
            raise InputError(f"warmup_steps is {self.warmup_steps}; give at most steps, {self.steps}")
        return self

    def learning_rate_at(self, step: int) -> float:
        """Return the learning rate of a step: linear warm-up, then a cosine from the peak to its fraction.

        Example:
            >>> config = TrainConfig.of(task="parity", model="lstm", steps=300, learning_rate=1.0)
            >>> [round(config.learning_rate_at(step), 3) for step in (1, 50, 100, 200, 300)]
            [0.01, 0.5, 1.0, 0.55, 0.1]
        """
        if step <= self.warmup_steps:
            return self.learning_rate * step / self.warmup_steps
        progress = (step - self.warmup_steps) / (self.steps - self.warmup_steps)
        floor = self.final_learning_rate_fraction
        return self.learning_rate * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)

    def validation_lengths(self) -> tuple[int, ...]:
        """Return the lengths to validate at.

        Example:
            >>> TrainConfig.of(task="parity", model="lstm").validation_lengths()
            (32,)
        """
        return self.evaluation_lengths or (self.length,)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, those of the curriculum last.

        Example:
            >>> next(iter(TrainConfig.of(task="parity", model="lstm").as_json().items()))
            ('task', 'parity')
        """
        values = self.model_dump(mode="json")
        return {
            field: values[field]
            for field in sorted(values, key=lambda field: field in Curriculum.model_fields)
        }
