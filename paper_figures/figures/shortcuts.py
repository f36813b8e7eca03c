"""What can be had on a task without a state, for captions."""

from functools import cache
from typing import Any

from automata.tasks.audit import shortcut_audit
from automata.tasks.registry import make_task

WINDOW = 8
"""Last tokens that the best classifier without a state may read."""


@cache
def shortcuts(task: str, length: int, hard_fraction: float | None = None) -> dict[str, Any]:
    """Return how often the most frequent answer is right, and the best one on the last tokens.

    Args:
        task: its name.
        length: tokens in a sequence.
        hard_fraction: as for ``make_task``.

    Example:
        >>> found = shortcuts("parity", 32)
        >>> found["length"], round(found["majority"], 3), found["window"], round(found["accuracy"], 3)
        (32, 0.5, 8, 0.5)
    """
    audit = shortcut_audit(make_task(task, hard_fraction), length, windows=[WINDOW])
    (window,) = audit.windows
    return {
        "length": audit.length,
        "majority": audit.majority,
        "window": window.window,
        "accuracy": window.accuracy,
    }


def shortcuts_sentence(found: dict[str, Any]) -> str:
    """Return the sentence of a caption.

    Example:
        >>> shortcuts_sentence(shortcuts("parity", 32))
        'Shortcuts at 32 tokens: the most frequent answer 0.500, the best one on the last 8 tokens 0.500.'
    """
    return (
        f"Shortcuts at {found['length']} tokens: the most frequent answer {found['majority']:.3f}, the best "
        f"one on the last {found['window']} tokens {found['accuracy']:.3f}."
    )
