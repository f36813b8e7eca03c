"""The configuration of a pretraining run, read from YAML."""

import os
import re
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, field_validator, model_validator

from automata.checks import shown
from automata.data_files import read_file
from automata.errors import InputError, unknown_name
from implicit.checked_config import CheckedConfig, validated
from implicit.config.run import OptimizerConfig
from implicit.language.configuration import FixedPoints, LanguageModelConfig
from implicit.language.sizes import language_config, published_config

LARGEST_CONFIG = 2**20
"""Bytes of a YAML file."""
_NO_YAML = (yaml.YAMLError, ValueError, AttributeError, LookupError, TypeError, RecursionError)
"""The errors of the reader: of `!!bool x` a KeyError, of an empty `!!int` an IndexError."""
Family = Literal["mamba2", "llama"]


class ModelChoice(CheckedConfig):
    """Which model is trained."""

    family: Family = Field(default="mamba2", description="of the layers")
    implicit: bool = Field(default=True, description="iterated to a fixed point, or run once")
    size: str | None = Field(
        default=None, description="a published size, such as 130m; none for fields alone"
    )
    fields: dict[str, Any] = Field(
        default_factory=dict, description="any other field of the configuration, such as hidden_size"
    )

    def build(self, vocabulary: int) -> LanguageModelConfig:
        """Return the configuration of the model, for tokens below a number.

        A published size keeps its vocabulary, which may be padded; of others it is that number. InputError if
        a field or the size is unknown, or a value does not fit.
        """
        self._check_fields()
        if self.size is not None:
            found = published_config(self.family, self.size, implicit=self.implicit, **self.fields)
        else:
            fields = {"vocab_size": vocabulary, **self.fields}
            found = language_config(self.family, implicit=self.implicit, **fields)
        if found.vocab_size < vocabulary:
            raise InputError(
                f"vocab_size is {found.vocab_size} and the tokenizer has {vocabulary} tokens; give at least "
                "as many in model.fields"
            )
        return found

    def _check_fields(self) -> None:
        declared = set(type(language_config(self.family, implicit=self.implicit)).declared())
        own = declared - {"use_cache", "bos_token_id", "eos_token_id", "pad_token_id"}  # the tokenizer's
        for name, value in self.fields.items():
            if name not in own:
                raise unknown_name(
                    "field", f"model.fields.{name}", sorted(f"model.fields.{one}" for one in own)
                )
            if name == "tie_word_embeddings" and not isinstance(value, bool):
                raise InputError(f"model.fields.{name} is {value!r}; give true or false")


class Source(CheckedConfig):
    """Where text comes from: files, or a dataset of the `datasets` package.

    Example:
        >>> Source(files=("train.txt",)).field
        'text'
        >>> Source()
        Traceback (most recent call last):
        automata.errors.InputError: a source names neither files nor a dataset; give one of them
    """

    files: tuple[str, ...] = Field(
        default=(),
        description="text files, each one document; .jsonl, a document per line; .npy, tokens as they are; "
        "may begin with $IMPLICIT_SSM_DATA/",
    )
    dataset: str | None = Field(default=None, description="a folder of save_to_disk, or a name on the Hub")
    configuration: str | None = Field(default=None, description="of a dataset on the Hub")
    split: str = Field(default="train", description="of the dataset")
    field: str = Field(default="text", description="that holds the text of a document")

    @model_validator(mode="after")
    def _one_of_both(self) -> "Source":
        if bool(self.files) == (self.dataset is not None):
            which = "neither files nor a dataset" if not self.files else "files and a dataset"
            raise InputError(f"a source names {which}; give one of them")
        return self


