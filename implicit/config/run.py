"""Everything that determines a training run: with it and a machine, the weights are determined."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal

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

from automata.checks import shown
from automata.errors import InputError
from automata.tasks.interface import Task
from automata.tasks.specification import task_from
from implicit.checked_config import CheckedConfig, validated
from implicit.config.curriculum import Curriculum, Growth
from implicit.config.flat import flat_places, flatten, groups, nest
from implicit.config.references import check_allowed, model_name, task_specification
from implicit.models.registry import Sizes, complete_sizes, joined_sizes, model_class, size_names

_Share = Annotated[float, Field(ge=0, lt=1)]
_Count = Annotated[int, Field(gt=0, le=2**20)]


class OptimizerConfig(CheckedConfig):
    """AdamW with a linear warm-up and a cosine decay."""

    learning_rate: PositiveFloat = Field(default=1e-3, le=1e6, description="peak learning rate of AdamW")
    betas: tuple[_Share, _Share] = Field(
        default=(0.9, 0.95), description="decay rates of AdamW's two moments"
    )
    weight_decay: NonNegativeFloat = Field(default=0.0, description="weight decay of AdamW")
    gradient_clip: PositiveFloat | None = Field(
        default=0.25, description="largest norm of the gradient; none for no clipping"
    )
    warmup_steps: NonNegativeInt = Field(default=100, description="steps of the linear warm-up")
    final_learning_rate_fraction: float = Field(
        default=0.1, ge=0, le=1, description="what the cosine ends at, as a fraction of the peak"
    )

    average_steps: NonNegativeInt = Field(
        default=0,
        description="steps before the last one, of the final phase, whose weights are averaged; 0 for none",
    )

    def learning_rate_at(self, step: int, steps: int, falls_after: int | None = None) -> float:
        """Return the learning rate of a step: linear warm-up, then a cosine from the peak to its fraction.

        Steps count from 1. The cosine ends at ``steps``; it begins after ``falls_after``, or the warm-up.
        """
        if step <= self.warmup_steps:
            return self.learning_rate * step / self.warmup_steps
        peak_until = self.warmup_steps if falls_after is None else max(self.warmup_steps, falls_after)
        if step <= peak_until:
            return self.learning_rate
        progress = min(1.0, (step - peak_until) / (steps - peak_until))
        lowest = self.final_learning_rate_fraction
        return self.learning_rate * (lowest + (1 - lowest) * (1 + math.cos(math.pi * progress)) / 2)


class EvaluationConfig(CheckedConfig):
    """The validation during training, and the accuracy at which training ends early.

    Flags and overrides have one level only, so that a field whose name says too little alone has a longer
    name there: ``rtol`` is ``evaluation_rtol``.
    """

    every: PositiveInt = Field(
        default=50,
        description="training steps between two evaluations",
        json_schema_extra={"flat_name": "evaluate_every"},
    )
    lengths: tuple[_Count, ...] = Field(
        default=(),
        description="lengths to validate at; the training length if none is given",
        json_schema_extra={"flat_name": "evaluation_lengths"},
    )
    sequences: _Count = Field(
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
        le=10**6,
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


class InitialWeights(CheckedConfig):
    """Weights of a run with noise, as a configuration holds them; `begin_from` makes one."""

    run: str = Field(description="the run folder, or the name of a stored run")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="hash of its weights file")
    noise: float = Field(
        default=0.0,
        ge=0,
        description="size of the Gaussian noise that is added, as a share of the norm of each tensor",
    )


FORMAT_VERSION = 2
"""The version of ``config.json``. The first had all fields on one level and named no version."""


class TrainConfig(CheckedConfig):
    """The configuration of a training run; what ``config.json`` holds.

    `TrainConfig.of` says in one sentence which value is wrong. It takes fields of the groups by flat names.

    Example:
        >>> config = TrainConfig.of(task="parity", model="lstm", d_model=8, bounded_steps=200)
        >>> config.sizes, config.length, config.curriculum.bounded_steps
        ({'d_model': 8, 'layers': 1}, 32, 200)
        >>> TrainConfig.of(task="parity", model="lstm", steps=0)
        Traceback (most recent call last):
        automata.errors.InputError: steps is 0; it should be greater than 0
    """

    task: str | dict[str, Any] = Field(
        description="name of the task, or the specification that rebuilds one of your own"
    )
    model: str = Field(description="name of the model, or module:name of your own; --list shows the names")
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
    batch_size: _Count = Field(
        default=64, description="sequences per training step, at the training length or at any"
    )
    tokens_per_update: PositiveInt | None = Field(
        default=None,
        le=2**20,
        description="tokens per training step of short sequences, which then come in larger batches than "
        "batch_size; none for batch_size at any length",
    )
    scale_learning_rate: bool = Field(
        default=False,
        description="learning rate in proportion to the sequences of a step, from learning_rate at the "
        "start length (with tokens_per_update and growth_accuracy)",
    )
    length: _Count = Field(default=32, description="training length, in tokens")
    steps: PositiveInt = Field(default=1500, description="training steps")
    seed: NonNegativeInt = Field(
        default=0, le=2**63 - 1, description="seed of the initial weights and of all data streams"
    )
    checkpoint_every: PositiveInt = Field(
        default=100, description="training steps between two checkpoints, what a kill can cost at most"
    )
    optimizer: OptimizerConfig = Field(
        default_factory=OptimizerConfig, description="the optimiser and its learning rate"
    )
    algorithm: Literal["AdamW", "Muon"] = Field(
        default="AdamW", description="of the matrices between embedding and head; all else has AdamW"
    )
    compiled: dict[str, float] | None = Field(
        default=None,
        description="the gains of a model that was compiled from its task, not trained; None if trained",
    )
    initial: InitialWeights | None = Field(
        default=None, description="the run whose weights training begins with; None for those of the seed"
    )
    evaluation: EvaluationConfig = Field(
        default_factory=EvaluationConfig, description="validation during training"
    )
    curriculum: Curriculum = Field(
        default_factory=Curriculum, description="lengths, and how fixed points are solved and differentiated"
    )

    @classmethod
    def of(cls, *unnamed: object, **values: Any) -> "TrainConfig":
        """Return the configuration with these values; sizes of the model may stand among its fields.

        A field of a group by its flat name wins over the same field in the group.
        InputError for the first fault, naming the field, its value and the remedy.
        """
        if unnamed:
            raise InputError(f"{shown(unnamed[0])} has no name; give fields by name, as in task='parity'")
        places = flat_places(cls)
        others = values.keys() - places.keys() - cls.model_fields.keys()
        names = size_names(model_name(values["model"])) if others and "model" in values else ()
        if given := {name: values.pop(name) for name in names if name in others}:
            values["sizes"] = joined_sizes(values.get("sizes", {}), given)
        given_flat = {place: name for name, place in places.items() if name in values}
        return validated(cls, nest(cls, values), names=given_flat, known=[*places, *names])

    def updated(self, **values: Any) -> "TrainConfig":
        """Return the configuration with other values, checked again; another model takes its own sizes.

        Of a group or of sizes that are given as a dictionary, the entries left out stay as they are.
        """
        before = self.model_dump()
        if "model" in values and model_name(values["model"]) != self.model:
            del before["sizes"]
        else:
            before["sizes"] = {name: size for name, size in self.sizes.items() if name not in values}
        for name in {*groups(type(self)), "sizes"} & values.keys() & before.keys():
            if isinstance(values[name], Mapping):
                values[name] = {**before[name], **values[name]}
        return type(self).of(**{**before, **values})

    @field_validator("model", mode="before")
    @classmethod
    def _known_model(cls, model: Any) -> str:
        name = model_name(model)
        model_class(name)
        return name

    @model_validator(mode="before")
    @classmethod
    def _fraction_of_its_own(cls, values: Any) -> Any:
        """A task stands as what rebuilds it, and its hard fraction beside it."""
        if not isinstance(values, Mapping) or "task" not in values:
            return values
        task, fraction = task_specification(values["task"])
        beside = values.get("hard_fraction")
        if fraction is None:
            return {**values, "task": task}
        if beside is not None and beside != fraction:
            raise InputError(
                f"hard_fraction is {beside}, but the task says {fraction}; leave one of them out"
            )
        return {**values, "task": task, "hard_fraction": fraction}

    @field_validator("sizes")
    @classmethod
    def _complete_sizes(cls, sizes: Sizes, info: ValidationInfo) -> Sizes:
        model = info.data.get("model")
        return sizes if model is None else complete_sizes(model, sizes)

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainConfig":
        start, warmup = self.curriculum.start_length, self.optimizer.warmup_steps
        if start is not None and start > self.length:
            raise InputError(f"start_length is {start}; give at most the training length, {self.length}")
        if warmup > self.steps:
            raise InputError(
                f"warmup_steps is {warmup}; give at most steps, {self.steps}; implicit.recipe shortens it so"
            )
        final = self.curriculum.final_steps
        if self.curriculum.growth_accuracy is not None and final > self.steps:
            raise InputError(f"final_steps is {final}; give at most steps, {self.steps}")
        grows = start is not None and self.curriculum.growth_accuracy is not None
        if self.scale_learning_rate and (self.tokens_per_update is None or not grows):
            raise InputError(
                "scale_learning_rate is True, and the sequences of a step do not follow the accuracy; "
                "give tokens_per_update, start_length and growth_accuracy, or leave it out"
            )
        share = self.curriculum.carried_share
        if self.tokens_per_update is not None and share > 0 and self.curriculum.growth_accuracy is None:
            raise InputError(
                f"carried_share is {share} and lengths do not grow by accuracy, so that the number of "
                "sequences changes while they go on; leave tokens_per_update out, or give growth_accuracy"
            )
        return self

    def sequences(self, length: int) -> int:
        """Return how many sequences of a length a training step has.

        Example:
            >>> config = TrainConfig.of(task="S3", model="lstm", batch_size=64, tokens_per_update=2048)
            >>> [config.sequences(length) for length in (2, 20, 40)]
            [1024, 102, 64]
        """
        return max(self.batch_size, (self.tokens_per_update or 0) // length)

    def build_task(self) -> Task:
        """Return the task."""
        return task_from(self.task, self.hard_fraction)

    def learning_rate_at(self, step: int, growth: Growth | None = None) -> float:
        """Return the learning rate of a step, counted from 1.

        Growth is where a curriculum with growth_accuracy stands; at its beginning if None.
        """
        if self.curriculum.growth_accuracy is None:
            return self.optimizer.learning_rate_at(step, self.steps)
        final_from = None if growth is None else growth.final_from
        falls_after = step if final_from is None else final_from - 1
        rate = self.optimizer.learning_rate_at(step, self.last_step(growth), falls_after)
        first = self.curriculum.start_length
        if not self.scale_learning_rate or first is None or growth is None or growth.length is None:
            return rate
        # The linear scaling rule of Goyal et al. 2017, arXiv 1706.02677.
        return rate * self.sequences(growth.length) / self.sequences(first)

    def last_step(self, growth: Growth | None = None) -> int:
        """Return the last training step: that of the final phase once known, else the most there can be."""
        if self.curriculum.growth_accuracy is None or growth is None or growth.final_from is None:
            return self.steps
        return min(self.steps, growth.final_from - 1 + self.curriculum.final_steps)

    def averaged_steps(self, step: int, growth: Growth) -> int:
        """Return how many steps the mean of weights holds after a step; 0 before averaging begins."""
        if self.curriculum.growth_accuracy is None:
            begin = 0
        else:
            begin = self.steps if growth.final_from is None else growth.final_from - 1
        return max(0, step - max(begin, self.last_step(growth) - self.optimizer.average_steps))

    def validation_lengths(self) -> tuple[int, ...]:
        """Return the lengths to validate at."""
        return self.evaluation.lengths or (self.length,)

    def final_length(self) -> int:
        """Return the length in the last step; the training length if sequences grow with the accuracy."""
        if self.curriculum.growth_accuracy is not None:
            return self.length
        return self.curriculum.phase(self.steps, self.length).length

    def shortfall(self, reached: int | None = None) -> str | None:
        """Return what to say of a curriculum that does not reach the training length; None if it does.

        A finished run ``reached`` some length in its last step; if None, it is what the configuration
        foretells: the training length if sequences grow with the accuracy.
        """
        reached = self.final_length() if reached is None else reached
        if reached == self.length:
            return None
        ends = f"the curriculum ends at length {reached} of {self.length}"
        if self.curriculum.growth_accuracy is not None:
            return (
                f"{ends}, where its accuracy was last below {self.curriculum.growth_accuracy:g}; raise "
                "steps, or lower growth_accuracy or length_growth"
            )
        return (
            f"{ends}; raise steps to at least {self.curriculum.first_step_at(self.length)}, "
            "or start_length or length_growth, or lower length_growth_every"
        )

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Show what is not the default, by its flat name, as `TrainConfig.of` takes it."""
        usual = type(self).model_construct(task="", model="").flat()
        return ((name, value) for name, value in self.flat().items() if usual.get(name, ...) != value)

    def flat(self) -> dict[str, Any]:
        """Return the values by their flat names."""
        return flatten(type(self), self.model_dump())

    def as_json(self) -> dict[str, Any]:
        """Return the format version and the fields as JSON values."""
        return {"format_version": FORMAT_VERSION, **self.model_dump(mode="json")}

    @classmethod
    def from_json(
        cls, values: Mapping[str, Any], *, allow_code: bool | Collection[str] = False
    ) -> "TrainConfig":
        """Undo `as_json`; a configuration of the first format, with all fields on one level, is read too.

        With ``allow_code`` what is named as ``module:name`` is imported: all of it, or the names allowed.
        """
        fields = dict(values)
        version = fields.pop("format_version", 1)
        if type(version) is not int or version < 1:
            raise InputError(f"format_version is {version!r}; give a whole number of at least 1")
        if version > FORMAT_VERSION:
            raise InputError(
                f"the configuration was written by a newer version of implicit-ssm (format {version}, "
                f"this version reads up to {FORMAT_VERSION}); update implicit-ssm"
            )
        check_allowed("the configuration", fields, allow_code)
        if version > 1:
            return validated(cls, fields)
        return cls.of(**fields)
