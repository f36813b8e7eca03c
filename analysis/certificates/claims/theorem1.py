"""Theorem 1 at visited states: existence, attraction, and what ∂h'/∂h is; of explicit models the opposite.

Float64 gives the states again (`analysis.certificates.replay`). Their claims are proved anew from weights.
The theorems are those of `theory.rigorous.enclosure`. Arithmetic and evaluation of the model are others, the
inverse is computed anew, and a Cholesky decomposition bounds the singular value in place of a norm.

An orbit from z₀ = 0 is plain iteration, at a precision that outlasts it. Every step widens the balls by more
than it moves the numbers in them, as each operation takes its arguments for independent; by about five bits a
step in the stored models. Where that is provided for nothing is lost: start and state are exact, so that the
balls begin at 2^−bits. A result that is still too wide is found again with twice the bits.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt, Strict

from analysis.certificates.arb.linear import (
    Rows,
    Vector,
    contracting_newton_map,
    exact_vector,
    identity,
    is_positive_definite,
    max_upper,
    precision,
    row_sum,
)
from analysis.certificates.arb.models import ArbDeltaNet, ArbModel
from analysis.certificates.certificate import (
    WEIGHTS_CONDITION,
    Claim,
    Context,
    Interval,
    Number,
    Numbers,
    Part,
    RefusedError,
    Verdict,
    Visit,
    Weights,
    Work,
    check_each,
    check_weights,
    statements,
)
from analysis.certificates.replay import Replay, check_state

EVALUATIONS: dict[str, type[ArbModel]] = {
    "implicit-mamba2": ArbModel,
    "mamba2": ArbModel,
    "implicit-deltanet": ArbDeltaNet,
}
"""The evaluation in balls of each model that `analysis.check_certificate` can check."""


OF_LAYERS = (
    "each layer's own block, the other layers' states held as listed; of blocks between layers nothing"
)
"""The scope of a certificate of several layers."""


EntryIndex = Annotated[tuple[NonNegativeInt, NonNegativeInt], Strict(False)]
"""A row and a column of ∂h'/∂h; JSON has it as a list."""


class Contraction(Part):
    """Products of ``power`` damped steps have norms up to ``norm``, those of fewer up to ``growth``."""

    power: PositiveInt
    norm: Number
    growth: Number

    @property
    def factor(self) -> float:
        """The contraction of one step, rounded: for reading only."""
        return float(self.norm ** (1 / self.power))


class Orbit(Part):
    """So many damped steps from z₀ = 0 end within ``distance`` of the latent."""

    iterations: NonNegativeInt
    distance: Number


class Claimed(Part):
    """A claim at a state or over a box of them: see ``theorem1.md``."""

    latent: Numbers
    radius: Number
    error: Number
    singular_value: Number
    contraction: Contraction | None
    entries: list[Interval]

    @property
    def complete(self) -> bool:
        """Return whether existence, invertibility and contraction are claimed, and no interval holds zero."""
        apart = all(lower > 0 or upper < 0 for lower, upper in self.entries)
        return self.singular_value > 0 and self.contraction is not None and apart


class Point(Claimed):
    """A claim at a single state."""

    orbit: Orbit | None

    @property
    def attracts(self) -> bool:
        """Say whether C1 to C3 are claimed, C3 whole: the exact iteration computes this fixed point."""
        return self.singular_value > 0 and self.contraction is not None and self.orbit is not None


class Elsewhere(Point):
    """The same with the h of another pair, by its number."""

    pair: NonNegativeInt


def non_linear(here: Point, there: Elsewhere | None) -> bool:
    """Return whether C1 to C3 are claimed at both states, C3 whole, and in every layer the entry differs."""
    if there is None or not (here.attracts and there.attracts):
        return False
    return all(
        ours[1] < theirs[0] or theirs[1] < ours[0]
        for ours, theirs in zip(here.entries, there.entries, strict=True)
    )


class Range(Claimed):
    """The same for all h of a box, whose radius is at least `least_state_radius`."""

    state_radius: Number


class VisitedPair(Part):
    """A visited state and the token that is read there."""

    sequence: NonNegativeInt
    position: NonNegativeInt
    token: NonNegativeInt
    state: dict[str, Numbers]


