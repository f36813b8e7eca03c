"""The certificate of Theorem 1 as a JSON document: what it holds, exactly, and what it says of itself.

Reading one checks its form only; whether it is true is for `analysis.certificates.theorem1.checker`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    NonNegativeInt,
    PositiveInt,
    Strict,
)

from analysis.certificates.parts import Document, Interval, Number, Numbers, Part, RefusedError, read_part

FORMAT: Final = "implicit-ssm certificate of Theorem 1, version 3"

STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. h is the SSM state; the convolution window is held fixed."
    ),
    "state": (
        "Each part of the state is within 1e-7 (relative to its largest entry) of that which the tokens "
        "before it lead to in float64, each at the latent that the damped iteration from zero settles at: "
        "computed, not proved. What follows is proved of the state as it is listed."
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
        "Every product of power matrices (1 − τ) I + τ ∂zΦ taken there has a row-sum norm of at most norm < "
        "1, and every product of fewer one of at most growth. So the damped iteration contracts there, by "
        "norm^(1/power) a step in the long run, and from every start within (radius − error) / growth of the "
        "fixed point it tends to it: C3 locally."
    ),
    "orbit": (
        "At a point, the damped iteration from z0 = 0 in exact arithmetic is within distance of latent after "
        "so many iterations, and growth · (distance + error) + error ≤ radius: with contraction, it tends to "
        "this fixed point, and C3 of Theorem 1 is proved whole. The model's own rounding, tolerance and "
        "limit of iterations are not part of it."
    ),
    "non_diagonal": (
        "C1 to C3 are proved at the point, orbit included, and there the entry (row, column) of ∂h'/∂h, not "
        "on the diagonal, lies in the interval of entries, one a layer, which excludes zero."
    ),
    "non_linear": (
        "The same token and window with the h of another pair, which differs: C1 to C3, orbit included, are "
        "proved at both, and the same entry lies in disjoint intervals."
    ),
    "range": (
        "Existence, invertibility and contraction over a box of h, with an interval of the entry that "
        "excludes zero on all of it. Its state_radius is at least the distance between float32 numbers at "
        "the largest entry of h: it holds another h that the model can be in. The one fixed point of its "
        "ball at the middle of the box is that of the point, to which the orbit of z0 = 0 tends; of other h "
        "of the box no orbit is proved."
    ),
    "explicit": (
        "h' = decay ⊙ h + drive with decay (one number a head, in its interval) and drive independent of h,"
        " for every real h: off the diagonal ∂h'/∂h is exactly zero, and each entry is the same at all h."
    ),
}

CHECKED = ("implicit-mamba2", "mamba2", "implicit-deltanet")
"""The models whose certificates `analysis.check_certificate` can check."""
DELTANET_MEANING = (
    "The float32 weights are taken as the real numbers that they are, and every operation of the model as "
    "the exact one on real numbers. h is the memory; the convolution window is held fixed."
)
UNCHECKED_MEANING = (
    "The float32 weights are taken as the real numbers that they are, and every operation of the model's own "
    "code as the exact one on real numbers; softplus is log(1 + e^x) everywhere. h is what the cell names in "
    "recurrent_parts; the other parts of the state, such as a convolution window, are held fixed. No "
    "independent check exists for this cell."
)


OF_LAYERS = (
    "each layer's own block, the other layers' states held as listed; of blocks between layers nothing"
)
"""The scope of a certificate of several layers."""
LAYERS = {
    "meaning": (
        " There are several layers: h is that of one layer, ∂h'/∂h its own block, and the other parts of "
        "the state, those of the other layers too, are held as listed. Nothing is claimed of blocks between "
        "layers."
    ),
    "non_linear": " The h of all layers are those of the other pair.",
    "range": " The box is one of the h of all layers.",
    "explicit": " This is said of each layer by itself, with the other layers' states as listed.",
}
"""Endings of statements, by name, for a model of several layers."""


def statements_of(model: str, layers: int = 1) -> dict[str, str]:
    """Return what a certificate of a model states, by the model's name and its number of layers.

    Example:
        >>> statements_of("implicit-mamba2") == STATEMENTS
        True
        >>> statements_of("mamba2", layers=2)["explicit"][-30:]
        "ther layers' states as listed."
        >>> statements_of("implicit-gated-deltanet")["meaning"][-42:]
        'No independent check exists for this cell.'
    """
    found = dict(STATEMENTS)
    if model == "implicit-deltanet" or model not in CHECKED:
        found["meaning"] = DELTANET_MEANING if model in CHECKED else UNCHECKED_MEANING
    return {name: text + (LAYERS.get(name, "") if layers > 1 else "") for name, text in found.items()}


def layers_of(config: Mapping[str, Any]) -> int:
    """Return how many layers the model of a configuration has.

    Example:
        >>> layers_of({"sizes": {"layers": 2}}), layers_of({"sizes": {}})
        (2, 1)
    """
    layers: int = config["sizes"].get("layers", 1)
    return layers


Place = Annotated[tuple[NonNegativeInt, NonNegativeInt], Strict(False)]
"""A row and a column; JSON has it as a list."""


LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


class Contraction(Part):
    """Products of ``power`` damped steps have norms of at most ``norm``, those of fewer at most ``growth``.

    Example:
        >>> Contraction(power=2, norm=0.25, growth=1.0).factor
        0.5
    """

    power: PositiveInt
    norm: Number
    growth: Number

    @property
    def factor(self) -> float:
        """The contraction of one step, rounded: for reading only."""
        return float(self.norm ** (1 / self.power))


class Orbit(Part):
    """So many damped steps from z₀ = 0 end within ``distance`` of the latent.

    Example:
        >>> Orbit(iterations=12, distance=0.5).model_dump(mode="json")
        {'iterations': 12, 'distance': '0x1.0000000000000p-1'}
    """

    iterations: NonNegativeInt
    distance: Number


class Claim(Part):
    """What is proved at a state or over a box of them: see `STATEMENTS`.

    Example:
        >>> import numpy as np
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

    @property
    def complete(self) -> bool:
        """Whether existence, invertibility and contraction are claimed, and no interval holds zero."""
        apart = all(lower > 0 or upper < 0 for lower, upper in self.entries)
        return self.singular_value > 0 and self.contraction is not None and apart


