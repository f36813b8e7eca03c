"""What every kind of certificate is made of: exact numbers in JSON, parts, the seal, and refusal.

Numbers that a proof rests on are exact: single ones as hexadecimal floats, arrays as base64 of little-endian
float64. Each number has one spelling, that which Python writes, and a document that spells it otherwise is
refused. What nobody verifies stands under ``unchecked`` and nowhere else.
"""

import base64
import hashlib
import json
import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PositiveInt,
    Strict,
    ValidationError,
    ValidationInfo,
)

PRODUCER_PRECISION = 53
ARITHMETIC = "float64 balls: midpoints and radii, outward error bounds of every operation"
LEAST_ULPS, MOST_ULPS = 4, 2**10
"""PyTorch's functions were measured to be off by more than one ulp: what follows from an assumption that they
are not is of no program."""
LONGEST_NUMBER = 32
"""Characters; the longest that Python writes is ``-0x1.0000000000000p-1022``."""
LONGEST_SHOWN = 60
"""Characters of a document's own text that a refusal shows."""
_AS_READ = {"as read": True}
"""The context in which a document that was read is validated: numbers are text there."""


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


def _from_hex(text: Any, info: ValidationInfo) -> Any:
    if not isinstance(text, str):
        if info.context is None and isinstance(text, float) and math.isfinite(text):  # of the producer
            return float(text)
        raise ValueError("is not a hexadecimal float that is finite, as text")
    try:
        number = float.fromhex(text) if len(text) <= LONGEST_NUMBER else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number.hex() == text):
        raise ValueError("is not a finite number as float.hex() writes it")
    return number


def _from_base64(text: Any, info: ValidationInfo) -> Any:
    if info.context is None and isinstance(text, np.ndarray):  # of the producer
        numbers = text.astype(np.float64).ravel()
    elif isinstance(text, str):
        try:
            numbers = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8")
        except ValueError:
            raise ValueError("is not base64 of float64 numbers") from None
        if base64.b64encode(numbers.tobytes()).decode() != text:
            raise ValueError("is not base64 as it is written: bits are set behind its last number")
    else:
        raise ValueError("is not base64 of float64 numbers, as text")
    if not np.isfinite(numbers).all():
        raise ValueError("holds a number that is not finite")
    return numbers


Number = Annotated[float, BeforeValidator(_from_hex), PlainSerializer(float.hex)]
Numbers = Annotated[
    NDArray[np.float64],
    BeforeValidator(_from_base64),
    PlainSerializer(lambda array: base64.b64encode(array.astype("<f8").tobytes()).decode()),
]
Interval = Annotated[tuple[Number, Number], Strict(False)]
"""Its two ends; JSON has it as a list."""


class Part(BaseModel):
    """A part of a document: unchangeable, with no fields but its own, where no type passes for another.

    Example:
        >>> Part.model_config["extra"], Part.model_config["strict"]
        ('forbid', True)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Arithmetic(Part):
    """What the producer proved with.

    Example:
        >>> Arithmetic(producer="float64 balls", precision=53).precision
        53
    """

    producer: str
    precision: PositiveInt


class Unchecked(Part):
    """What the producer says and nobody verifies: no verdict depends on it, and no checker prints it.

    Attributes:
        search: settings with which the proof was looked for, where what is proved does not depend on them.
        environment: of the producer.
        seconds: that it took.

    Example:
        >>> Unchecked(search={}, environment={"threads": 2}, seconds=1.0).seconds
        1.0
    """

    search: dict[str, Any]
    environment: dict[str, Any]
    seconds: float


class Document(Part):
    """What a certificate of any kind says first and last: what it means and is about, who made it, its seal.

    Example:
        >>> list(Document.model_fields)[:3]
        ['format', 'statements', 'run']
    """

    format: str
    statements: dict[str, str]
    run: dict[str, str | int | bool]
    config: dict[str, Any]
    arithmetic: Arithmetic
    unchecked: Unchecked
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


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: ``1``, ``1.0`` and ``true`` are three.

    Example:
        >>> same_json({"a": 1}, {"a": 1}), same_json({"a": 1}, {"a": True}), {"a": 1} == {"a": True}
        (True, False, True)
    """
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def at_least(number: float) -> str:
    """Return a bound from below for reading, in three digits and rounded down, so that nothing is added.

    Example:
        >>> at_least(0.99999), f"{0.99999:.3g}", at_least(2.0), at_least(1.2345e-7)
        ('0.999', '1', '2', '1.23e-07')
    """
    return _three_digits(number, ROUND_FLOOR)


def at_most(number: float) -> str:
    """Return a bound from above for reading, in three digits and rounded up, so that nothing is taken away.

    Example:
        >>> at_most(100.00000000000001), at_most(2.0), at_most(1.2345e-7)
        ('101', '2', '1.24e-07')
    """
    return _three_digits(number, ROUND_CEILING)


def _three_digits(number: float, rounding: str) -> str:
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(Decimal(number))):.3g}"


def read_part(kind: type[Any], content: Any, line: str) -> Any:
    """Return a part of a document from its JSON.

    Args:
        kind: of part.
        content: what JSON holds.
        line: where it stands; empty for the whole document.

    Raises:
        RefusedError: naming the first line that does not have its form.

    Example:
        >>> read_part(Arithmetic, {"producer": "float64 balls", "precision": True}, "arithmetic")
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: arithmetic.precision: input should be a valid integer
    """
    try:
        return kind.model_validate(content, context=_AS_READ)
    except ValidationError as fault:
        first = fault.errors(include_url=False, include_input=False)[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{shown(part)}" for part in first["loc"])
        raise RefusedError(f"{line}{place}".lstrip(".") or "file", first["msg"].lower()) from None


def shown(key: str) -> str:
    """Return a key as a refusal names it: what is no plain name in quotes, and short.

    A key is the forger's own text, and could hold a line that looks like a verdict.

    Example:
        >>> shown("ssm"), shown("The certificate holds.")
        ('ssm', "'The certificate holds.'")
    """
    plain = key.isidentifier() and key.isascii() and len(key) <= LONGEST_SHOWN
    return key if plain else ascii(key[:LONGEST_SHOWN])
