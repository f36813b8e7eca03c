"""What is through of a proof that takes hours, in a file that is written anew after each part of it."""

import hashlib
from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

import numpy as np
from pydantic import ConfigDict, NonNegativeInt

import implicit.enclosed
import theory.rigorous
from automata.errors import InputError
from implicit.checked_config import CheckedConfig, validated
from implicit.enclosed.one_fixed_point import OneFixedPoint
from implicit.runs.files import read_json, write_json

PARTS = "one_fixed_point_parts.json"

Pair = tuple[int, int]
"""The numbers of a group of sets and of a token."""


class _Part(CheckedConfig):
    """What is proved of a pair, as the file has it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    group: NonNegativeInt
    token: NonNegativeInt
    proved: bool
    cells: NonNegativeInt
    parts: NonNegativeInt


class KeptParts:
    """The pairs that are through; nothing is kept without a file.

    Args:
        folder: where they are kept, and looked for; nowhere if None.
        belongs_to: what they belong to, by name: the weights, the sets of states, the settings; the sources
            that prove are added to it.
        pairs: that there are.

    Raises:
        InputError: if the file belongs to something else, or is not one that this class has written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     KeptParts(Path(folder), {"limit": 9}, [(0, 1)]).keep((0, 1), OneFixedPoint(True, 3, 1))
        ...     KeptParts(Path(folder), {"limit": 9}, [(0, 1)]).found
        {(0, 1): OneFixedPoint(proved=True, cells=3, parts=1)}
    """

    def __init__(
        self, folder: Path | None, belongs_to: dict[str, str | float], pairs: Collection[Pair]
    ) -> None:
        self.file = None if folder is None else folder / PARTS
        self.head = {**belongs_to, "code_sha256": sources_sha256()}
        self.found: dict[Pair, OneFixedPoint] = {}
        if self.file is None or not self.file.exists():
            return
        content = read_json(self.file)
        content = content if isinstance(content, dict) else {}
        differs = [name for name, value in self.head.items() if content.get(name) != value]
        if differs:
            raise InputError(
                f"{self.file} holds parts with another {differs[0]}, {content.get(differs[0])!r} in place of "
                f"{self.head[differs[0]]!r}; give another --out, or remove it"
            )
        parts = content.get("parts")
        if not isinstance(parts, list):
            raise InputError(f"{self.file} has no list of parts; give another --out, or remove it")
        for entry in parts:
            part = validated(_Part, entry)
            pair = part.group, part.token
            if pair not in pairs or pair in self.found:
                raise InputError(
                    f"{self.file} has a part of group {part.group} and token {part.token}, which is none of "
                    "those that there are, or twice there; give another --out, or remove it"
                )
            self.found[pair] = OneFixedPoint(part.proved, part.cells, part.parts)

    def keep(self, pair: Pair, part: OneFixedPoint) -> None:
        """Add what is proved of a pair."""
        self.found[pair] = part
        if self.file is not None:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            parts = [
                {"group": group, "token": token, **asdict(kept)}
                for (group, token), kept in sorted(self.found.items())
            ]
            write_json(self.file, {**self.head, "parts": parts})


def sources_sha256() -> str:
    """Return the hash of the sources that prove: `implicit.enclosed` and `theory.rigorous`.

    Example:
        >>> len(sources_sha256())
        64
    """
    digest = hashlib.sha256()
    for package in (implicit.enclosed, theory.rigorous):
        for path in sorted(Path(package.__path__[0]).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def arrays_sha256(*arrays: np.ndarray) -> str:
    """Return the hash of the numbers of some arrays.

    Example:
        >>> arrays_sha256(np.zeros(2)) == arrays_sha256(np.zeros(1), np.zeros(1))
        True
    """
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