class Pair(VisitedPair):
    """A pair of an implicit model; None where nothing is proved."""

    places: list[EntryIndex]
    point: Point | None
    elsewhere: Elsewhere | None
    range: Range | None

    @property
    def each(self) -> tuple[Claimed | None, ...]:
        """The claims on it: at the point, with another h, over a box."""
        return self.point, self.elsewhere, self.range

    @property
    def claims(self) -> bool:
        """Return whether anything is claimed of it."""
        return any(claim is not None for claim in self.each)

    @property
    def off_diagonal(self) -> bool:
        """Say whether the claimed entry lies off the diagonal in every layer, of which there is one."""
        return bool(self.places) and all(row != column for row, column in self.places)

    @property
    def attracts(self) -> bool:
        """Return whether C1 to C3 are claimed, C3 whole."""
        return self.point is not None and self.point.attracts

    @property
    def non_diagonal(self) -> bool:
        """Say whether C1 to C3 are claimed and, in every layer, an entry off the diagonal excludes zero."""
        return self.off_diagonal and self.attracts and self.point is not None and self.point.complete

    @property
    def over_range(self) -> bool:
        """Say whether all statements about the point, but for the orbit, are claimed of a whole box of h."""
        return self.off_diagonal and self.attracts and self.range is not None and self.range.complete

    @property
    def non_linear(self) -> bool:
        """Return whether C1 to C3 are claimed at both states and, in every layer, the entry differs."""
        return self.point is not None and non_linear(self.point, self.elsewhere)


class ControlPair(VisitedPair):
    """A pair of an explicit model; per layer the decay of every head."""

    decay: list[list[Interval]] | None

    @property
    def claims(self) -> bool:
        """Return whether anything is claimed of it."""
        return self.decay is not None


def summarise(pairs: Sequence[Pair | ControlPair]) -> dict[str, int]:
    """Return the number of pairs of which each statement is proved."""
    if any(isinstance(pair, ControlPair) for pair in pairs):
        return {"pairs": len(pairs), "explicit": sum(pair.claims for pair in pairs)}
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
    "invertibility": "I − ∂zΦ invertible there",
    "contraction": "the damped step contracts there",
    "orbit": "the exact iteration from zero tends to it",
    "non_diagonal": "all of these, and ∂h'/∂h is not diagonal",
    "non_linear": "and it is another at another h, where the same is verified",
    "range": "everything except the orbit and non-linearity also holds on a box of h",
    "explicit": "∂h'/∂h is diagonal, and the same at every real h",
}
"""The statement that each count of the summary counts, as the verdict has it."""
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
LONGEST_ORBIT = 512  # steps that a certificate may ask for
BITS_A_STEP = 6
STEP_OF_BITS = 64  # precisions are multiples of it, so that few models are made; so many are left at the end
NARROW = arb(2) ** -40  # the radius at which an orbit is known well enough
ATTEMPTS = 3

OF_A_STEP = 2.0  # operations of one step for each weight and entry of the state
Image = Callable[[Vector], Vector]


