"""The format of certificates: exact numbers in JSON, a head, claims of many kinds, a seal; and refusal.

A certificate is a head (whose model, which task), a list of claims, each of a ``kind``, and a seal. What the
kinds say and how they are checked stands in `analysis.certificates.claims`, a file each.

Numbers that a proof rests on are exact: single ones as hexadecimal floats, arrays as base64 of little-endian
float64. Each number has one spelling, that which Python writes, and a document that spells it otherwise is
refused. What nobody verifies stands under ``unchecked`` and nowhere else. `automata.data_files.strict_json`
reads the JSON: one meaning for every text.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PlainSerializer,
    PositiveInt,
    SerializeAsAny,
    Strict,
    ValidationError,
    ValidationInfo,
)

from automata.data_files import read_file, strict_json
from automata.errors import InputError

FORMAT: Final = "implicit-ssm certificate, version 1"
LARGEST_INTEGER = 2**63 - 1


PRODUCER_PRECISION = 53
ARITHMETIC = "float64 balls: midpoints and radii, outward error bounds of every operation"
LEAST_ULPS = 4
MOST_ULPS = 2**10
"""PyTorch's functions were measured to be off by more than one ulp. A smaller bound holds of no program."""
BYTES_OF_A_BALL = 160
"""A FLINT ball takes so many bytes beside its bits, the Python object included."""
LONGEST_NUMBER = 32
"""Characters; the longest that Python writes is ``-0x1.0000000000000p-1022``."""
LONGEST_SHOWN = 60
"""Characters of a document's own text that a refusal shows."""
_AS_READ = {"as read": True}
"""The context in which a document that was read is validated: numbers are text there."""


class RefusedError(Exception):
    """A certificate does not hold; the message names the first line that fails and why."""

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
    """A part of a document: unchangeable, with no fields but its own, where no type passes for another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Arithmetic(Part):
    """The arithmetic of the proof."""

    producer: str
    precision: PositiveInt


class Unchecked(Part):
    """What the producer says. Nobody verifies it, no verdict depends on it, no checker prints it."""

    search: dict[str, Any]
    environment: dict[str, Any]
    seconds: float


class Automaton(Part):
    """The task: ``table[state][token]`` is the next state, and ``answers[state][token]`` the answer.

    Where every answer is the next state, as of a word problem, ``answers`` is None.
    """

    initial_state: NonNegativeInt
    table: list[list[NonNegativeInt]]
    answers: list[list[NonNegativeInt]] | None = None

    def after(self, word: Sequence[int]) -> int:
        """Return the state after a word."""
        state = self.initial_state
        for token in word:
            state = self.table[state][token]
        return state


class Claim(Part):
    """What a certificate claims. A subclass is found by its ``kind``."""

    kinds: ClassVar[dict[str, "type[Claim]"]] = {}
    models: ClassVar[tuple[str, ...]] = ()
    says: ClassVar[Mapping[str, str]] = {}

    kind: str
    statements: dict[str, str]

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Enter a class that names its kind."""
        for kind in get_args(cls.model_fields["kind"].annotation):
            Claim.kinds[kind] = cls

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:  # noqa: ARG003
        """Return the statements of the kind, for a run of a configuration."""
        return dict(cls.says)

    def work(self, context: Any) -> "Work":
        """Bound the work of checking, from the sizes of arrays alone."""
        raise NotImplementedError

    def check(self, context: Any) -> None:
        """Verify all that is claimed."""
        raise NotImplementedError

    def verdict(self, config: Mapping[str, Any]) -> str:
        """Return what was verified, in one line that nothing is read into from the certificate's own text."""
        raise NotImplementedError


@dataclass(frozen=True)
class Work:
    """The most that checking takes: operations on balls, balls held at once, bits of each."""

    steps: float
    balls: float
    bits: int

    @property
    def operations(self) -> float:
        """Steps times bits: some 5 · 10⁹ a second on one core."""
        return self.steps * self.bits

    @property
    def bytes(self) -> float:
        """Of memory."""
        return self.balls * (BYTES_OF_A_BALL + self.bits / 8)


