"""The (s+k) curriculum: how the fixed point is solved and differentiated at each training step.

| phase   | steps             | solve                                     | gradient                     |
|---------|-------------------|-------------------------------------------|------------------------------|
| bounded | 1 … bounded_steps | bounded_iterations, no more and no less   | through all of them          |
| free    | afterwards        | to free_rtol, at most free_max_iterations | phantom_steps (k) or implicit |

Sequences of at most bounded_length tokens are in the bounded phase whatever the step.

With growth_accuracy sequences grow as soon as the model is right at their length. The run then ends
final_steps after it is right at the training length; the learning rate falls in these steps only.

Source: Schöne et al. 2025, arXiv 2502.07827; phantom gradients of Geng et al. 2021, arXiv 2111.05177.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, create_model, model_validator

from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, GradientRule, Phantom, Unrolled
from implicit.modes import Windowed
from implicit.penalties import PENALTIES, Penalty

SMOOTHING = 0.1
"""Weight of the newest training step in the running mean of the accuracy, which begins at 0 at each length: a
model that is right at once is believed to be right at 0.93 after 26 steps, not after one lucky batch."""


@dataclass(frozen=True)
class Growth:
    """Where the curriculum stands between two training steps; nothing is known where it follows their number.

    ``accuracy`` is the running mean of the late accuracy at this length, ``final_from`` the first step of the
    final phase, in which the learning rate falls.
    """

    length: int | None = None
    accuracy: float = 0.0
    final_from: int | None = None


PhaseName = Literal["bounded", "free"]

TRAINING_WINDOWS = Windowed(width=8, sweeps=6, block=None, precision=1)
"""Windows of the free phase, where no kernel solves token by token.