def bits_of_orbit(iterations: int, bits: int) -> int:
    """Return the precision that so many steps are first tried with."""
    return max(bits, STEP_OF_BITS * (1 + -(-BITS_A_STEP * iterations // STEP_OF_BITS)))


def orbit_work(iterations: int, bits: int) -> float:
    """Return steps times bits of an orbit, all attempts together."""
    steps = min(iterations, LONGEST_ORBIT)  # more are refused
    return float(steps * bits_of_orbit(steps, bits) * (2**ATTEMPTS - 1))


def damped_orbit(
    image_at: Callable[[int], tuple[Image, arb]], size: int, iterations: int, bits: int
) -> Vector:
    """Return an enclosure of z_K, with z_{n+1} = (1 − τ) z_n + τ Φ(z_n) from z_0 = 0."""
    wanted = bits_of_orbit(iterations, bits)
    for doublings in range(ATTEMPTS):
        with precision(wanted << doublings):
            image, damping = image_at(wanted << doublings)
            z = [arb(0)] * size
            for _ in range(iterations):
                z = [(1 - damping) * a + damping * b for a, b in zip(z, image(z), strict=True)]
                if not all(number.is_finite() for number in z):
                    break
        if all(number.rad() < NARROW for number in z):
            break
    return z


State = Mapping[str, NDArray[np.float64]]  # a state as a certificate holds it
LARGEST_POWER = 2**20


class PairChecker:
    """Proves the claims of single pairs again."""

    def __init__(
        self, weights: Weights, sizes: Mapping[str, Any], bits: int, model: str = "implicit-mamba2"
    ) -> None:
        self.bits = bits
        self._made_of = EVALUATIONS[model], weights, sizes
        self._models: dict[int, ArbModel] = {}
        self.model = self.model_at(bits)
        self.shapes = self.model.shapes

    def model_at(self, bits: int) -> ArbModel:
        """Return the model with weights, and what is computed of them alone, at a precision."""
        if bits not in self._models:
            kind, weights, sizes = self._made_of
            with precision(bits):
                self._models[bits] = kind(weights, sizes)
        return self._models[bits]

    def check(self, pair: Any, others: list[Pair], line: str) -> None:
        """Check one pair."""
        for name, shape in self.shapes.items():
            if name not in pair.state or pair.state[name].size != np.prod(shape):
                raise RefusedError(
                    f"{line}.state", f"does not hold {name} with {int(np.prod(shape))} numbers"
                )
        if set(pair.state) != set(self.shapes):
            raise RefusedError(f"{line}.state", "holds more than the parts of a state")
        if pair.token >= len(self.model.embedding):
            raise RefusedError(f"{line}.token", "is not in the alphabet")
        with precision(self.bits):
            if hasattr(pair, "decay"):
                self._check_control(pair, line)
            else:
                self._check_implicit(pair, others, line)

    def _check_implicit(self, pair: Pair, others: list[Pair], line: str) -> None:
        if len(pair.places) != len(self.model.blocks):
            raise RefusedError(f"{line}.places", "does not hold one entry per layer")
        for layer, place in enumerate(pair.places):
            if max(place) >= np.prod(self.shapes[self.model.blocks[layer]]):
                raise RefusedError(f"{line}.places[{layer}]", "lies outside of the matrix")
        if pair.point is not None:
            self.check_point(pair, pair.point, pair.state, f"{line}.point")
        if pair.elsewhere is not None:
            (other,) = others
            moved = {
                name: (other.state if name in self.model.blocks else pair.state)[name] for name in self.shapes
            }
            # two fixed points beside one h would be two branches, and say nothing of one transition
            if all((moved[name] == pair.state[name]).all() for name in self.shapes):
                raise RefusedError(f"{line}.elsewhere.pair", "is a pair with the same h")
            self.check_point(pair, pair.elsewhere, moved, f"{line}.elsewhere")
        if pair.range is not None:
            self._check_same_fixed_point(pair.point, pair.range, f"{line}.range")
            least = least_state_radius([pair.state[name] for name in self.model.blocks])
            if not pair.range.state_radius >= least:
                raise RefusedError(
                    f"{line}.range.state_radius",
                    f"is below {least:.3g}, so that the box need not hold another h",
                )
            box = self._state(pair.state, pair.range.state_radius)
            self.check_claim(pair, pair.range, box, f"{line}.range")

    def _check_same_fixed_point(self, point: Point | None, claim: Claimed, line: str) -> None:
        """Check that the ball of a claim over a box holds the fixed point that the iteration tends to."""
        if point is None or not point.attracts:
            raise RefusedError(line, "is of a pair without an orbit that is proved to end in its fixed point")
        if point.latent.size != claim.latent.size:
            raise RefusedError(f"{line}.latent", f"does not hold {point.latent.size} numbers")
        pairs = zip(exact_vector(claim.latent), exact_vector(point.latent), strict=True)
        if not all(abs(a - b) + point.error <= claim.radius for a, b in pairs):
            raise RefusedError(f"{line}.latent", "is too far from that of the point, or its ball too small")

    def check_point(self, pair: Pair, point: Point, state: State, line: str) -> None:
        """Check what is claimed of one state, and where the iteration from zero goes there."""
        self.check_claim(pair, point, self._state(state, 0.0), line)
        if point.orbit is not None:
            self._check_orbit(pair.token, point, state, line)

    def _check_orbit(self, token: int, point: Point, state: State, line: str) -> None:
        if point.orbit is None or point.contraction is None:
            raise RefusedError(f"{line}.orbit", "has no contraction to end in")
        steps, distance = point.orbit.iterations, arb(point.orbit.distance)
        if steps > LONGEST_ORBIT:
            raise RefusedError(f"{line}.orbit.iterations", f"are more than {LONGEST_ORBIT}")
        if not point.contraction.growth * (distance + point.error) + point.error <= point.radius:
            raise RefusedError(f"{line}.orbit.distance", "is not where the iteration is proved to converge")

        def image_at(bits: int) -> tuple[Callable[[Vector], Vector], arb]:
            model = self.model_at(bits)
            numbers = model.state([e for name in self.shapes for e in exact_vector(state[name])])
            return partial(model.image, token, state=numbers), model.damping

        reached = damped_orbit(image_at, self.model.size, steps, self.bits)
        both = zip(reached, exact_vector(point.latent), strict=True)
        if not all(abs(a - b) <= distance for a, b in both):
            raise RefusedError(f"{line}.orbit.distance", f"is less than that after {steps} steps from zero")

    def check_claim(self, pair: Pair, claim: Claimed, state: dict[str, Rows], line: str) -> None:
        """Check what is claimed of a box of states; `theory.rigorous.enclosure` has the theorems."""
        size = self.model.size
        if claim.latent.size != size:
            raise RefusedError(f"{line}.latent", f"does not hold {size} numbers")
        if not 0 <= claim.error <= claim.radius:
            raise RefusedError(f"{line}.error", "is not between 0 and the radius")
        centre = exact_vector(claim.latent)
        region = [arb(float(number), claim.radius) for number in claim.latent]
        _, slopes, found = self.model.evaluate(pair.token, region, state, [c for _, c in pair.places])
        A = arb_mat([row[:size] for row in slopes])
        newton = contracting_newton_map(A, lambda reason: RefusedError(f"{line}.radius", reason))
        inverse, defect, kappa = newton.inverse, newton.defect, newton.kappa
        image, _, _ = self.model.evaluate(pair.token, centre, state, None)
        residual = arb_mat(size, 1, [a - b for a, b in zip(image, centre, strict=True)])
        if not row_sum(inverse * residual) + kappa * claim.error <= claim.error:
            raise RefusedError(f"{line}.error", "the Newton map leaves the ball of that radius")
        remaining = 1 - (kappa * row_sum(defect.transpose())).sqrt()
        if not (claim.singular_value > 0 and remaining > 0):
            raise RefusedError(f"{line}.singular_value", "is not proved to be positive")
        # ‖P‖₂ ≤ remaining / σ, as a difference that is positive definite.
        bound = (remaining.lower() / claim.singular_value) ** 2
        if not is_positive_definite(bound * identity(size) - inverse.transpose() * inverse):
            raise RefusedError(f"{line}.singular_value", "is larger than what is proved")
        if claim.contraction is not None:
            self._check_contraction(A, claim.contraction, f"{line}.contraction")
        if len(claim.entries) != len(pair.places):
            raise RefusedError(f"{line}.entries", "does not hold one interval per layer")
        for layer, (place, interval) in enumerate(zip(pair.places, claim.entries, strict=True)):
            source = arb_mat(size, 1, [rates[size + layer] for rates in slopes])
            solved = inverse * source
            beyond = (kappa**2 / (1 - kappa) * row_sum(solved)).upper()
            response = [entry + arb(0, beyond) for entry in (solved + defect * solved).entries()]
            rates = self.model.entry_rates(found, layer, place, state)
            entry = sum((g * x for g, x in zip(rates[:size], response, strict=True)), rates[size + layer])
            if not _inside(entry, interval):
                raise RefusedError(f"{line}.entries[{layer}]", "does not hold all that the entry may be")

    def _check_contraction(self, A: arb_mat, contraction: Contraction, line: str) -> None:
        """Square repeatedly; a product of fewer than 2^j is one of products of 2^i, each i < j once."""
        power = contraction.power
        if power & (power - 1) or power > LARGEST_POWER:
            raise RefusedError(f"{line}.power", f"is not a power of two up to {LARGEST_POWER}")
        product = identity(A.nrows()) * (1 - self.model.damping) + A * self.model.damping
        growth = arb(1)
        for _ in range(power.bit_length() - 1):
            growth *= max_upper([arb(1), row_sum(product)])
            product = product * product
        if not (contraction.norm < 1 and row_sum(product) <= contraction.norm):
            raise RefusedError(f"{line}.norm", "is not a bound below 1 of the powers")
        if not growth <= contraction.growth:
            raise RefusedError(f"{line}.growth", "is not a bound of the lower powers")

    def _check_control(self, pair: ControlPair, line: str) -> None:
        """NaN in place of a layer's own h: what comes out finite was computed without it."""
        if pair.decay is None:
            return
        if self.model.implicit or len(pair.decay) != len(self.model.blocks):
            raise RefusedError(f"{line}.decay", "does not hold one list per layer of an explicit model")
        for layer, intervals in enumerate(pair.decay):
            state = self._state(pair.state, 0.0)
            state[f"ssm.{layer}"] = [[arb.nan()] * len(row) for row in state[f"ssm.{layer}"]]
            _, _, found = self.model.evaluate(pair.token, [], state, None)
            here = found[layer]
            numbers = [*here.decays, *here.inputs[0], *here.B[0]]
            if not all(number.is_finite() for number in numbers):
                raise RefusedError(f"{line}.decay[{layer}]", "the coefficients depend on h")
            if len(intervals) != len(here.decays) or not all(map(_inside, here.decays, intervals)):
                raise RefusedError(f"{line}.decay[{layer}]", "does not hold all that the decay may be")

    def _state(self, state: State, radius: float) -> dict[str, Rows]:
        entries = []
        for name in self.shapes:
            if name in self.model.blocks and radius:
                entries += [arb(float(number), radius) for number in state[name]]
            else:
                entries += exact_vector(state[name])
        return self.model.state(entries)


def _inside(number: arb, interval: Interval) -> bool:
    return bool(number >= interval[0] and number <= interval[1])


def least_state_radius(parts: Sequence[NDArray[np.float64]]) -> float:
    """Return the least radius with which a box around h says more than its middle does.

    It is the distance from the largest entry of h to the next float32, the type in which the model holds h:
    along every entry the box holds another h that the model can be in.
    """
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    return float(np.spacing(np.float32(min(largest, LARGEST_FLOAT32))))


class VisitedPairs(Claim):
    """Claims on visited states and tokens."""

    models: ClassVar[tuple[str, ...]] = tuple(EVALUATIONS)
    says: ClassVar[Mapping[str, str]] = statements("theorem1")
    stating: ClassVar[tuple[str, ...]]

    settings: dict[str, int]
    summary: dict[str, int]
    pairs: Sequence[Any]

    @classmethod
    def stated(cls, config: Mapping[str, Any]) -> dict[str, str]:
        """Return the statements of the kind, as they are for the model and its number of layers."""
        found = {name: text for name, text in super().stated(config).items() if name in cls.stating}
        if config["sizes"].get("layers", 1) == 1:
            return found
        more = {name: cls.says.get(f"{name} of several layers", "") for name in found}
        return {name: f"{text} {more[name]}".rstrip() for name, text in found.items()}

    def work(self, context: Context) -> Work:
        """Bound the work: derivatives at every claim, and orbits at the precision that they ask for."""
        size = int(context.sizes.get("d_model", 0))
        weights = context.weight_count
        state = max((sum(part.size for part in pair.state.values()) for pair in self.pairs), default=0)
        columns = size + int(context.sizes.get("layers", 1))
        one = float(8 * (weights + state) * columns + 40 * columns**3)
        operations = 0.0
        for pair in self.pairs:
            claims = [claim for claim in getattr(pair, "each", ()) if claim is not None]
            operations += one * context.bits * max(1, len(claims))
            orbits = [orbit for claim in claims if (orbit := getattr(claim, "orbit", None)) is not None]
            for orbit in orbits:
                operations += OF_A_STEP * (weights + state) * orbit_work(orbit.iterations, context.bits)
        return Work(operations / context.bits, 8.0 * (weights + state) * columns, context.bits)

    def check(self, context: Context) -> None:
        """Verify that the pairs are those of the settings, every claim of them, and the counts."""
        name = str(context.config["model"])
        if name not in EVALUATIONS or context.sizes.get("mlp_size"):
            raise RefusedError("config", "is of a model that the checker cannot evaluate")
        if (name == "mamba2") != (self.kind == "explicit"):
            raise RefusedError("kind", f"is not one of {name}")
        check_weights(context.weights)
        visited, pairs = context.visits(self.settings), self.pairs
        _check_places(self, visited)
        check_states(self, visited, Replay(context.weights, context.sizes, name))
        jobs = [(pair, _others(pair, pairs, number), f"pairs[{number}]") for number, pair in enumerate(pairs)]
        arguments = (dict(context.weights), context.sizes, context.bits, name)
        check_each(context, PairChecker, arguments, jobs, unit="pair", at_once=8)
        counts = summarise(pairs)
        if set(self.summary) != set(counts):
            raise RefusedError("summary", f"does not hold the counts of its format, {', '.join(counts)}")
        for name, count in counts.items():
            if self.summary[name] != count:
                raise RefusedError(f"summary.{name}", f"is not what the pairs show, {count}")
        if not any(count for name, count in counts.items() if name != "pairs"):
            raise RefusedError("pairs", "claim nothing")

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the counts, taken again."""
        counts = summarise(self.pairs)
        total = counts.pop("pairs")
        if "explicit" in counts:
            claim, program = "∂h'/∂h is diagonal, and the same at every real h,", ""
            whole = counts["explicit"]
        else:
            # C4 is of K in ∂h'/∂h = D + K: it is what is proved only where D is diagonal.
            claim = "C1 to C4 of Theorem 1 hold"
            if config["model"] != "implicit-mamba2":
                claim = "C1 to C3 of Theorem 1 hold, and ∂h'/∂h is non-diagonal and non-linear,"
            whole = sum(pair.non_diagonal and pair.non_linear for pair in self.pairs)
            program = ", and the model's own rounding, tolerance and limit of iterations"
        conditions = (
            *(f"{VERIFIED[name]}: at {count}" for name, count in counts.items()),
            "arithmetic: real numbers",
            WEIGHTS_CONDITION,
            *([f"layers: {OF_LAYERS}"] if config["sizes"].get("layers", 1) > 1 else []),
            f"not covered: other states{program}",
        )
        return Verdict(f"{claim} at {whole} of {total} pairs of a state and a token", conditions)


class Theorem1(VisitedPairs):
    """Theorem 1 at visited states of an implicit model."""

    stating: ClassVar[tuple[str, ...]] = (
        *("meaning", "state", "existence", "invertibility", "contraction", "orbit", "non_diagonal"),
        *("non_linear", "range"),
    )

    kind: Literal["theorem1"] = "theorem1"
    pairs: list[Pair]


class Explicit(VisitedPairs):
    """The opposite at visited states of an explicit model."""

    stating: ClassVar[tuple[str, ...]] = ("meaning", "state", "explicit")

    kind: Literal["explicit"] = "explicit"
    pairs: list[ControlPair]


def _check_places(claim: VisitedPairs, visited: Sequence[Visit]) -> None:
    if len(claim.pairs) != len(visited):
        raise RefusedError("pairs", f"are {len(claim.pairs)}, where the settings stand for {len(visited)}")
    for number, (pair, place) in enumerate(zip(claim.pairs, visited, strict=True)):
        for name in ("sequence", "position", "token"):
            if getattr(pair, name) != getattr(place, name):
                raise RefusedError(
                    f"pairs[{number}].{name}", f"is not {getattr(place, name)}, as the settings have it"
                )


def check_states(claim: VisitedPairs, visited: Sequence[Visit], replay: Replay) -> None:
    """Verify that the states of all pairs are those that the words before them lead to."""
    pairs = claim.pairs
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
