"""Pairs of a state and a token: the claims of Theorem 1 proved again from the weights, at a higher precision.

The theorems behind it are those of `theory.rigorous.enclosure`; arithmetic and evaluation of the model are
others, the inverse is computed anew, and the singular value is bounded by a Cholesky decomposition in place
of a norm.

An orbit from z₀ = 0 is plain iteration, at a precision that outlasts it. Every step widens the balls by more
than it moves the numbers in them, as each operation takes its arguments for independent; by about five bits a
step in the stored models. Where that is provided for nothing is lost: start and state are exact, so that the
balls begin at 2^−bits. A result that is still too wide is found again with twice the bits.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from analysis.certificates.arb.balls import (
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
from analysis.certificates.arb.deltanet import ArbDeltaNet
from analysis.certificates.arb.mamba2 import ArbModel
from analysis.certificates.certificate import Interval, RefusedError

Claimed: TypeAlias = Any
Contraction: TypeAlias = Any
ControlPair: TypeAlias = Any
Pair: TypeAlias = Any
Point: TypeAlias = Any
"""Those of `analysis.certificates.claims.theorem1`, which imports this."""

Weights = Mapping[str, NDArray[np.floating[Any]]]
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


LONGEST_ORBIT = 512
"""Steps that a certificate may ask for."""
BITS_A_STEP = 6
STEP_OF_BITS = 64
"""Precisions are multiples of it, so that few models are made; so many are left at the end."""
NARROW = arb(2) ** -40
"""The radius at which an orbit is known well enough."""
ATTEMPTS = 3

OF_A_STEP = 2.0
"""Operations of one step for each weight and entry of the state."""
Image = Callable[[Vector], Vector]


def bits_of_orbit(iterations: int, bits: int) -> int:
    """Return the precision that so many steps are first tried with.

    Example:
        >>> bits_of_orbit(20, 128), bits_of_orbit(512, 128)
        (192, 3136)
    """
    return max(bits, STEP_OF_BITS * (1 + -(-BITS_A_STEP * iterations // STEP_OF_BITS)))


def orbit_work(iterations: int, bits: int) -> float:
    """Return steps times bits of an orbit, all attempts together."""
    steps = min(iterations, LONGEST_ORBIT)  # more are refused
    return float(steps * bits_of_orbit(steps, bits) * (2**ATTEMPTS - 1))


def damped_orbit(
    image_at: Callable[[int], tuple[Image, arb]], size: int, iterations: int, bits: int
) -> Vector:
    """Return an enclosure of z_K, with z_{n+1} = (1 − τ) z_n + τ Φ(z_n) from z_0 = 0.

    Args:
        image_at: from a precision to Φ in it, at one token and state, and τ.
        size: of the latent.
        iterations: K.
        bits: the least precision.

    Example:
        z ← z/2 + 1 from 0 is 2 − 2^{1−n} after n steps.

        >>> def half(bits):
        ...     return lambda z: [z[0] / 2 + 1], arb(1)
        >>> damped_orbit(half, 1, 4, 128)
        [1.87500000000000]
    """
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


State = Mapping[str, NDArray[np.float64]]
"""As a certificate holds it."""
LARGEST_POWER = 2**20
EVALUATIONS: dict[str, type[ArbModel]] = {
    "implicit-mamba2": ArbModel,
    "mamba2": ArbModel,
    "implicit-deltanet": ArbDeltaNet,
}
"""By the model's name, those of `CHECKED`."""


class PairChecker:
    """Proves the claims of single pairs again.

    Args:
        weights: the state dict of the run.
        sizes: ``sizes`` of its configuration.
        bits: the precision.
        model: its name.

    Example:
        >>> from implicit.models.mamba2 import Mamba2, Mamba2Config
        >>> config = Mamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> weights = {name: value.numpy() for name, value in Mamba2(config).state_dict().items()}
        >>> PairChecker(weights, config.model_dump(), bits=128).shapes
        {'conv.0': (12, 3), 'ssm.0': (8, 2)}
    """

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

    def check_pair(self, pair: Any, others: list[Pair], line: str) -> None:
        """Check one pair.

        Args:
            pair: what is claimed.
            others: the pair, if any, whose h stands in for its own.
            line: names the pair in the refusal.

        Raises:
            RefusedError: naming the first line that fails.
        """
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
        """Whether the ball of a claim over a box holds the fixed point that the iteration tends to."""
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
        """By repeated squaring; a product of fewer than 2^j is one of products of 2^i, each i < j once."""
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

    Args:
        parts: h of all layers.

    Example:
        >>> least_state_radius([np.array([0.5, -1.0]), np.zeros(2)]) == 2**-23
        True
    """
    largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
    return float(np.spacing(np.float32(min(largest, LARGEST_FLOAT32))))
