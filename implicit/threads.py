"""How many threads a command takes: one for a small model, whose threads would only wait for each other."""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from automata.errors import InputError

MOST_PARAMETERS = 1_000_000
"""Parameters of a small model, at most. All recipes have fewer, and no operation that fills two cores."""
_SET_BY = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def add_threads_flag(parser: ArgumentParser) -> None:
    """Add ``--threads``; `chosen_threads` reads it."""
    parser.add_argument(
        "--threads",
        metavar="N",
        help=f"threads of PyTorch (default: {_SET_BY[0]} if set, else 1 for a model of up to "
        f"{MOST_PARAMETERS:,} parameters, else all cores)",
    )


@contextmanager
def chosen_threads(given: str | None, parameters: Callable[[], int]) -> Iterator[None]:
    """Compute with as many threads as ``--threads`` says, or as fits a model of so many parameters.

    A line on standard error says so where PyTorch would take another number. The environment's number wins
    over the size.
    """
    before = threads = torch.get_num_threads()
    why = "as --threads says"
    if given is not None:
        if not (given.isascii() and given.isdigit() and len(given) <= 4 and 0 < int(given) <= 1024):
            raise InputError(f"threads is {given}; give a whole number from 1 to 1024")
        threads = int(given)
    elif not any(os.environ.get(name) for name in _SET_BY) and before > 1 and parameters() <= MOST_PARAMETERS:
        threads, why = 1, "enough for a small model; --threads takes more"
    if threads != before:
        print(f"threads: {threads}, {why}", file=sys.stderr)
    with threads_taken(threads):
        yield


@contextmanager
def threads_taken(number: int) -> Iterator[None]:
    """Let PyTorch take so many threads, then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
