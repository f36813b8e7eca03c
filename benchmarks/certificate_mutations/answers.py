"""Is what a certificate of right answers says true? Words are read, states of sets, and orbits of bundles.

Orbits are followed from zero in mpmath. A program is exact, or as inexact as ``step_error`` allows: every
step off by a constant vector, and every residual by as much as makes it stop first, or last.

Every token is read twice: with the fixed point, which is where the iteration ends for rtol = 0 and no limit,
and with the latent of the inexact program that stops first at ``tolerance``, whose next state is off too.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.exact_model import ExactModel, State, Vector, distance, entries_of
from benchmarks.certificate_mutations.mutations import Content, numbers_of
from implicit.runs.loading import Run

Array = NDArray[np.float64]
SAMPLES = 2  # points at the edge of a set, beside its centre, and pairs of a region
CORNERS = 1  # corners of a box of states that are tried beside its centre
LONGEST_ORBIT = 400  # steps that are followed: what is farther is as good as the limit
SIZES: dict[str, Callable[[int, int], int]] = {
    "centres": lambda state, _: state,
    "widths": lambda state, _: state,
    "latents": lambda _, latent: latent,
    "metrics": lambda _, latent: latent * (latent + 1) // 2,
    "radii": lambda *_: 1,
}
"""Numbers of a bundle in each line, from the sizes of a state and of a latent."""
LEAST_ULPS, MOST_ULPS = 4, 2**10
INSIDE = 1 - mpf(10) ** -9
"""Distance of a sample from the middle over the radius of its set: rounding must not carry it out."""


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
        """Yield the faults where programs stop: at the tolerance, and for rtol = 0 at the limit."""
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
    return mp.sqrt(mp.fdot(z, z))


LEVEL = {"latents", "latent_radii", "states", "state_radii", "margins", "bundle_of"}


class AnswersJudge:
    """Says what is not true of certificates of all words, of every length, and of every start."""

    def __init__(self, model: ExactModel, run: Run) -> None:
        assert isinstance(run.task, WordProblem)
        self.model, self.task = model, run.task
        self.iteration = IterationJudge(model, int(run.config.as_json()["sizes"]["max_iterations"]))
        self.size = self.iteration.size

    def words(self, content: Content) -> Iterable[str]:
        yield from self.iteration.faults(content)
        tokens, task = range(self.task.vocabulary_size), self.task
        if any(set(level) != LEVEL for level in content["levels"]):
            yield "levels hold lines that are not known"
        levels = [
            {name: numbers_of(text) for name, text in level.items() if name != "bundle_of"}
            for level in content["levels"]
        ]
        counts = len(levels), sum(len(tokens) ** (n + 1) for n in range(len(levels)))
        if (content["length"], content["words"]) != counts:
            yield "length or words are not those of the levels"
        if float.fromhex(content["margin"]) != min(float(level["margins"].min()) for level in levels):
            yield "margin is not the least"
        zero = self.model.zero_state()
        read: dict[tuple[int, ...], tuple[int, list[State]]] = {(): (task.initial_state, [zero, zero])}
        balls: dict[tuple[int, ...], tuple[Vector, float]] = {(): (entries_of(zero), 0.0)}
        for number, level in enumerate(levels):
            for row, word in enumerate(itertools.product(tokens, repeat=number + 1)):
                line, token = f"levels[{number}] word {word}", word[-1]
                before, states = read[word[:-1]]
                label = int(task.table[before, token])
                centre = _exact(level["states"].reshape(-1, self.size)[row])
                balls[word] = centre, float(level["state_radii"][row])
                latent = _exact(level["latents"].reshape(-1, self.model.size)[row])
                steps = [
                    self._step(content, token, state, latent, inexact)
                    for state, inexact in zip(states, (False, True), strict=True)
                ]
                read[word] = label, [following for _, _, following in steps]
                for fixed, z, following in steps:
                    if not distance(fixed, latent) <= float(level["latent_radii"][row]):
                        yield f"{line}: latent_radii"
                    if not length(_minus(entries_of(following), centre)) <= balls[word][1]:
                        yield f"{line}: state_radii"
                    if not 0 < float(level["margins"][row]) <= self._margin(z, label):
                        yield f"{line}: margins"
                    around, radius = balls[word[:-1]]
                    reach, bundle = [mpf(radius)] * self.size, content["levels"][number]["bundle_of"][row]
                    for fault in self.iteration.member_faults(content, bundle, token, around, reach, fixed):
                        yield f"{line}: {fault}"

    def cover(self, content: Content) -> Iterable[str]:
        yield from self.iteration.faults(content)
        labels, targets, margin = content["labels"], content["targets"], float.fromhex(content["margin"])
        count, tokens = len(labels), self.task.vocabulary_size
        arrays = {
            name: numbers_of(content[name])
            for name in ("centres", "metrics", "radii", "latents", "latent_radii")
        }
        centres = [_exact(row) for row in arrays["centres"].reshape(count, self.size)]
        latents = arrays["latents"].reshape(count, tokens, self.model.size)
        latent_radii, radii = arrays["latent_radii"].reshape(count, tokens), arrays["radii"].tolist()
        metrics = [upper_triangular(_exact(row), self.size) for row in arrays["metrics"].reshape(count, -1)]

        def reach(index: int, entries: Vector) -> Any:
            return mp.norm(metrics[index] * mp.matrix(_minus(entries, centres[index])))

        if labels[0] != self.task.initial_state or reach(0, [mpf(0)] * self.size) > radii[0]:
            yield "the zero state is not in the first set"
        if min(radii) <= 0 or margin <= 0:
            yield "a radius or the margin is not positive"
        for index in range(count):
            axes = _inverse(metrics[index]) * radii[index]
            extents = [length(list(axes[row, :])) for row in range(self.size)]
            for token, unit in itertools.product(range(tokens), self._units(index)):
                target, label = targets[index][token], int(self.task.table[labels[index], token])
                if labels[target] != label:
                    yield f"targets[{index}][{token}] is a set of another label"
                entries = [a + b for a, b in zip(centres[index], axes * unit * INSIDE, strict=True)]
                state = self.iteration.state_of(entries)
                latent = _exact(latents[index, token])
                for inexact in (False, True):
                    fixed, z, following = self._step(content, token, state, latent, inexact)
                    if not distance(fixed, latent) <= latent_radii[index, token]:
                        yield f"latent_radii[{index}][{token}]"
                    if not reach(target, entries_of(following)) <= radii[target]:
                        yield f"targets[{index}][{token}]: a state leads out of it"
                    if not margin <= self._margin(z, label):
                        yield "margin is larger than that of a state"
                    bundle = content["bundle_of"][index][token]
                    for fault in self.iteration.member_faults(
                        content, bundle, token, centres[index], extents, fixed
                    ):
                        yield f"set {index}, token {token}: {fault}"

    def images(self, content: Content) -> Iterable[str]:
        yield from self.cover(content)
        weight, d = self.model.weights["latent_norm.weight"], self.model.size
        counts = len(content["labels"]), self.task.vocabulary_size
        names = ("centres", "metrics", "latents", "image_radii")
        rows = {name: numbers_of(content[name]).reshape(counts[0], -1) for name in names}
        latents = rows["latents"].reshape(*counts, d)
        scale = mp.diag(weight)

        def apart(one: Vector, other: Vector) -> Any:
            return length([a / w for a, w in zip(_minus(one, other), weight, strict=True)])

        for index, token in itertools.product(*map(range, counts)):
            axes = _inverse(upper_triangular(_exact(rows["metrics"][index]), self.size))
            axes *= numbers_of(content["radii"]).tolist()[index]
            middle, centre = _exact(rows["centres"][index]), _exact(latents[index, token])
            radius = mpf(float(rows["image_radii"][index, token]))
            line = f"image_radii[{index * counts[1] + token}]"
            for unit in self._units(index):
                entries = [a + b for a, b in zip(middle, axes * unit * INSIDE, strict=True)]
                state = self.iteration.state_of(entries)
                for z in self._latents(weight):
                    if not apart(self.model.advance(token, z, state)[0], centre) <= radius:
                        yield f"{line}: an image is not within it in set {index}, token {token}"
                around = self._latents([radius / mp.sqrt(d) * w for w in weight])
                inside = [[c + e for c, e in zip(centre, y, strict=True)] for y in around]
                zero = [mpf(0)] * d  # where the norm before the block is steepest
                for z in [*inside, *([zero] if apart(zero, centre) <= radius else [])]:
                    slopes = scale**-1 * self.model.slopes(token, z, state) * scale
                    if not max(mp.svd(slopes, compute_uv=False)) < 1:
                        yield f"{line}: no contraction on it in set {index}, token {token}"

    def _latents(self, weight: Vector) -> list[Vector]:
        """Some of K, on its edge and near zero, the same at every call."""
        y = np.random.default_rng(0).normal(size=(2 * SAMPLES, self.model.size))
        y *= np.sqrt(self.model.size) / np.linalg.norm(y, axis=1, keepdims=True)
        y *= np.tile([float(INSIDE), 1e-3], SAMPLES)[:, None]
        return [[w * e for w, e in zip(weight, _exact(row), strict=True)] for row in y]

    def _units(self, index: int) -> list[Any]:
        """The centre of a set and some of its edge, the same at every call."""
        directions = np.random.default_rng(index).normal(size=(SAMPLES, self.size))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return [mp.matrix(row) for row in [[0.0] * self.size, *directions.tolist()]]

    def _step(
        self, content: Content, token: int, state: State, near: Vector, inexact: bool
    ) -> tuple[Vector, Vector, State]:
        """The fixed point, the latent at which a program stops, and its next state."""
        z = self.iteration.stopped(content, token, state) if inexact else near
        fixed = self.iteration.fixed_point(token, state, z)
        z = z if inexact else fixed
        _, following = self.model.advance(token, z, state)
        if inexact:
            push = mpf(float.fromhex(content["step_error"])) / mp.sqrt(self.size) * INSIDE
            following = self.iteration.state_of([entry + push for entry in entries_of(following)])
        return fixed, z, following

    def _margin(self, z: Vector, label: int) -> Any:
        logits = self.model.logits(z)
        return logits[label] - max(logit for other, logit in enumerate(logits) if other != label)


def _inverse(upper: Any) -> Any:
    """Invert by back substitution, which does not take very different rows for a singular matrix."""
    columns = [mp.U_solve(upper.copy(), list(unit)) for unit in np.eye(upper.rows)]
    return mp.matrix([list(column) for column in columns]).T


def _exact(row: Array) -> Vector:
    return [mpf(float(number)) for number in row]


def _minus(one: Vector, other: Vector) -> Vector:
    return [a - b for a, b in zip(one, other, strict=True)]
