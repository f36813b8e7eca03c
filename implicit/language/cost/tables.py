"""The cost of the published sizes as tables in Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from implicit.language.configuration import LanguageModelConfig
from implicit.language.cost.memory import Activations, WeightMemory
from implicit.language.cost.training import (
    TrainingCost,
    highest_utilisation,
    published_phases,
    tokens_per_second,
)
from implicit.language.sizes import parameter_count, published_config

NAMES = {"mamba2": "Mamba-2", "llama": "Llama"}
RESERVED = 0.2
"""Share of a device's memory that is kept free for what the formulas leave out: our choice."""
_GIB = 2**30
_DAY = 86_400


@dataclass(frozen=True)
class Device:
    """Peaks in operations per second, of dense products in bfloat16 and in float32, and bytes of an H100 SXM.

    NVIDIA's data sheet has 1,979 TFLOP/s in bfloat16 with sparsity, and 989 in TF32, so half of that without.
    A product in float32 takes three in TF32.
    """

    peak: float = 989e12
    float32_peak: float = 165e12
    memory: float = 80 * _GIB


@dataclass(frozen=True)
class PublishedCost:
    """The cost of a published size, such as ``"130m"`` of ``"llama"``, explicit and implicit."""

    family: str
    size: str
    length: int

    @property
    def label(self) -> str:
        """How the tables call it."""
        return f"{NAMES[self.family]} {self.size}"

    def config(self, *, implicit: bool = True) -> LanguageModelConfig:
        """Return the configuration."""
        return published_config(self.family, self.size, implicit=implicit)

    def cost(self, *, implicit: bool = True, checkpointing: bool = False) -> TrainingCost:
        """Return the cost of training it."""
        return TrainingCost(self.config(implicit=implicit), self.length, checkpointing)

    def per_token(self, *, implicit: bool, checkpointing: bool = False) -> float:
        """Return the operations per token, of an implicit model in the mean over the curriculum."""
        cost = self.cost(implicit=implicit, checkpointing=checkpointing)
        return cost.mean_per_token(published_phases(self.family)) if implicit else cost.per_token()

    def ceiling(self, device: Device, *, implicit: bool) -> float:
        """Return the utilisation above which no run gets whose scan is computed in float32; 1 for Llama."""
        if self.family == "llama":
            return 1.0
        cost = self.cost(implicit=implicit)
        if implicit:
            phases = published_phases(self.family)
            mixing = sum(phase.share * cost.mixing_share(phase) * cost.per_token(phase) for phase in phases)
            share = mixing / cost.mean_per_token(phases)
        else:
            share = cost.mixing_share()
        return highest_utilisation(share, device.peak / device.float32_peak)


def flops_table(models: Sequence[PublishedCost], tokens: float) -> str:
    """Return operations per token of each phase, and of a run of so many tokens."""
    head = (
        "model",
        "parameters of the implicit one",
        "explicit",
        "(4+1)",
        "second phase",
        "curriculum",
        "with checkpointing",
        "run, explicit (ZFLOP)",
        "run, implicit (ZFLOP)",
    )
    rows = []
    for model in models:
        cost, explicit = model.cost(), model.per_token(implicit=False)
        phases = [cost.per_token(phase) for phase in published_phases(model.family)]
        mean = model.per_token(implicit=True)
        giga = [explicit, *phases, mean, model.per_token(implicit=True, checkpointing=True)]
        runs = [explicit * tokens / 1e21, mean * tokens / 1e21]
        count = f"{parameter_count(model.config()):,}"
        rows.append([model.label, count, *(f"{value / 1e9:.2f}" for value in giga), *map(_short, runs)])
    return _table(head, rows)


def memory_table(models: Sequence[PublishedCost], device: Device, processes: Sequence[int]) -> str:
    """Return what a device holds, for weights and for a sequence, and how many sequences fit."""
    head = (
        "model",
        "replicated",
        *(f"sharded over {number}" for number in processes),
        "explicit",
        "(4+1)",
        "second phase",
        "(4+1), checkpointed",
        "second phase, checkpointed",
        "fit, (4+1)",
        "fit, second phase",
        "fit, second phase checkpointed",
    )
    rows = []
    for model in models:
        config = model.config()
        replicated = WeightMemory.of(config, max(2, *processes), sharded=False).total
        sharded = [WeightMemory.of(config, number, sharded=True).total for number in processes]
        sequences = [
            Activations.of(
                config, model.length, phantom_steps=phase.phantom_steps, gradient_checkpointing=checkpointing
            ).total
            for checkpointing in (False, True)
            for phase in published_phases(model.family)
        ]
        explicit = Activations.of(model.config(implicit=False), model.length).total
        left = (1 - RESERVED) * device.memory - replicated
        fit = [max(0, int(left // size)) for size in (sequences[0], sequences[1], sequences[3])]
        held = [replicated, *sharded, explicit, *sequences]
        rows.append([model.label, *(f"{value / _GIB:.1f}" for value in held), *map(str, fit)])
    return _table(head, rows)


def time_table(
    models: Sequence[PublishedCost], tokens: float, device: Device, utilisations: Sequence[float]
) -> str:
    """Return tokens per second and device, and days of a device for a run, at assumed utilisations."""
    head = (
        "model",
        "assumed utilisation",
        "explicit: tokens/s",
        "GPU-days",
        "implicit: tokens/s",
        "GPU-days",
        "GPU-days with checkpointing",
    )
    rows = []
    for model in models:
        for utilisation in utilisations:
            row = [model.label, f"{utilisation:.0%}"]
            for implicit in (False, True):
                ceiling = model.ceiling(device, implicit=implicit)
                reached = min(utilisation, ceiling)
                mark = "" if utilisation <= ceiling else f" (at {ceiling:.0%})"
                rate = tokens_per_second(model.per_token(implicit=implicit), 1, device.peak, reached)
                row += [f"{float(f'{rate:.3g}'):,.0f}{mark}", _short(tokens / rate / _DAY)]
            again = model.per_token(implicit=True, checkpointing=True)
            rate = tokens_per_second(again, 1, device.peak, reached)
            rows.append([*row, _short(tokens / rate / _DAY)])
    return _table(head, rows)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) + ("---:",) * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
