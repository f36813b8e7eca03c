"""Print what training the published sizes takes, by formula, as tables in Markdown."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from automata.checks import check_number
from automata.errors import InputError, unknown_name
from implicit.command_line import CommandParser, run_command
from implicit.language.configuration import LanguageModelConfig
from implicit.language.cost.formulas import Activations, TrainingCost, WeightMemory, published_phases
from implicit.language.sizes import PUBLISHED, parameter_count, published_config

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
        return 1 / (1 - share + share * device.peak / device.float32_peak)  # a share runs so much slower


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
                rate = device.peak * reached / model.per_token(implicit=implicit)
                row += [f"{float(f'{rate:.3g}'):,.0f}{mark}", _short(tokens / rate / _DAY)]
            again = model.per_token(implicit=True, checkpointing=True)
            rows.append([*row, _short(tokens * again / (device.peak * reached) / _DAY)])
    return _table(head, rows)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) + ("---:",) * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser("python -m implicit.language.cost", (__doc__ or "").splitlines()[0])
    parser.add_argument("--family", help=f"one of {', '.join(PUBLISHED)} (default: all)")
    parser.add_argument("--size", help=f"one of {', '.join(PUBLISHED['llama'])} (default: all)")
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence (default: 2048)")
    parser.add_argument("--tokens", type=float, default=207e9, help="of the run (default: 207e9)")
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[8, 64], help="that share weights (default: 8 64)"
    )
    parser.add_argument(
        "--utilisation",
        type=float,
        nargs="+",
        default=[],
        help="shares of a device's peak that are assumed, from 0 to 1; without one no time is predicted",
    )
    parser.add_argument(
        "--peak",
        type=float,
        default=Device().peak,
        help="operations per second in bfloat16 (default: 989e12)",
    )
    parser.add_argument(
        "--memory", type=float, default=80, help="of a device, in units of 2^30 bytes (default: 80)"
    )
    given = parser.parse_args(argv)
    for name, value, known in (("family", given.family, PUBLISHED), ("size", given.size, PUBLISHED["llama"])):
        if value is not None and value not in known:
            raise unknown_name(name, value, tuple(known))
    for name in ("tokens", "peak", "memory"):
        if not check_number(name, getattr(given, name)) > 0:
            raise InputError(f"{name} is {getattr(given, name):g}; give a number above 0")
    for utilisation in given.utilisation:
        if not 0 < utilisation <= 1:
            raise InputError(f"utilisation is {utilisation}; give a share above 0 and at most 1")
    models = [
        PublishedCost(family, size, given.length)
        for family in PUBLISHED
        for size in PUBLISHED[family]
        if given.family in (None, family) and given.size in (None, size)
    ]
    device = replace(Device(), peak=given.peak, memory=given.memory * 2**30)
    billions = f"{given.tokens / 1e9:g} billion tokens"
    print(f"GFLOP per token of sequences of {given.length}, and ZFLOP of {billions}:\n")
    print(flops_table(models, given.tokens))
    print(f"\nGiB for weights and for a sequence of {given.length}; sequences that fit beside all weights:\n")
    print(memory_table(models, device, given.processes))
    if given.utilisation:
        print(f"\nPredicted for one device of {device.peak / 1e12:g} TFLOP/s, and {billions}:\n")
        print(time_table(models, given.tokens, device, given.utilisation))


if __name__ == "__main__":
    sys.exit(run_command(main))