class Phase(CheckedConfig):
    """A part of training in which fixed points are sought in one way; explicit models ignore it.

    The (4+1) of Schöne et al. 2025 are four iterations and one step with gradient.

    Example:
        >>> Phase(share=0.8, iterations=4, phantom_steps=1, rtol=0).label
        '4+1'
    """

    share: float = Field(gt=0, le=1, description="of all training tokens")
    iterations: PositiveInt = Field(description="the most self-iterations without gradient")
    phantom_steps: PositiveInt = Field(default=4, description="steps with gradient after these")
    rtol: NonNegativeFloat = Field(
        default=0.05, lt=1, description="relative tolerance at which a token is done; 0: all are iterated"
    )

    @property
    def label(self) -> str:
        """Return the notation of papers: iterations without gradient, plus those with."""
        return f"{self.iterations}+{self.phantom_steps}"


PAPER_PHASES = (
    Phase(share=0.8, iterations=4, phantom_steps=1, rtol=0.0),
    Phase(share=0.2, iterations=24, phantom_steps=4, rtol=0.05),
)
"""The phases of implicit Mamba-2 in Schöne et al. 2025; implicit Llama has 32 iterations in the second."""


class Evaluation(CheckedConfig):
    """The measurement of the perplexity on the validation text."""

    every: PositiveInt = Field(default=500, description="steps between measurements; the last is in the end")
    tokens: PositiveInt | None = Field(
        default=100_000, description="of the validation text, from its beginning; none for all"
    )
    sequences: PositiveInt = Field(default=8, description="windows at a time and process")
    mode: Literal["simultaneous", "sequential", "windowed", "auto"] = Field(
        default="simultaneous", description="of implicit models: in which order tokens are solved"
    )
    rtol: NonNegativeFloat = Field(default=0.01, lt=1, description="relative tolerance of fixed points")
    max_iterations: PositiveInt = Field(default=64, description="the most self-iterations")


class PretrainOptimizer(OptimizerConfig):
    """AdamW as language models are trained, whatever else of it is given."""

    weight_decay: NonNegativeFloat = Field(default=0.1, description="weight decay of AdamW")
    gradient_clip: PositiveFloat | None = Field(
        default=1.0, description="largest norm of the gradient; none for no clipping"
    )
    average_steps: Literal[0] = Field(default=0, description="weights are not averaged")


