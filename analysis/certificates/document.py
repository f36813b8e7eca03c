"""The certificate as a JSON document: what it holds, exactly, and what it says of itself.

Numbers that a proof rests on are exact: single ones as hexadecimal floats, arrays as base64 of little-endian
float64. Reading one checks its form only; whether it is true is for `analysis.certificates.checker`.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    NonNegativeInt,
    PlainSerializer,
    PositiveInt,
    ValidationError,
)

from automata.errors import InputError

FORMAT = "implicit-ssm certificate of Theorem 1, version 1"
PRODUCER_PRECISION = 53
ARITHMETIC = "float64 balls: midpoints and radii, outward error bounds of every operation (theory.balls)"

STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. h is the SSM state; the convolution window is held fixed."
    ),
    "existence": (
        "For every state of the box (h within state_radius of the state in the maximum norm; a point has "
        "none), the self-map has exactly one fixed point within radius of latent (maximum norm), and it "
        "lies within error of latent."
    ),
    "invertibility": (
        "On that ball and box, the smallest singular value of I − ∂zΦ is at least singular_value."
    ),
    "contraction": (
        "Every product of power matrices (1 − τ) I + τ ∂zΦ taken there has a row-sum norm of at most norm <"
        " 1: in a suitable norm each damped step contracts by norm^(1/power)."
    ),
    "non_diagonal": (
        "At the fixed point the entry (row, column) of ∂h'/∂h, not on the diagonal, lies in the interval of"
        " entries, one a layer, which excludes zero."
    ),
    "non_linear": ("The same entry, with the h of another pair in place of h, lies in a disjoint interval."),
    "working_distance": (
        "The latent that the model computes in its own precision and tolerance, from the state rounded to "
        "it, is within working_distance of the exact fixed point (maximum norm)."
    ),
    "explicit": (
        "h' = decay ⊙ h + drive with decay (one number a head, in its interval) and drive independent of h,"
        " for every real h: off the diagonal ∂h'/∂h is exactly zero, and each entry is the same at all h."
    ),
}


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


class Contraction(Part):
    """Products of ``power`` damped steps have a row-sum norm of at most ``norm``.

    Example:
        >>> Contraction(power=2, norm=0.25).factor
        0.5
    """

    power: PositiveInt
    norm: Number

    @property
    def factor(self) -> float:
        """The contraction of one step, rounded: for reading only."""
        return float(self.norm ** (1 / self.power))


class Claim(Part):
    """What is proved at a state: see `STATEMENTS`.

    Example:
        >>> claim = Claim(
        ...     latent=np.zeros(1),
        ...     radius=0.5,
        ...     error=0.25,
        ...     singular_value=1.0,
        ...     contraction=None,
        ...     entries=[(1.0, 2.0)],
        ... )
        >>> claim.model_dump(mode="json")["error"]
        '0x1.0000000000000p-2'
    """

    latent: Numbers
    radius: Number
    error: Number
    singular_value: Number
    contraction: Contraction | None
    entries: list[Interval]


def differ(here: Claim, there: Claim) -> bool:
    """Return whether, in every layer, the entry lies in disjoint intervals.

    Example:
        >>> numbers = {"latent": np.zeros(1), "radius": 0.5, "error": 0.1, "singular_value": 1.0}
        >>> first = Claim(**numbers, contraction=None, entries=[(0.0, 1.0)])
        >>> second = Claim(**numbers, contraction=None, entries=[(1.5, 2.0)])
        >>> differ(first, second), differ(first, first)
        (True, False)
    """
    return all(
        ours[1] < theirs[0] or theirs[1] < ours[0]
        for ours, theirs in zip(here.entries, there.entries, strict=True)
    )


class Elsewhere(Claim):
    """The same with the h of another pair, by its number.

    Example:
        >>> sorted(set(Elsewhere.model_fields) - set(Claim.model_fields))
        ['pair']
    """

    pair: NonNegativeInt


class Range(Claim):
    """The same for all h of a box.

    Example:
        >>> sorted(set(Range.model_fields) - set(Claim.model_fields))
        ['state_radius']
    """

    state_radius: Number


class Pair(Part):
    """A visited state and the token read there, of an implicit model; None where nothing is proved.

    Example:
        >>> Pair.model_fields["point"].annotation
        analysis.certificates.document.Claim | None
    """

    sequence: NonNegativeInt
    position: NonNegativeInt
    token: NonNegativeInt
    state: dict[str, Numbers]
    places: list[tuple[NonNegativeInt, NonNegativeInt]]
    point: Claim | None
    elsewhere: Elsewhere | None
    range: Range | None
    working_latent: Numbers | None
    working_distance: Number | None
    reasons: list[str]

    @property
    def non_diagonal(self) -> bool:
        """Whether, in every layer, an entry off the diagonal excludes zero."""
        return self.point is not None and all(
            row != column and (lower > 0 or upper < 0)
            for (row, column), (lower, upper) in zip(self.places, self.point.entries, strict=True)
        )

    @property
    def non_linear(self) -> bool:
        """Whether, in every layer, the entry lies in disjoint intervals at the two states."""
        if self.point is None or self.elsewhere is None:
            return False
        return differ(self.point, self.elsewhere)


class ControlPair(Part):
    """A visited state and token of an explicit model; per layer the decay of every head.

    Example:
        >>> pair = ControlPair(sequence=0, position=1, token=0, state={}, decay=[[(0.5, 0.75)]])
        >>> pair.model_dump(mode="json")["decay"]
        [[['0x1.0000000000000p-1', '0x1.8000000000000p-1']]]
    """

    sequence: NonNegativeInt
    position: NonNegativeInt
    token: NonNegativeInt
    state: dict[str, Numbers]
    decay: list[list[Interval]] | None


class Arithmetic(Part):
    """What the producer proved with.

    Example:
        >>> Arithmetic(producer="float64 balls", precision=53).precision
        53
    """

    producer: str
    precision: PositiveInt


class Certificate(Part):
    """The whole document.

    Example:
        >>> Certificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of Theorem 1, version 1']
    """

    format: Literal["implicit-ssm certificate of Theorem 1, version 1"]
    statements: dict[str, str]
    run: dict[str, Any]
    config: dict[str, Any]
    settings: dict[str, int]
    arithmetic: Arithmetic
    environment: dict[str, Any]
    seconds: float
    pairs: list[Pair | ControlPair]
    summary: dict[str, int]
    sha256: str

    def seal(self) -> str:
        """Return the SHA-256 of everything but itself: it shows damage, not intent."""
        return seal(self.model_dump(mode="json"))


def seal(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a document without its seal.

    Example:
        >>> seal({"pairs": [], "sha256": "anything"}) == seal({"pairs": []})
        True
    """
    unsealed = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(unsealed, sort_keys=True).encode()).hexdigest()