class Point(Claim):
    """What is proved at a single state.

    Example:
        >>> sorted(set(Point.model_fields) - set(Claim.model_fields))
        ['orbit']
    """

    orbit: Orbit | None

    @property
    def attracts(self) -> bool:
        """Whether C1 to C3 are claimed, C3 whole: what the exact iteration computes is this fixed point."""
        return self.singular_value > 0 and self.contraction is not None and self.orbit is not None


class Elsewhere(Point):
    """The same with the h of another pair, by its number.

    Example:
        >>> sorted(set(Elsewhere.model_fields) - set(Point.model_fields))
        ['pair']
    """

    pair: NonNegativeInt


def differ(here: Claim, there: Claim) -> bool:
    """Return whether, in every layer, the entry lies in disjoint intervals.

    Example:
        >>> import numpy as np
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


def non_linear(here: Point, there: Elsewhere | None) -> bool:
    """Return whether C1 to C3 are claimed at both states, C3 whole, and in every layer the entry differs.

    Example:
        >>> import numpy as np
        >>> steps = {"contraction": Contraction(power=1, norm=0.5, growth=1.0), "orbit": None}
        >>> numbers = {"latent": np.zeros(1), "radius": 0.5, "error": 0.1, "singular_value": 1.0, **steps}
        >>> here = Point(**numbers, entries=[(0.0, 1.0)])
        >>> there = Elsewhere(**numbers, entries=[(1.5, 2.0)], pair=3)
        >>> differ(here, there), non_linear(here, there)
        (True, False)
    """
    return there is not None and here.attracts and there.attracts and differ(here, there)


class Range(Claim):
    """The same for all h of a box, whose radius is at least `least_state_radius`.

    Example:
        >>> sorted(set(Range.model_fields) - set(Claim.model_fields))
        ['state_radius']
    """

    state_radius: Number


class Pair(Part):
    """A visited state and the token read there, of an implicit model; None where nothing is proved.

    Example:
        >>> Pair.model_fields["point"].annotation
        analysis.certificates.theorem1.document.Point | None
    """

    sequence: NonNegativeInt
    position: NonNegativeInt
    token: NonNegativeInt
    state: dict[str, Numbers]
    places: list[Place]
    point: Point | None
    elsewhere: Elsewhere | None
    range: Range | None

    @property
    def claims(self) -> bool:
        """Whether anything is claimed of it."""
        return any(claim is not None for claim in (self.point, self.elsewhere, self.range))

    @property
    def off_diagonal(self) -> bool:
        """Whether the entry that is claimed lies off the diagonal in every layer, of which there is one."""
        return bool(self.places) and all(row != column for row, column in self.places)

    @property
    def attracts(self) -> bool:
        """Whether C1 to C3 are claimed, C3 whole."""
        return self.point is not None and self.point.attracts

    @property
    def non_diagonal(self) -> bool:
        """Whether C1 to C3 are claimed and, in every layer, an entry off the diagonal excludes zero."""
        return (
            self.off_diagonal
            and self.point is not None
            and self.point.attracts
            and all(lower > 0 or upper < 0 for lower, upper in self.point.entries)
        )

    @property
    def over_range(self) -> bool:
        """Whether all statements about the point, but for the orbit, are claimed of a whole box of h."""
        return self.off_diagonal and self.attracts and self.range is not None and self.range.complete

    @property
    def non_linear(self) -> bool:
        """Whether C1 to C3 are claimed at both states and, in every layer, the entry differs."""
        return self.point is not None and non_linear(self.point, self.elsewhere)


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

    @property
    def claims(self) -> bool:
        """Whether anything is claimed of it."""
        return self.decay is not None


class Certificate(Document):
    """The whole document.

    Example:
        >>> Certificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of Theorem 1, version 3']
    """

    format: Literal["implicit-ssm certificate of Theorem 1, version 3"]
    settings: dict[str, int]
    pairs: list[Pair | ControlPair]
    summary: dict[str, int]

    @classmethod
    def parse(cls, content: Any) -> "Certificate":
        """Return the certificate that JSON holds; every pair is read as what the run's model makes it.

        Raises:
            RefusedError: naming the first line that does not have its form.

        Example:
            >>> Certificate.parse([])
            Traceback (most recent call last):
            analysis.certificates.parts.RefusedError: file: is not a JSON object
        """
        if not isinstance(content, dict):
            raise RefusedError("file", "is not a JSON object")
        kind = ControlPair if _is_control(content) else Pair
        try:
            pairs = [
                read_part(kind, pair, f"pairs[{number}]")
                for number, pair in enumerate(content.get("pairs") or [])
            ]
        except TypeError as fault:
            raise RefusedError("pairs", f"is not a list ({fault})") from None
        certificate: Certificate = read_part(cls, {**content, "pairs": pairs}, "")
        return certificate

    def numbers(self) -> dict[str, Any]:
        """Return how many pairs each statement is proved of."""
        return dict(self.summary)


def least_state_radius(parts: Sequence[NDArray[np.float64]]) -> float:
    """Return the least radius with which a box around h says more than its middle does.

    It is the distance from the largest entry of h to the next float32, the type in which the model holds h:
    along every entry the box holds another h that the model can be in.

    Args:
        parts: h of all layers.

    Example:
        >>> least_state_radius([np.array([0.5, -1.0]), np.zeros(2)]) == 2**-23
        True
    """
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    return float(np.spacing(np.float32(min(largest, LARGEST_FLOAT32))))


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
        "orbit": sum(pair.attracts for pair in implicit),
        "non_diagonal": sum(pair.non_diagonal for pair in implicit),
        "non_linear": sum(pair.non_linear for pair in implicit),
        "range": sum(pair.over_range for pair in implicit),
    }


def _is_control(content: dict[str, Any]) -> bool:
    config = content.get("config")
    return isinstance(config, dict) and config.get("model") == "mamba2"
