"""The optimiser and its learning rate at every step."""

import math

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, field_validator

from automata.errors import InputError
from implicit.checked_config import CheckedConfig


class OptimizerConfig(CheckedConfig):
    """AdamW with a linear warm-up and a cosine decay.

    Example:
        >>> OptimizerConfig(learning_rate=0.01).betas
        (0.9, 0.95)
    """

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

    @field_validator("betas")
    @classmethod
    def _decaying(cls, betas: tuple[float, float]) -> tuple[float, float]:
        for beta in betas:
            if not 0 <= beta < 1:
                raise InputError(f"betas holds {beta}; give two numbers of at least 0 and below 1")
        return betas

    def learning_rate_at(self, step: int, steps: int, falls_after: int | None = None) -> float:
        """Return the learning rate of a step: linear warm-up, then a cosine from the peak to its fraction.

        Args:
            step: number of the training step, from 1.
            steps: training steps of the whole run, where the cosine ends.
            falls_after: last step at the peak, if the cosine begins later than the warm-up ends.

        Example:
            >>> optimizer = OptimizerConfig(learning_rate=1.0)
            >>> [round(optimizer.learning_rate_at(step, steps=300), 3) for step in (1, 50, 100, 200, 300)]
            [0.01, 0.5, 1.0, 0.55, 0.1]
            >>> [round(optimizer.learning_rate_at(step, 300, falls_after=200), 3) for step in (50, 200, 250)]
            [0.5, 1.0, 0.55]
        """
        if step <= self.warmup_steps:
            return self.learning_rate * step / self.warmup_steps
        peak_until = self.warmup_steps if falls_after is None else max(self.warmup_steps, falls_after)
        if step <= peak_until:
            return self.learning_rate
        progress = min(1.0, (step - peak_until) / (steps - peak_until))
        lowest = self.final_learning_rate_fraction
        return self.learning_rate * (lowest + (1 - lowest) * (1 + math.cos(math.pi * progress)) / 2)
