"""Print the figures of docs/belief.md: ``python -m theory.belief``."""

import argparse
import sys
from collections.abc import Sequence

from theory.belief.report import decay_report, rescaling_report, underflow_report, worst_report


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        "python -m theory.belief", description="Decay, underflow, rescaling and worst sequences of filters."
    )
    parser.add_argument("--seed", type=int, default=0, help="of the measured figures (default: 0)")
    seed = parser.parse_args(argv).seed
    if seed < 0:
        parser.error(f"argument --seed: {seed}; give at least 0")
    print("Decay per reveal, nats", decay_report(seed=seed), sep="\n\n")
    print("\nReveals until underflow", underflow_report(seed=seed), sep="\n\n")
    print("\nTokens that gains carry float32", rescaling_report(seed=seed), sep="\n\n")
    print("\nWorst sequences", worst_report(), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