class PretrainConfig(CheckedConfig):
    """Everything that determines a pretraining run.

    Example:
        >>> config = PretrainConfig(
        ...     train=Source(files=("train.txt",)), validation=Source(files=("valid.txt",)), steps=10
        ... )
        >>> config.tokens_per_step, config.phase_at(8).label, config.phase_at(9).label
        (4096, '4+1', '24+4')
    """

    model: ModelChoice = Field(default_factory=ModelChoice, description="which model")
    tokenizer: str | PositiveInt = Field(
        default="bytes",
        description="bytes; a number, for a byte-pair encoding of so many tokens, trained on the training "
        "text; or a folder, a tokenizer.json or a name on the Hub",
    )
    train: Source = Field(description="the text that is trained on")
    validation: Source = Field(description="the text that perplexity is measured on")
    length: Annotated[int, Field(ge=2)] = Field(default=256, description="tokens of a window")
    sequences: PositiveInt = Field(default=16, description="windows of a step, of all processes together")
    accumulation: PositiveInt = Field(default=1, description="parts that a process takes its windows in")
    steps: PositiveInt = Field(default=1000, le=2**53, description="updates")
    seed: int = Field(
        default=0, ge=0, lt=2**32, description="of the initial weights and the order of windows"
    )
    phases: tuple[Phase, ...] = Field(
        default=PAPER_PHASES, min_length=1, description="how fixed points are sought, one after the other"
    )
    optimizer: PretrainOptimizer = Field(
        default_factory=PretrainOptimizer, description="of all weights; those of one axis are not decayed"
    )
    algorithm: Literal["AdamW", "Adam", "NAdam", "RAdam", "SGD"] = Field(
        default="AdamW", description="a class of torch.optim"
    )
    evaluation: Evaluation = Field(default_factory=Evaluation, description="of the perplexity")
    checkpoint_every: PositiveInt = Field(default=500, description="steps between checkpoints")
    log_every: PositiveInt = Field(default=10, description="steps between lines of metrics.jsonl")
    precision: Literal["no", "bf16"] = Field(default="no", description="of what autocast covers; no: float32")
    gradient_checkpointing: bool = Field(
        default=False, description="keep no activations inside of layers, and compute them again"
    )

    @field_validator("precision", mode="before")
    @classmethod
    def _no_is_a_word(cls, value: Any) -> Any:
        return "no" if value is False else value  # as YAML reads it without quotes

    @model_validator(mode="after")
    def _fits_together(self) -> "PretrainConfig":
        total = sum(phase.share for phase in self.phases)
        if abs(total - 1) > 1e-9:
            raise InputError(f"the shares of phases sum to {total:g}; give shares that sum to 1")
        if self.sequences % self.accumulation:
            raise InputError(
                f"accumulation is {self.accumulation}; it must divide sequences = {self.sequences}"
            )
        return self

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step reads."""
        return self.length * self.sequences

    def phase_at(self, step: int) -> Phase:
        """Return the phase of a step, the first being 1."""
        end = 0.0
        for phase in self.phases:
            end += phase.share
            if step <= round(end * self.steps):
                return phase
        return self.phases[-1]


def read_config(path: str | os.PathLike[str], changes: tuple[str, ...] = ()) -> PretrainConfig:
    """Read a configuration from YAML, with changes ``name=value`` or ``outer.inner=value``, in YAML too.

    InputError if the file is missing or no YAML, or a field is unknown or has a value that does not fit.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "config.yaml"
        ...     _ = path.write_text("{train: {files: [a.txt]}, validation: {files: [b.txt]}}")
        ...     config = read_config(path, ("optimizer.learning_rate=0.01",))
        >>> config.optimizer.learning_rate
        0.01
    """
    try:
        text = read_file(path, LARGEST_CONFIG).decode("utf-8-sig")
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); give a YAML file") from error
    try:
        values = yaml.load(text, _NoKeyTwice)
    except _NO_YAML as error:
        raise InputError(f"{path} is no YAML ({' '.join(str(error).split())}); mend it") from error
    if not isinstance(values, dict):
        raise InputError(f"{path} holds no fields; give name: value, such as steps: 1000")
    for change in changes:
        _change(values, change)
    return validated(PretrainConfig, values)


class _NoKeyTwice(yaml.SafeLoader):
    """Refuses aliases and a mapping with a key twice or no text, and keeps 010, 1:30 and dates as given.

    Nine lines of aliases can stand for gigabytes. YAML 1.1 reads 8, 90 and an object there; fields that are
    numbers read the text themselves.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError(f"it holds the alias *{self.peek_event().anchor}; write out what it stands for")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str) or key.value in seen:
                raise ValueError(f"{shown(key.value)} is twice in one mapping, or no name")
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _as_given(loader: Any, node: Any) -> Any:
    if ":" in node.value or re.match("[-+]?0[0-9_]", node.value):
        return node.value
    return loader.construct_yaml_int(node)


_NoKeyTwice.add_constructor("tag:yaml.org,2002:int", _as_given)
_NoKeyTwice.add_constructor("tag:yaml.org,2002:timestamp", lambda _, node: node.value)


def _change(values: dict[str, Any], change: str) -> None:
    name, equals, text = change.partition("=")
    if not equals:
        raise InputError(f"--set {change} has no '='; give NAME=VALUE, such as steps=100")
    try:
        value = yaml.load(text, _NoKeyTwice)
    except _NO_YAML:
        raise InputError(f"--set {change} has a value that is no YAML; put it in quotes") from None
    *outer, last = name.split(".")
    for part in outer:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise InputError(f"--set {change} names a field inside of {part}, which has none; give {part}=…")
    values[last] = value


def enter(config: LanguageModelConfig, phase: Phase) -> None:
    """Let an implicit model train as a phase says; an explicit one stays as it is."""
    if isinstance(config, FixedPoints):
        config.training_max_iterations = phase.iterations
        config.phantom_steps, config.training_rtol = phase.phantom_steps, phase.rtol