def summarise(pairs: Sequence[Pair | ControlPair]) -> dict[str, int]:
    """Return how many pairs each statement is proved of.

    Example:
        >>> summarise([ControlPair(sequence=0, position=1, token=0, state={}, decay=None)])
        {'pairs': 1, 'explicit': 0}
    """
    if any(isinstance(pair, ControlPair) for pair in pairs):
        return {
            "pairs": len(pairs),
            "explicit": sum(getattr(pair, "decay", None) is not None for pair in pairs),
        }
    implicit = [pair for pair in pairs if isinstance(pair, Pair)]
    points = [pair.point for pair in implicit if pair.point is not None]
    return {
        "pairs": len(implicit),
        "existence": len(points),
        "invertibility": sum(point.singular_value > 0 for point in points),
        "contraction": sum(point.contraction is not None for point in points),
        "non_diagonal": sum(pair.non_diagonal for pair in implicit),
        "non_linear": sum(pair.non_linear for pair in implicit),
        "range": sum(pair.range is not None for pair in implicit),
    }


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


def parse_certificate(content: Any) -> Certificate:
    """Return the certificate that JSON holds.

    Raises:
        RefusedError: naming the first line that does not have its form.

    Example:
        >>> parse_certificate([])
        Traceback (most recent call last):
        analysis.certificates.document.RefusedError: file: is not a JSON object
    """
    if not isinstance(content, dict):
        raise RefusedError("file", "is not a JSON object")
    kind = ControlPair if _is_control(content) else Pair
    try:
        pairs = [
            read_part(kind, pair, f"pairs[{number}]")
            for number, pair in enumerate(content.get("pairs") or [])
        ]
        return read_part(Certificate, {**content, "pairs": pairs}, "")
    except TypeError as fault:
        raise RefusedError("pairs", f"is not a list ({fault})") from None


def _is_control(content: dict[str, Any]) -> bool:
    config = content.get("config")
    return isinstance(config, dict) and config.get("model") == "mamba2"


def read_part(kind: type[Any], content: Any, line: str) -> Any:
    """Return a part of a document from its JSON.

    Args:
        kind: of part.
        content: what JSON holds.
        line: where it stands; empty for the whole document.

    Raises:
        RefusedError: naming the first line that does not have its form.

    Example:
        >>> read_part(Contraction, {"power": 0, "norm": "0x1p-1"}, "contraction")
        Traceback (most recent call last):
        analysis.certificates.document.RefusedError: contraction.power: input should be greater than 0
    """
    try:
        return kind.model_validate(content)
    except ValidationError as fault:
        first = fault.errors()[0]
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise RefusedError(f"{line}{place}".lstrip(".") or "file", first["msg"].lower()) from None
