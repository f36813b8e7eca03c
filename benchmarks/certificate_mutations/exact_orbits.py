"""Is what a certificate says of the iteration true? Orbits of each bundle are followed from zero in mpmath.

A program is exact, or as inexact as ``step_error`` allows: every step off by a constant vector, and every
residual by as much as makes it stop first, or last.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from benchmarks.certificate_mutations.exact_model import ExactModel, State, Vector, entries_of
from benchmarks.certificate_mutations.mutations import Content, numbers_of

Array = NDArray[np.float64]
SAMPLES = 2
"""Points at the edge of a set, beside its centre, and pairs of a region."""
CORNERS = 1
"""Of a box of states, beside its centre."""
LONGEST_ORBIT = 400
"""Steps that are followed: what is farther is as good as the limit."""
SIZES: dict[str, Callable[[int, int], int]] = {
    "centres": lambda state, _: state,
    "widths": lambda state, _: state,
    "latents": lambda _, latent: latent,
    "metrics": lambda _, latent: latent * (latent + 1) // 2,
    "radii": lambda *_: 1,
}
"""How many numbers of a line a bundle has, with the size of a state and of a latent."""
LEAST_ULPS, MOST_ULPS = 4, 2**10
INSIDE = 1 - mpf(10) ** -9
"""How far towards the edge of a set a sample lies: its own rounding must not carry it out."""


class Orbit:
    """z₀, z₁, … of the damped iteration, with ‖Φ(z_k) − z_k‖₂, as far as somebody asked."""

    def __init__(self, step: Callable[[Vector], Vector], start: Vector, damping: Any, off: Any) -> None:
        self._step, self._damping, self._off = step, damping, off
        self._latents: list[Vector] = [start]
        self._residuals: list[Any] = []

    def first(self, tolerance: float, limit: int, error: float = 0.0) -> int | None:
        """Return when a program stops whose residuals are off by an error; None if not within a limit."""
        for k in range(min(limit, LONGEST_ORBIT)):
            if self._residual(k) + error <= tolerance * length(self.after(k)):
                return k
        return None

    def after(self, steps: int) -> Vector:
        """Return the latent after so many steps, or the last that is followed."""
        self._residual(min(steps, LONGEST_ORBIT))
        return self._latents[min(steps, LONGEST_ORBIT)]

    def _residual(self, k: int) -> Any:
        while len(self._residuals) <= k:
            z = self._latents[-1]
            residual = [a - b for a, b in zip(self._step(z), z, strict=True)]
            self._residuals.append(length(residual))
            self._latents.append(
                [a + self._damping * b + self._off for a, b in zip(z, residual, strict=True)]
            )
        return self._residuals[k]


class IterationJudge:
    """What a certificate says of the iteration of a model."""

    def __init__(self, model: ExactModel, limit: int) -> None:
        self.model, self.limit = model, limit
        self.size = len(entries_of(model.zero_state()))
        self._orbits: dict[Any, Orbit] = {}
        self._fixed_points: dict[Any, Vector] = {}
        self._known: dict[Any, list[str]] = {}

    def state_of(self, entries: Vector) -> State:
        """Return a state from its entries, the window first."""
        window = self.size - self.model.inner * self.model.d_state
        return self.model.state_of({"conv.0": entries[:window], "ssm.0": entries[window:]})

    def orbit(self, token: int, state: State, off: float) -> Orbit:
        """Return the orbit from zero whose steps are off by a vector of some length, of one direction."""
        key = token, tuple(entries_of(state)), off
        if key not in self._orbits:
            push = mpf(off) / mp.sqrt(self.model.size) * INSIDE
            zero = [mpf(0)] * self.model.size
            self._orbits[key] = Orbit(
                lambda z: self.model.advance(token, z, state)[0], zero, self.model.damping, push
            )
        return self._orbits[key]

    def fixed_point(self, token: int, state: State, near: Vector) -> Vector:
        """Return the one that Newton steps from a latent lead to."""
        key = token, tuple(entries_of(state)), tuple(near)
        if key not in self._fixed_points:
            self._fixed_points[key] = self.model.fixed_point(token, state, near)
        return self._fixed_points[key]

    def stopped(self, content: Content, token: int, state: State) -> Vector:
        """Return the latent of the inexact program that stops first, with rtol = tolerance."""
        off, limit = float.fromhex(content["step_error"]), content["iterations"]
        orbit = self.orbit(token, state, off)
        stop = orbit.first(float.fromhex(content["tolerance"]), limit, -off / float(self.model.damping))
        return orbit.after(limit - 1 if stop is None else stop)

    def faults(self, content: Content) -> Iterable[str]:
        """Return what is not true of ``tolerance``, ``iterations``, the errors and the bundles."""
        number = {name: float.fromhex(content[name]) for name in ("tolerance", "latent_error", "step_error")}
        if not 0 < number["tolerance"] < 1 or number["latent_error"] < 0 or number["step_error"] < 0:
            yield "tolerance is not positive and below 1, or an error is negative"
        if not 1 <= content["iterations"] <= self.limit:
            yield "iterations are none, or more than the run's limit"
        if sorted(content["bundles"]) != sorted((*SIZES, "tokens")):
            yield "bundles hold lines that are not known"
        for index in range(len(content["bundles"]["tokens"])):
            bundle = _Bundle.of(content, index, self.size, self.model.size)
            key = index, repr(bundle), *number.values(), content["iterations"]
            if key not in self._known:
                self._known[key] = list(self._bundle(content, number, index, bundle))
            for fault in self._known[key]:
                yield f"bundles {fault} [{index}]"
            yield from self._rounding(content, bundle, index)

    def _rounding(self, content: Content, bundle: "_Bundle", index: int) -> Iterable[str]:
        """A program that is exact but for the last root of a step, off by as many ulps as are allowed."""
        if content["dtype"] not in ("float64", "real") or not LEAST_ULPS <= content["ulps"] <= MOST_ULPS:
            yield "dtype or ulps is not of the format"
        elif content["dtype"] == "float64":
            image, _ = self.model.advance(bundle.token, bundle.latent, self.state_of(bundle.centre))
            off = self.model.damping * length(image) * content["ulps"] * 2.0**-52
            if not off <= float.fromhex(content["step_error"]):
                yield f"step_error is less than the rounding in bundle [{index}]"

    def _bundle(
        self, content: Content, number: dict[str, float], index: int, bundle: "_Bundle"
    ) -> Iterable[str]:
        if bundle.radius <= 0 or min(bundle.widths) < 0:
            yield "radii: it is not positive, or a width is negative"
        generator = np.random.default_rng(index)
        signs = [np.zeros(self.size, int), *generator.choice((-1, 1), size=(CORNERS, self.size))]
        for row in signs:
            corner = [
                c + int(s) * w for c, s, w in zip(bundle.centre, row.tolist(), bundle.widths, strict=True)
            ]
            state = self.state_of(corner)
            yield from self._orbits_of(content, number, bundle, state)
            yield from self._region(number, bundle, state, generator)

    def _orbits_of(
        self, content: Content, number: dict[str, float], bundle: "_Bundle", state: State
    ) -> Iterable[str]:
        """Where programs stop: at the tolerance, and for rtol = 0 at the limit."""
        limit, token, tolerance = content["iterations"], bundle.token, number["tolerance"]
        exact = self.orbit(token, state, 0.0)
        end = limit - 1 if (stop := exact.first(tolerance, limit)) is None else stop
        fixed = self.fixed_point(token, state, exact.after(end))
        if not bundle.holds(fixed):
            yield "latents: the iteration does not end in the region"
        for off in sorted({0.0, number["step_error"]}):
            orbit, slack = self.orbit(token, state, off), off / float(self.model.damping)
            first, last = (orbit.first(tolerance, limit, error) for error in (-slack, slack))
            if last is None:
                yield "iterations: are over before the tolerance is met"
            if first is not None and not bundle.holds(orbit.after(first)):
                yield "latents: the iteration may stop before it is in the region"
            ends = {first, last, limit - 1 if not off else None}
            for steps in (end for end in ends if end is not None):
                away = [a - b for a, b in zip(orbit.after(steps), fixed, strict=True)]
                if not length(away) <= number["latent_error"]:
                    yield "latent_error: it stops farther from the fixed point"

    def _region(
        self, number: dict[str, float], bundle: "_Bundle", state: State, generator: np.random.Generator
    ) -> Iterable[str]:
        """It is mapped into itself, by inexact steps too, which contract at its edge, and at zero inside."""
        model, points = self.model, []
        for direction in generator.normal(size=(SAMPLES, model.size)):
            unit = mp.matrix((direction / np.linalg.norm(direction)).tolist())
            away = mp.lu_solve(bundle.metric, unit) * bundle.radius * INSIDE
            z = [a + b for a, b in zip(bundle.latent, away, strict=True)]
            image, _ = model.advance(bundle.token, z, state)
            image = [a + model.damping * (b - a) for a, b in zip(z, image, strict=True)]
            outward = bundle.metric.T * bundle.away(image)
            size = length(outward)
            pushed = [a + number["step_error"] * b / size for a, b in zip(image, outward, strict=True)]
            if not bundle.holds(pushed):
                yield "radii: the region is not mapped into itself"
            points.append(z)
        zero = [mpf(0)] * model.size
        inverse = bundle.metric**-1
        for z in [*points, *[zero] * bundle.holds(zero)]:
            slopes = (
                mp.eye(model.size) * (1 - model.damping)
                + model.slopes(bundle.token, z, state) * model.damping
            )
            if not max(mp.svd_r(bundle.metric * slopes * inverse, compute_uv=False)) < 1:
                yield "radii: the iteration does not contract in the region"

    def member_faults(
        self, content: Content, index: int, token: int, centre: Vector, reach: Vector, fixed: Vector
    ) -> Iterable[str]:
        """Return what is wrong with a bundle that is to hold states and a fixed point."""
        if index < 0 or content["bundles"]["tokens"][index] != token:
            yield "bundle_of: is of another token"
        bundle = _Bundle.of(content, index, self.size, self.model.size)
        for a, b, far, width in zip(centre, bundle.centre, reach, bundle.widths, strict=True):
            if not abs(a - b) + far * INSIDE <= width:
                yield "bundle_of: does not hold the states"
        if not bundle.holds(fixed):
            yield "bundle_of: does not hold the fixed point"


@dataclass(frozen=True, eq=False)
class _Bundle:
    token: int
    centre: Vector
    widths: Vector
    latent: Vector
    metric: Any
    radius: Any

    @classmethod
    def of(cls, content: Content, index: int, state: int, latent: int) -> "_Bundle":
        bundles = content["bundles"]
        rows = {
            name: [mpf(float(e)) for e in numbers_of(bundles[name]).reshape(-1, size)[index]]
            for name, of in SIZES.items()
            for size in [of(state, latent)]
        }
        return cls(
            bundles["tokens"][index],
            rows["centres"],
            rows["widths"],
            rows["latents"],
            upper_triangular(rows["metrics"], latent),
            rows["radii"][0],
        )

    def away(self, z: Vector) -> Any:
        return self.metric * mp.matrix([a - b for a, b in zip(z, self.latent, strict=True)])

    def holds(self, z: Vector) -> bool:
        return bool(mp.norm(self.away(z)) <= self.radius)


def upper_triangular(entries: Vector, size: int) -> Any:
    """Return the matrix whose upper triangle is given row by row.

    Example:
        >>> print(upper_triangular([1, 2, 3], 2))
        [1.0  2.0]
        [0.0  3.0]
    """
    matrix, given = mp.zeros(size), iter(entries)
    for row in range(size):
        for column in range(row, size):
            matrix[row, column] = next(given)
    return matrix


def length(z: Vector) -> Any:
    """Return the Euclidean norm."""
    return mp.sqrt(mp.fdot(z, z))
