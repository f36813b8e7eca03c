"""Theorem 1 at visited states: existence, attraction, and what ∂h'/∂h is; of explicit models the opposite.

The arithmetic of the check is in `analysis.certificates.arb.pairs`, and the states are evaluated again in
float64 by `analysis.certificates.replay`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import NonNegativeInt, PositiveInt, Strict

from analysis.certificates.arb.pairs import OF_A_STEP, PairChecker, orbit_work
from analysis.certificates.certificate import Claim, Interval, Number, Numbers, Part, RefusedError, Work
from analysis.certificates.checking import Context, check_each, check_weights
from analysis.certificates.replay import Replay, Visit, check_state

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


class Claimed(Part):
    """What is proved at a state or over a box of them: see `STATEMENTS`.

    Example:
        >>> import numpy as np
        >>> claim = Claimed(
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


class Point(Claimed):
    """What is proved at a single state.

    Example:
        >>> sorted(set(Point.model_fields) - set(Claimed.model_fields))
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


def differ(here: Claimed, there: Claimed) -> bool:
    """Return whether, in every layer, the entry lies in disjoint intervals.

    Example:
        >>> import numpy as np
        >>> numbers = {"latent": np.zeros(1), "radius": 0.5, "error": 0.1, "singular_value": 1.0}
        >>> first = Claimed(**numbers, contraction=None, entries=[(0.0, 1.0)])
        >>> second = Claimed(**numbers, contraction=None, entries=[(1.5, 2.0)])
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


class Range(Claimed):
    """The same for all h of a box, whose radius is at least `least_state_radius`.

    Example:
        >>> sorted(set(Range.model_fields) - set(Claimed.model_fields))
        ['state_radius']
    """

    state_radius: Number


class Pair(Part):
    """A visited state and the token read there, of an implicit model; None where nothing is proved.

    Example:
        >>> Pair.model_fields["point"].annotation
        analysis.certificates.claims.theorem1.Point | None
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
    def each(self) -> tuple[Claimed | None, ...]:
        """What is claimed of it: at the point, with another h, over a box."""
        return self.point, self.elsewhere, self.range

    @property
    def claims(self) -> bool:
        """Whether anything is claimed of it."""
        return any(claim is not None for claim in self.each)

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


VERIFIED = {
    "existence": "exactly one fixed point in a ball around the latent",
    "invertibility": "I − ∂zΦ invertible",
    "contraction": "the damped step contracting there",
    "orbit": "the exact iteration from zero tending to it",
    "non_diagonal": "of these ∂h'/∂h non-diagonal",
    "non_linear": "and another at another h, where the same is verified,",
    "range": "all but the orbit and non-linear over a box of h too",
    "explicit": "∂h'/∂h diagonal, and the same at every real h",
}
"""What a count of the summary counts, as the verdict has it."""
OF_REAL_NUMBERS = "of the model on real numbers, with its weights the exact numbers that they are"
OF_THE_PROGRAM = "of what the model's own rounding, tolerance and limit of iterations do"


class VisitedPairs(Claim):
    """What is claimed of visited states and tokens.

    Attributes:
        settings: that the pairs are drawn with.
        summary: of how many pairs each statement is proved.

    Example:
        >>> sorted(VisitedPairs.model_fields)
        ['kind', 'settings', 'statements', 'summary']
    """

    models: ClassVar[tuple[str, ...]] = CHECKED

    settings: dict[str, int]
    summary: dict[str, int]

    @property
    def all_pairs(self) -> Sequence[Pair | ControlPair]:
        """The pairs."""
        raise NotImplementedError

    def work(self, context: Context) -> Work:
        """Bound the work: derivatives at every claim, and orbits at the precision that they ask for."""
        size = int(context.sizes.get("d_model", 0))
        weights = sum(part.size for part in context.weights.values())
        state = max((sum(part.size for part in pair.state.values()) for pair in self.all_pairs), default=0)
        columns = size + int(context.sizes.get("layers", 1))
        one = float(8 * (weights + state) * columns + 40 * columns**3)
        operations = 0.0
        for pair in self.all_pairs:
            claims = [claim for claim in getattr(pair, "each", (None,)) if claim is not None]
            operations += one * context.bits * len(claims) if claims else one * context.bits
            for claim in claims:
                orbit = getattr(claim, "orbit", None)
                if orbit is not None:
                    operations += OF_A_STEP * (weights + state) * orbit_work(orbit.iterations, context.bits)
        return Work(operations / context.bits, 8.0 * (weights + state) * columns, context.bits)

    def check(self, context: Context) -> None:
        """Verify that the pairs are those of the settings, every claim of them, and the counts."""
        name = str(context.config["model"])
        if name not in CHECKED or context.sizes.get("mlp_size"):
            raise RefusedError("config", "is of a model that the checker cannot evaluate")
        if (name == "mamba2") != (self.kind == "explicit"):
            raise RefusedError("kind", f"is not one of {name}")
        check_weights(context.weights)
        visited, pairs = context.visits(self.settings), self.all_pairs
        _check_places(self, visited)
        check_states(self, visited, Replay(context.weights, context.sizes, name))
        jobs = [(pair, _others(pair, pairs, number), f"pairs[{number}]") for number, pair in enumerate(pairs)]
        arguments = (dict(context.weights), context.sizes, context.bits, name)
        check_each(
            PairChecker,
            arguments,
            PairChecker.check_pair,
            jobs,
            processes=context.processes,
            unit="pair",
            at_once=8,
        )
        counts = summarise(pairs)
        if set(self.summary) != set(counts):
            raise RefusedError("summary", f"does not hold the counts of its format, {', '.join(counts)}")
        for name, count in counts.items():
            if self.summary[name] != count:
                raise RefusedError(f"summary.{name}", f"is not what the pairs show, {count}")
        if not any(count for name, count in counts.items() if name != "pairs"):
            raise RefusedError("pairs", "claim nothing")

    def verdict(self, config: Mapping[str, Any]) -> str:
        """Return the counts, taken again."""
        counts = summarise(self.all_pairs)
        total = counts.pop("pairs")
        found = ", ".join(f"{VERIFIED[name]} at {count}" for name, count in counts.items())
        where = "" if "explicit" in counts else f", nor {OF_THE_PROGRAM}"
        layers = f", of {OF_LAYERS}" if layers_of(config) > 1 else ""
        return (
            f"of {total} pairs of a state and a token, {found}, {OF_REAL_NUMBERS}{layers}; "
            f"not verified is anything of other states{where}"
        )


class Theorem1(VisitedPairs):
    """Theorem 1 at visited states of an implicit model.

    Example:
        >>> Claim.kinds["theorem1"].__name__
        'Theorem1'
    """

    kind: Literal["theorem1"] = "theorem1"
    pairs: list[Pair]

    @property
    def all_pairs(self) -> Sequence[Pair | ControlPair]:
        """The pairs."""
        return self.pairs

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:
        """Return all statements but that of explicit models."""
        found = statements_of(config["model"], layers_of(config))
        return {name: text for name, text in found.items() if name != "explicit"}


class Explicit(VisitedPairs):
    """The opposite at visited states of an explicit model.

    Example:
        >>> list(Explicit.stated({"model": "mamba2", "sizes": {"layers": 1}}))
        ['meaning', 'state', 'explicit']
    """

    kind: Literal["explicit"] = "explicit"
    pairs: list[ControlPair]

    @property
    def all_pairs(self) -> Sequence[Pair | ControlPair]:
        """The pairs."""
        return self.pairs

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:
        """Return the statements that speak of explicit models."""
        found = statements_of(config["model"], layers_of(config))
        return {name: found[name] for name in ("meaning", "state", "explicit")}


def _check_places(claim: VisitedPairs, visited: Sequence[Visit]) -> None:
    if len(claim.all_pairs) != len(visited):
        raise RefusedError(
            "pairs", f"are {len(claim.all_pairs)}, where the settings stand for {len(visited)}"
        )
    for number, (pair, place) in enumerate(zip(claim.all_pairs, visited, strict=True)):
        for name, found, expected in zip(
            ("sequence", "position", "token"),
            (pair.sequence, pair.position, pair.token),
            place[:3],
            strict=True,
        ):
            if found != expected:
                raise RefusedError(f"pairs[{number}].{name}", f"is not {expected}, as the settings have it")


def check_states(claim: VisitedPairs, visited: Sequence[Visit], replay: Replay) -> None:
    """Verify that the states of all pairs are those that the words before them lead to.

    Args:
        claim: as many pairs as visits.
        visited: their places.
        replay: the model in float64.

    Raises:
        RefusedError: naming the first state that is another, or of which something is claimed though a token
            before it does not settle.

    Example:
        `VisitedPairs.check` calls it.
    """
    pairs = claim.all_pairs
    found = replay.states([visit.word for visit in visited])
    used = {number for number, pair in enumerate(pairs) if pair.claims}
    used |= {pair.elsewhere.pair for pair in pairs if isinstance(pair, Pair) and pair.elsewhere is not None}
    for number, (pair, state) in enumerate(zip(pairs, found, strict=True)):
        if state is not None:
            check_state(pair.state, state, f"pairs[{number}].state")
        elif number in used:
            raise RefusedError(f"pairs[{number}].state", "is of a word with a token that does not settle")


def _others(pair: Pair | ControlPair, pairs: Sequence[Any], number: int) -> list[Pair]:
    if not isinstance(pair, Pair) or pair.elsewhere is None:
        return []
    if pair.elsewhere.pair >= len(pairs):
        raise RefusedError(f"pairs[{number}].elsewhere.pair", "is not the number of a pair")
    return [pairs[pair.elsewhere.pair]]
