"""Print what training the published sizes takes, by formula, as tables in Markdown."""

import sys
from collections.abc import Sequence
from dataclasses import replace

from automata.checks import check_number
from automata.errors import InputError, unknown_name
from implicit.command_line import CommandParser, run_command
from implicit.language.cost.tables import Device, PublishedCost, flops_table, memory_table, time_table
from implicit.language.sizes import PUBLISHED


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
