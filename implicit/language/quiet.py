"""Silence for what libraries say in passing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def only_errors_of(logger: str) -> Iterator[None]:
    """Let a logger tell errors only, until the block ends."""
    named = logging.getLogger(logger)
    before = named.level
    named.setLevel(logging.ERROR)
    try:
        yield
    finally:
        named.setLevel(before)
