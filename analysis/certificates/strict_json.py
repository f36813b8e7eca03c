"""JSON as a checker reads it: one meaning for every text, or a refusal.

Python's reader takes the last of two equal keys, reads NaN and Infinity, and integers of any size. A
certificate that says two things, or something that is no number, is refused here.
"""

import json
from pathlib import Path
from typing import Any, NoReturn

from analysis.certificates.parts import RefusedError, shown
from automata.errors import InputError

LARGEST_FILE = 2**30
"""Bytes; the certificate of every length of the stored run has some 10⁸."""
LARGEST_INTEGER = 2**63 - 1
DEEPEST = 16
"""Lists and objects inside of each other; a certificate has seven."""


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object of a certificate.

    Raises:
        InputError: if there is no such file.
        RefusedError: if it does not hold one.

    Example:
        >>> read_json(Path("nowhere.json"))
        Traceback (most recent call last):
        automata.errors.InputError: certificate nowhere.json does not exist; make one with ...
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise RefusedError("file", f"is larger than {LARGEST_FILE} bytes")
        return parse_json(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(
            f"certificate {path} does not exist; make one with python -m analysis.certify RUN, "
            "all_words or all_lengths"
        ) from None


def parse_json(text: bytes) -> dict[str, Any]:
    """Return the object that a text holds.

    Raises:
        RefusedError: for a text that is not JSON in UTF-8, a key that stands twice in an object, NaN or
            Infinity, an integer beyond 64 bits, a number beyond float64, more nesting than a certificate has,
            and anything but an object.

    Example:
        >>> parse_json(b'{"margin": "0x1p-1", "margin": "0x1p+9"}')
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: file: holds the key margin twice in one object
        >>> parse_json(b'{"radius": Infinity}')
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: file: holds the literal Infinity, which is no JSON
    """
    try:
        content = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_without_repetition,
            parse_constant=_no_literal,
            parse_int=_small_integer,
            parse_float=_finite_float,
        )
    except RecursionError:
        raise RefusedError("file", f"is nested more than {DEEPEST} deep") from None
    except UnicodeDecodeError:
        raise RefusedError("file", "is not JSON (it is not UTF-8)") from None
    except json.JSONDecodeError as fault:
        raise RefusedError("file", f"is not JSON ({fault})") from None
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    _check_depth(content)
    return content


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for index, name in enumerate(names) if name in names[:index])
        raise RefusedError("file", f"holds the key {shown(twice)} twice in one object")
    return content


def _no_literal(text: str) -> NoReturn:
    raise RefusedError("file", f"holds the literal {text}, which is no JSON")


def _small_integer(text: str) -> int:
    if len(text) > len(str(LARGEST_INTEGER)) + 1 or abs(int(text)) > LARGEST_INTEGER:
        raise RefusedError("file", "holds an integer beyond 64 bits")
    return int(text)


def _finite_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), -float("inf")):
        raise RefusedError("file", "holds a number beyond float64")
    return number


def _check_depth(content: Any) -> None:
    level = [content]
    for _ in range(DEEPEST):
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
        if not level:
            return
    raise RefusedError("file", f"is nested more than {DEEPEST} deep")