At the tolerance of training verification gains nothing; batches keep the calls of narrow windows large
(figures in docs/gradients.md)."""


@dataclass(frozen=True)
class Phase:
    """The settings of one training step.

    Attributes:
        name: ``"bounded"`` or ``"free"``; explicit models ignore it, the gradient rule and the stopping rule.
        length: tokens per sequence.
        gradient: how the fixed point is differentiated.
        stopping: when its iteration ends.
        penalties: those in the loss, by name.
        mode: in which order the fixed points of the tokens are sought.

    The other fields are those of `Curriculum` as they hold at this step.
    """

    name: PhaseName
    length: int
    gradient: GradientRule
    stopping: Stopping
    penalties: Mapping[str, Penalty] = field(default_factory=dict)
    carried_share: float = 0.0
    carried_right: bool = False
    carried_always: bool = False
    loss_until_error: bool = False
    random_starts: float = 0.0
    mode: Literal["auto", "simultaneous"] | Windowed = "simultaneous"


_OPTIONS: dict[str, Any] = {
    f"{name}_{option}": (field.annotation, field)
    for name, penalty in PENALTIES.items()
    for option, field in penalty.model_fields.items()
}
if TYPE_CHECKING:

    class PenaltyOptions(CheckedConfig):
        """The options of every penalty, as fields of one level: such as ``contraction_weight``."""

        def __getattr__(self, name: str) -> Any: ...
else:
    PenaltyOptions = create_model("PenaltyOptions", __base__=CheckedConfig, **_OPTIONS)


class Curriculum(PenaltyOptions):
    """The curriculum of a training run: what follows from the step and, with growth_accuracy, its `Growth`.

    Example:
        Lengths 4, 12, 20 and then the training length, 24; the fixed point is free from step 3001 on.

        >>> curriculum = Curriculum(
        ...     bounded_steps=3000, bounded_iterations=8,
        ...     start_length=4, length_growth=8, length_growth_every=1000,
        ... )
        >>> [curriculum.phase(step, length=24).length for step in (1, 1000, 1001, 2001, 3001, 9999)]
        [4, 4, 12, 20, 24, 24]
        >>> curriculum.phase(3000, length=24).gradient, curriculum.phase(3001, length=24).gradient
        (Unrolled(iterations=8), Phantom(steps=4, damping=0.8))

        Growing with the accuracy, bounded up to length 8:

        >>> curriculum = Curriculum(
        ...     bounded_steps=0, bounded_length=8, start_length=4, length_growth=4, growth_accuracy=0.9,
        ... )
        >>> growth = Growth(length=8, accuracy=0.899)
        >>> curriculum.phase(70, length=24, growth=growth).name
        'bounded'
        >>> growth = curriculum.grown(growth, 70, accuracy=1.0, length=24, steps=2000)
        >>> growth.length, curriculum.phase(71, length=24, growth=growth).name
        (12, 'free')
    """

    if TYPE_CHECKING:  # the options of penalties, too

        def __init__(self, **options: Any) -> None: ...

    bounded_steps: NonNegativeInt = Field(
        default=1000,
        description="training steps of the bounded phase; the free phase follows (implicit models)",
    )
    bounded_iterations: PositiveInt = Field(
        default=4, le=10**6, description="self-iterations in the bounded phase, all of them differentiated"
    )
    bounded_length: NonNegativeInt = Field(
        default=0,
        description="sequences up to this length are in the bounded phase at any step (implicit models)",
    )
    free_max_iterations: PositiveInt = Field(
        default=24,
        le=10**6,
        description="the most self-iterations in the free phase; phantom gradients add phantom_steps to them",
    )
    free_mode: Literal["auto", "simultaneous", "windowed"] = Field(
        default="auto",
        description="order of the solve in the free phase; auto: token by token where a kernel does so, else "
        "windowed",
    )
    free_rtol: PositiveFloat = Field(
        default=0.05, description="relative tolerance of the fixed point in the free phase"
    )
    random_starts: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="probability that a sequence is solved from random latents and from those of other "
        "tokens, and not from zero, in the free phase",
    )
    free_gradient: Literal["phantom", "implicit"] = Field(
        default="phantom",
        description="gradient in the free phase: phantom steps, or that of the implicit function theorem",
    )
    phantom_steps: PositiveInt = Field(
        default=4,
        description="differentiated steps after the solve in the free phase (with the phantom gradient)",
    )
    phantom_damping: PositiveFloat = Field(default=0.8, le=1, description="damping of those steps")
    carried_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="probability that a sequence goes on where one of the last step ended, in the free phase "
        "(carried_always: in both)",
    )
    carried_after: NonNegativeInt = Field(
        default=0,
        description="training steps before the first sequences go on and before the forgetting penalty; with "
        "growth_accuracy both wait for the final phase, too",
    )
    carried_right: bool = Field(
        default=False,
        description="only sequences go on whose answers were right at every token of the last third that was "
        "asked (with carried_share)",
    )
    carried_always: bool = Field(
        default=False,
        description="sequences go on in the bounded phase, too, and whether or not they reached their fixed "
        "points, as a text does that is read piece by piece (with carried_share)",
    )
    loss_until_error: bool = Field(
        default=False,
        description="leave the tokens behind the first wrong answer of a sequence out of the loss",
    )
    start_length: PositiveInt | None = Field(
        default=None, description="tokens per sequence at the first step; the training length if none"
    )
    length_growth: PositiveInt = Field(
        default=8, description="tokens added each time, up to the training length (with start_length)"
    )
    length_growth_every: PositiveInt = Field(
        default=1000,
        description="training steps between two such additions (with start_length, without growth_accuracy)",
    )
    growth_accuracy: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="accuracy, in the last third of the tokens, at which sequences grow; by step number "
        "if none",
    )
    final_steps: PositiveInt = Field(
        default=300,
        description="training steps after that accuracy at the training length, with a falling learning rate "
        "(with growth_accuracy)",
    )

    @model_validator(mode="after")
    def _penalties_accept_their_options(self) -> Self:
        self.penalties()
        return self

    def penalties(self, learnt: bool = True) -> dict[str, Penalty]:
        """Return the penalties with a positive weight, by name; while the task is not learnt, without some.

        Example:
            >>> Curriculum(contraction_weight=0.01).penalties()
            {'contraction': Contraction(weight=0.01, scales=(0.1, 0.1), power=1.0)}
        """
        every = {
            name: penalty(**{option: getattr(self, f"{name}_{option}") for option in penalty.model_fields})
            for name, penalty in PENALTIES.items()
        }
        return {
            name: penalty
            for name, penalty in every.items()
            if penalty.weight > 0 and (learnt or not penalty.after_learning)
        }

    def first_step_at(self, length: int) -> int:
        """Return the first training step whose sequences have the training length."""
        if self.start_length is None:
            return 1
        growths = -((self.start_length - length) // self.length_growth)  # rounded up
        return max(0, growths) * self.length_growth_every + 1

    def phase(self, step: int, length: int, growth: Growth | None = None) -> Phase:
        """Return what holds at a step, counted from 1, of a run that grows to the training length.

        Growth is where a curriculum with growth_accuracy stands; at its beginning if None.
        """
        growth = growth or Growth()
        length = self._length(step, length, growth)
        learnt = step > self.carried_after and (self.growth_accuracy is None or growth.final_from is not None)
        names = ("carried_right", "carried_always", "loss_until_error")
        alike: dict[str, Any] = {name: getattr(self, name) for name in names}
        if step <= self.bounded_steps or length <= self.bounded_length:
            stopping = Stopping(rtol=self.free_rtol, max_iterations=self.bounded_iterations)
            return Phase(
                "bounded",
                length,
                Unrolled(self.bounded_iterations),
                stopping,
                carried_share=self.carried_share if learnt and self.carried_always else 0.0,
                **alike,
            )
        gradient: GradientRule = FactoredImplicit()
        limit = self.free_max_iterations
        if self.free_gradient == "phantom":
            gradient = Phantom(self.phantom_steps, self.phantom_damping)
            limit += self.phantom_steps  # which give the gradient and do not move the latents themselves
        stopping = Stopping(rtol=self.free_rtol, max_iterations=limit)
        mode = TRAINING_WINDOWS if self.free_mode == "windowed" else self.free_mode
        return Phase(
            "free",
            length,
            gradient,
            stopping,
            penalties=self.penalties(learnt),
            carried_share=self.carried_share if learnt else 0.0,
            **alike,
            random_starts=self.random_starts,
            mode=mode,
        )

    def grown(self, growth: Growth, step: int, accuracy: float, length: int, steps: int) -> Growth:
        """Return where the curriculum stands after a step; unchanged where it follows the step number.

        The final phase begins once the running mean of the accuracy has passed at the training length, and in
        any case `final_steps` before the last step.

        The accuracy is the late one of the step, and ``steps`` the most of the run.
        """
        if self.growth_accuracy is None:
            return growth
        now = self._length(step, length, growth)
        mean = growth.accuracy + SMOOTHING * (accuracy - growth.accuracy)
        growth = replace(growth, length=now, accuracy=mean)
        passed = growth.accuracy >= self.growth_accuracy
        if growth.final_from is None and ((passed and now == length) or step >= steps - self.final_steps):
            growth = replace(growth, final_from=step + 1)
        if passed and now < length:
            growth = Growth(min(length, now + self.length_growth), final_from=growth.final_from)
        return growth

    def _length(self, step: int, length: int, growth: Growth) -> int:
        """Tokens per sequence at a step."""
        if growth.length is not None:
            return growth.length
        if self.start_length is None:
            return length
        growths = 0 if self.growth_accuracy is not None else (step - 1) // self.length_growth_every
        return min(length, self.start_length + self.length_growth * growths)
