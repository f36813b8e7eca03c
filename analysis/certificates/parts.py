"""What every kind of certificate is made of: exact numbers in JSON, parts, the seal, and refusal.

Numbers that a proof rests on are exact: single ones as hexadecimal floats, arrays as base64 of little-endian
float64.
"""

import base64
import binascii
import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, PositiveInt, ValidationError

from automata.errors import InputError

PRODUCER_PRECISION = 53
ARITHMETIC = "float64 balls: midpoints and radii, outward error bounds of every operation"


class RefusedError(Exception):
    """A certificate does not hold; the message names the first line that fails and why.

    Example:
        >>> print(RefusedError("pairs[3].point.radius", "is negative"))
        pairs[3].point.radius: is negative
    """

    def __init__(self, line: str, reason: str) -> None:
        super().__init__(f"{line}: {reason}")
        self.line, self.reason = line, reason

    def __reduce__(self) -> tuple[type["RefusedError"], tuple[str, str]]:
        """Let it cross from a worker process."""
        return type(self), (self.line, self.reason)


def _from_hex(text: Any) -> Any:
    if isinstance(text, str):
        number = float.fromhex(text)
        if not np.isfinite(number):
            raise ValueError("is not finite")
        return number
    if isinstance(text, float):  # from the producer; JSON holds text only
        return float(text)
    raise ValueError("is not a hexadecimal float")


def _from_base64(text: Any) -> Any:
    if isinstance(text, np.ndarray):
        return text.astype(np.float64).ravel()
    try:
        numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8")
    except (binascii.Error, TypeError) as fault:
        raise ValueError(f"is not base64 of float64 numbers ({fault})") from None
    if not np.isfinite(numbers).all():
        raise ValueError("holds a number that is not finite")
    return numbers


Number = Annotated[float, BeforeValidator(_from_hex), PlainSerializer(float.hex)]
Numbers = Annotated[
    NDArray[np.float64],
    BeforeValidator(_from_base64),
    PlainSerializer(lambda array: base64.b64encode(array.astype("<f8").tobytes()).decode()),
]
Interval = tuple[Number, Number]


class Part(BaseModel):
    """A part of a document: nothing in it changes, and it has no fields but its own.

    Example:
        >>> Part.model_config["extra"]
        'forbid'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Arithmetic(Part):
    """What the producer proved with.

    Example:
        >>> Arithmetic(producer="float64 balls", precision=53).precision
        53
    """

    producer: str
    precision: PositiveInt


class Document(Part):
    """What a certificate of any kind says first and last: what it means and is about, who made it, its seal.

    Example:
        >>> list(Document.model_fields)[:3]
        ['format', 'statements', 'run']
    """

    format: str
    statements: dict[str, str]
    run: dict[str, Any]
    config: dict[str, Any]
    settings: dict[str, Any]
    arithmetic: Arithmetic
    environment: dict[str, Any]
    seconds: float
    sha256: str

    def seal(self) -> str:
        """Return the SHA-256 of everything but itself: it shows damage, not intent."""
        return seal(self.model_dump(mode="json"))

    def sealed(self) -> Self:
        """Return the document with its seal."""
        return self.model_copy(update={"sha256": self.seal()})

    @classmethod
    def parse(cls, content: Any) -> Self:
        """Return the document that JSON holds.

        Raises:
            RefusedError: naming the first line that does not have its form.
        """
        document: Self = read_part(cls, content, "")
        return document


def seal(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal.

    Example:
        >>> seal({"pairs": [], "sha256": "anything"}) == seal({"pairs": []})
        True
    """
    unsealed = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode()).hexdigest()


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
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(
            f"certificate {path} does not exist; make one with python -m analysis.certify RUN, "
            "all_words or all_lengths"
        ) from None
    except (ValueError, RecursionError) as fault:
        raise RefusedError("file", f"is not JSON ({fault})") from None
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    return content


def read_part(kind: type[Any], content: Any, line: str) -> Any:
    """Return a part of a document from its JSON.

    Args:
        kind: of part.
        content: what JSON holds.
        line: where it stands; empty for the whole document.

    Raises:
        RefusedError: naming the first line that does not have its form.

    Example:
        >>> read_part(Arithmetic, {"producer": "float64 balls", "precision": 0}, "arithmetic")
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: arithmetic.precision: input should be greater than 0
    """
    try:
        return kind.model_validate(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise RefusedError(f"{line}{place}".lstrip(".") or "file", first["msg"].lower()) from None
