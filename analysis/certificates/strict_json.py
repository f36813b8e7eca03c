"""JSON as a checker reads it: one meaning for every text, or a refusal.

`automata.data_files.strict_json` reads it; a certificate is an object whose integers have 64 bits.
"""

from pathlib import Path
from typing import Any

from analysis.certificates.parts import RefusedError
from automata.data_files import read_file, strict_json
from automata.errors import InputError

LARGEST_INTEGER = 2**63 - 1


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object of a certificate.

    Raises:
        InputError: if there is no such file, or it is a device, a pipe or too large.
        RefusedError: if it does not hold one.

    Example:
        >>> read_json(Path("nowhere.json"))
        Traceback (most recent call last):
        automata.errors.InputError: certificate nowhere.json does not exist; make one with ...
    """
    try:
        return parse_json(read_file(path))
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(
            f"certificate {path} does not exist; make one with python -m analysis.certify RUN, "
            "all_words or all_lengths"
        ) from None


def parse_json(text: bytes) -> dict[str, Any]:
    """Return the object that a text holds.

    Raises:
        RefusedError: for what `strict_json` refuses, an integer beyond 64 bits, and anything but an object.

    Example:
        >>> parse_json(b'{"margin": "0x1p-1", "margin": "0x1p+9"}')
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: file: holds the key 'margin' twice in one object
        >>> parse_json(b'{"radius": Infinity}')
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: file: holds the literal Infinity, which is no JSON
    """
    try:
        content = strict_json(text, "file:", remedy="")
    except InputError as fault:
        raise RefusedError("file", str(fault).removeprefix("file: ")) from None
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    _check_integers(content)
    return content


def _check_integers(content: Any) -> None:
    if isinstance(content, int) and abs(content) > LARGEST_INTEGER:
        raise RefusedError("file", "holds an integer beyond 64 bits")
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            _check_integers(part)