class Certificate(Part):
    """The whole document: what it is about, what is claimed, and its seal.

    Attributes:
        automaton: of the run's task; None if it has none.
    """

    format: Literal["implicit-ssm certificate, version 1"]
    run: dict[str, str | int | bool]
    config: dict[str, Any]
    arithmetic: Arithmetic
    automaton: Automaton | None
    claims: list[SerializeAsAny[Claim]]
    unchecked: Unchecked
    sha256: str

    def __repr__(self) -> str:
        claims = ", ".join(claim.kind for claim in self.claims)
        return f"Certificate: {claims}, of {self.run['model']} on {self.run['task']}, SHA-256 {self.sha256}"

    def seal(self) -> str:
        """Return the SHA-256 of everything but itself: it shows damage, not intent."""
        return seal(self.model_dump(mode="json"))

    def sealed(self) -> Self:
        """Return the document with its seal."""
        return self.model_copy(update={"sha256": self.seal()})

    @property
    def only(self) -> Any:
        """The one claim; ValueError if there are others."""
        (claim,) = self.claims
        return claim

    def claim(self, kind: str) -> Any:
        """Return the claim of a kind; None if there is none."""
        return next((claim for claim in self.claims if claim.kind == kind), None)


def parse_certificate(content: Any) -> Certificate:
    """Return the certificate that JSON holds; every claim is read as what its kind makes it."""
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    if content.get("format") != FORMAT:
        raise RefusedError("format", f"is not {FORMAT!r}; prove again with python -m analysis.certify RUN")
    found = content.get("claims")
    if not isinstance(found, list) or not found:
        raise RefusedError("claims", "is not a list with a claim in it")
    claims = []
    for number, claim in enumerate(found):
        kind = claim.get("kind") if isinstance(claim, dict) else None
        if not isinstance(kind, str) or kind not in Claim.kinds:
            raise RefusedError(f"claims[{number}].kind", f"is none of {', '.join(sorted(Claim.kinds))}")
        claims.append(read_part(Claim.kinds[kind], claim, f"claims[{number}]"))
    if len({claim.kind for claim in claims}) < len(claims):
        raise RefusedError("claims", "hold two of one kind")
    certificate: Certificate = read_part(Certificate, {**content, "claims": claims}, "")
    return certificate


def seal(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal."""
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
    """Return a bound from below for reading, in three digits and rounded down, so that nothing is added."""
    return _three_digits(number, ROUND_FLOOR)


def at_most(number: float) -> str:
    """Return a bound from above for reading, in three digits and rounded up."""
    return _three_digits(number, ROUND_CEILING)


def _three_digits(number: float, rounding: str) -> str:
    return f"{float(Context(prec=3, rounding=rounding).create_decimal(Decimal(number))):.3g}"


def read_part(kind: type[Any], content: Any, line: str) -> Any:
    """Return a part of a document from its JSON.

    Example:
        >>> read_part(Arithmetic, {"producer": "float64 balls", "precision": True}, "arithmetic")
        Traceback (most recent call last):
        analysis.certificates.certificate.RefusedError: arithmetic.precision: input should be a valid integer
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
    """
    plain = key.isidentifier() and key.isascii() and len(key) <= LONGEST_SHOWN
    return key if plain else ascii(key[:LONGEST_SHOWN])


def read_json(path: Path) -> dict[str, Any]:
    """Read the JSON object of a certificate."""
    try:
        return parse_json(read_file(path))
    except (FileNotFoundError, IsADirectoryError):
        raise InputError(
            f"certificate {path} does not exist; make one with python -m analysis.certify RUN"
        ) from None


def parse_json(text: bytes) -> dict[str, Any]:
    """Return the object that a text holds."""
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
