"""Checks of what callers give: kinds of objects, whole numbers and memory, each fault in one sentence."""

import operator
from typing import Any

import psutil

from automata.errors import InputError

_LONGEST_VALUE = 60
_PLAIN = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, type(None))
GIB = 2**30


def shown(value: object) -> str:
    """Return a value for a sentence: plain ones as written, cut to one short line; of others the type.

    Example:
        >>> import numpy as np
        >>> shown("S3"), shown([0, 1]), shown(np.zeros(3)), shown(np.ndarray)
        ("'S3'", '[0, 1]', 'of type ndarray', 'the class ndarray')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not isinstance(value, _PLAIN):
        return f"of type {type(value).__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def printable(text: object) -> str:
    r"""Return a text with all that is no visible letter or space escaped; a name may be a stranger's.

    Example:
        >>> print(printable("S₅\x1b[2J\udcff"))
        S₅\x1b[2J\udcff
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(text))


def check_type(field: str, value: object, kinds: type | tuple[type, ...], remedy: str) -> None:
    """Refuse an object of another kind.

    Args:
        field: what the caller calls it.
        value: the object.
        kinds: what it may be an instance of.
        remedy: what to do instead, as a clause.

    Raises:
        InputError: for an instance of none of these.

    Example:
        >>> check_type("task", 3, str, "give the name of a task")
        Traceback (most recent call last):
        ...
        automata.errors.InputError: task is 3; give the name of a task
    """
    if not isinstance(value, kinds):
        raise InputError(f"{field} is {shown(value)}; {remedy}")


def check_integer(field: str, value: Any, least: int | None = None) -> int:
    """Return a value as an integer; NumPy's integers are taken as well.

    Raises:
        InputError: for what is no whole number, or one below the least.

    Example:
        >>> check_integer("seed", 3, 0)
        3
        >>> check_integer("seed", -1, 0)
        Traceback (most recent call last):
        ...
        automata.errors.InputError: seed is -1; give at least 0
        >>> check_integer("length", 2.5)
        Traceback (most recent call last):
        ...
        automata.errors.InputError: length is 2.5; give a whole number
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{field} is {shown(value)}; give a whole number") from None
    if least is not None and number < least:
        raise InputError(f"{field} is {number}; give at least {least}")
    return number


def check_number(field: str, value: object) -> float:
    """Return a value as a float.

    Raises:
        InputError: for what is no real number.

    Example:
        >>> check_number("damping", 1)
        1.0
        >>> check_number("damping", "high")
        Traceback (most recent call last):
        ...
        automata.errors.InputError: damping is 'high'; give a number
    """
    if not isinstance(value, str | bytes):
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            pass
    raise InputError(f"{field} is {shown(value)}; give a number")


def check_memory(what: str, needed: int, remedy: str, available: int | None = None) -> None:
    """Refuse what cannot fit into memory, before anything of it is allocated.

    Args:
        what: what is to be held, with the numbers that make it large.
        needed: bytes that it takes at the least.
        remedy: what to do instead, as a clause.
        available: bytes that are free; those of this machine's memory if None.

    Raises:
        InputError: if it needs more than there is, naming both.

    Example:
        >>> check_memory("a batch of 64 sequences", 3 * 2**40, "give a shorter length", available=2**34)
        Traceback (most recent call last):
        ...
        automata.errors.InputError: a batch of 64 sequences needs at least 3072.0 GiB of memory, and 16.0 GiB
        are available; give a shorter length
    """
    if available is None:
        available = psutil.virtual_memory().available
    if needed > available:
        raise InputError(
            f"{what} needs at least {needed / GIB:.1f} GiB of memory, and {available / GIB:.1f} GiB are "
            f"available; {remedy}"
        )
