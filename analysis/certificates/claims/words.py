"""Right answers of the iteration that is run, to all words up to a length: each step proved again (FLINT).

**Orbits.** Bundles are followed again from zero; the theorem is that of `theory.rigorous.covers.orbits`, with
its names. Nothing of an orbit is taken from the certificate but the box of states and the region in which it
is to end.

**Steps.** A set is {c + U u : ‖u‖₂ ≤ 1}. Derivatives are taken along the columns of U by
`ArbModel.evaluate_along`, so that the mean value theorem gives ‖W' (s' − c')‖₂ ≤ ‖W' (G(z*(c); c) − c')‖₂ +
‖W' J U‖₂, and the latent and the next state may be off as `latent_error` and `step_error` say;
`theory.rigorous.covers.invariant_cover` has the theorems.

**Words.** A word is a step from the ball of states that the tokens before its last one lead to; the first
ball is the zero state alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.arb.linear import (
    Vector,
    apply,
    contracting_newton_map,
    exact_matrix,
    exact_vector,
    identity,
    max_upper,
    minus,
    norm_bound,
    plus,
    precision,
    spectral_bound,
    triangle,
)
from analysis.certificates.arb.models import ArbModel, State, entries_of
from analysis.certificates.arb.rounding import ArbRounding
from analysis.certificates.certificate import (
    LEAST_ULPS,
    MOST_ULPS,
    WEIGHTS_CONDITION,
    Automaton,
    Claim,
    Context,
    Number,
    Numbers,
    Part,
    RefusedError,
    Verdict,
    Weights,
    Work,
    check_answers,
    check_each,
    check_weights,
    statements,
)
from automata.checks import at_least

Array = NDArray[np.float64]

MODELS = ("implicit-mamba2",)  # models whose orbits and steps can be followed in balls
ANSWER_RTOL = 1e-10
"""The default tolerance of `implicit.answer`; written out, for the checker imports no model."""
MOST_ITERATIONS = 10**4  # as `load_run` lets a model take; the stored certificates have at most 173
DType = Literal["float64", "real"]  # the format whose rounding is covered; that of real numbers has none


class OrbitBundles(Part):
    """Bundles of orbits, a row each: see ``iteration.md``."""

    tokens: list[NonNegativeInt]
    centres: Numbers
    widths: Numbers
    latents: Numbers
    metrics: Numbers
    radii: Numbers


class IterationClaim(Claim):
    """A claim that the answers of the iteration that is run are those of an automaton."""

    models: ClassVar[tuple[str, ...]] = MODELS

    bundles: OrbitBundles
    tolerance: Number
    iterations: PositiveInt
    latent_error: Number
    step_error: Number
    dtype: DType
    ulps: PositiveInt
    margin: Number

    def check_steps(
        self,
        context: Context,
        checker: type["AnswersChecker"],
        automaton: Automaton,
        jobs: Sequence[tuple[Any, ...]],
        unit: str,
    ) -> None:
        """Verify the bundles of orbits, and the steps of all jobs."""
        bundles = [("bundle", number) for number in range(len(self.bundles.tokens))]
        arguments = (self, dict(context.weights), context.sizes, automaton, context.bits)
        check_each(context, checker, arguments, [*bundles, *((unit, *job) for job in jobs)], unit=unit)

    def right(self, words: str, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict that the answers to words are right, with its conditions."""
        # Numbers are not rounded. The command has an rtol of its own, which may have to be another.
        damping, rtol = config["sizes"]["damping"], config["sizes"]["rtol"]
        executed, assumed, left = "", [], "rounding"
        if self.dtype != "real":
            flag = "" if self.tolerance >= ANSWER_RTOL else f" --rtol {self.tolerance!r}"
            executed = f", and as {self.dtype} computes it on a CPU (python -m implicit.answer{flag})"
            left = "float32"
            assumed = [
                f"assumed of {self.dtype}: + - * / round as in IEEE 754; sums and matrix products are made "
                "of these, in any order, fused or not; exp, softplus, silu and roots are within "
                f"{self.ulps} ulp"
            ]
        own = "" if rtol <= self.tolerance else f", and the run's own rtol of {rtol!r}"
        conditions = (
            f"iteration: sequential, from zero (damping {damping!r}, rtol <= {self.tolerance!r}, a limit of "
            f"at least {self.iterations} iterations a token)",
            f"arithmetic: exact{executed}",
            WEIGHTS_CONDITION,
            *assumed,
            f"not covered: {left}{own}",
            f"margin: at least {at_least(self.margin)}",
        )
        return Verdict(f"the answers to {words} are right", conditions)


def check_answers_of(context: Context) -> tuple[Automaton, int]:
    """Return the automaton of a model that is evaluated here, and how many numbers a state of it has."""
    automaton, weights = check_answers(context, MODELS), context.weights
    check_weights(weights)
    if "latent_norm.weight" not in weights:
        raise RefusedError("config.sizes", "are not those of an implicit model of one layer")
    channels, _, taps = weights["mixers.0.conv1d.weight"].shape
    inner = weights["mixers.0.out_proj.weight"].shape[1]
    return automaton, int(channels * (taps - 1) + inner * int(context.sizes["d_state"]))


def work_of_steps(claim: IterationClaim, context: Context, steps: int) -> Work:
    """Bound the work of checking so many steps of sets, and each step of the orbits of the bundles."""
    _, state = check_answers_of(context)
    weights, size = context.weight_count, int(context.sizes["d_model"])
    columns = size + state
    along = 4 * (weights + state) * columns
    orbits = len(claim.bundles.tokens) * min(claim.iterations, MOST_ITERATIONS)  # more are refused
    operations = (along + 20 * columns**3) * float(steps) + (along + 40 * size**3) * float(orbits)
    return Work(operations, 8.0 * (weights + state) * columns, context.bits)


@dataclass(frozen=True, eq=False)
class _Bundle:
    """A bundle as balls; `stretch` bounds ‖L‖₂ and `shrink` ‖L⁻¹‖₂."""

    token: int
    centre: State
    box: State
    widths: list[list[arb]]
    latent: Vector
    radius: arb
    metric: arb_mat
    inverse: arb_mat
    stretch: arb
    shrink: arb


class OrbitChecker:
    """Follows bundles of orbits."""

    def __init__(self, claims: IterationClaim, model: ArbModel, program: ArbRounding | None = None) -> None:
        self.claims, self.model, self.program = claims, model, program
        count, bundles = len(claims.bundles.tokens), claims.bundles
        names = ("centres", "widths", "latents", "metrics")
        self._rows = {name: getattr(bundles, name).reshape(count, -1) for name in names}

    def check_bundle(self, index: int) -> None:
        """Check that the orbits of a bundle end as it is claimed."""
        bundle, claims = self._bundle(index), self.claims
        tau, tolerance = self.model.damping, arb(claims.tolerance)
        off, error = arb(claims.step_error), arb(claims.latent_error)
        rate, moved = self._over(bundle, bundle.latent, bundle.radius)
        away = self._apart(bundle, self._image(bundle, bundle.latent), bundle.latent)
        into = rate * bundle.radius + moved + away + bundle.stretch * off <= bundle.radius
        if not (rate < 1 and into):
            raise RefusedError(
                f"bundles.radii[{index}]", "the iteration is not proved to contract to one fixed point in it"
            )
        self._check_rounding(index, bundle, bundle.latent, bundle.radius)
        residual = tau * tolerance * (norm_bound(bundle.latent) + bundle.shrink * bundle.radius) + off
        if not bundle.shrink * bundle.stretch * residual / (1 - rate) <= error:
            raise RefusedError(
                "latent_error", f"is less than the distance from a fixed point in bundle {index}"
            )
        left = claims.iterations - 1 - self._entered(index, bundle)
        if left < 0:
            raise RefusedError("iterations", f"are over before bundle {index} is in its region")
        near = bundle.shrink * (2 * bundle.radius * rate**left + bundle.stretch * off / (1 - rate))
        least = tau * tolerance * (_length(bundle.latent) - bundle.shrink * bundle.radius)
        if not (near <= error and (1 + rate) * near + off <= least):
            raise RefusedError("iterations", f"are not enough for the tolerance in bundle {index}")

    def check_member(
        self, line: str, index: int, token: int, region: Vector, latent: Vector, latent_radius: float
    ) -> None:
        """Check that states and the fixed points that they have belong to a bundle."""
        if index >= len(self.claims.bundles.tokens) or self.claims.bundles.tokens[index] != token:
            raise RefusedError(line, "is not a bundle of this token")
        rows = {name: exact_vector(numbers[index]) for name, numbers in self._rows.items()}
        for entry, middle, width in zip(region, rows["centres"], rows["widths"], strict=True):
            if not abs(entry - middle) <= width:
                raise RefusedError(line, "is a bundle that does not hold the states")
        box = minus([entry + arb(0, latent_radius) for entry in latent], rows["latents"])
        if not norm_bound(apply(self._metric(index), box)) <= float(self.claims.bundles.radii[index]):
            raise RefusedError(line, "is a bundle whose region does not hold the fixed points")

    def _entered(self, index: int, bundle: _Bundle) -> int:
        """Return the number of steps after which all orbits are in the region; none may stop before."""
        claims, tau = self.claims, self.model.damping
        off, tolerance = arb(claims.step_error), arb(claims.tolerance)
        centre, width = [arb(0)] * self.model.size, arb(0)
        for k in range(claims.iterations):
            if self._apart(bundle, centre, bundle.latent) + width <= bundle.radius:
                return k
            rate, moved = self._over(bundle, centre, width)
            self._check_rounding(index, bundle, centre, width)
            image = self._image(bundle, centre)
            following = [entry.mid() for entry in image]
            rounded = self._apart(bundle, image, following)
            after = (rate * width + moved + rounded + bundle.stretch * off).upper()
            left = _length(minus(following, centre)) - bundle.shrink * (width + after) - 2 * off
            if not left > tau * tolerance * (norm_bound(centre) + bundle.shrink * width):
                raise RefusedError(
                    f"bundles.latents[{index}]", "the iteration is not proved to get there before it may stop"
                )
            centre, width = following, after
        raise RefusedError("iterations", f"are over before bundle {index} is in its region")

    def _bundle(self, index: int) -> _Bundle:
        rows = {name: numbers[index] for name, numbers in self._rows.items()}
        radius = float(self.claims.bundles.radii[index])
        if not (radius > 0 and (rows["widths"] >= 0).all()):
            raise RefusedError(f"bundles.radii[{index}]", "is not positive, or a width is negative")
        metric = self._metric(index)
        try:
            inverse = metric.inv()
        except ZeroDivisionError:
            raise RefusedError(f"bundles.metrics[{index}]", "cannot be inverted") from None
        centre = exact_vector(rows["centres"])
        box = [middle + arb(0, width) for middle, width in zip(centre, rows["widths"].tolist(), strict=True)]
        return _Bundle(
            self.claims.bundles.tokens[index],
            self.model.state(centre),
            self.model.state(box),
            exact_matrix(np.diag(rows["widths"])).tolist(),
            exact_vector(rows["latents"]),
            arb(radius),
            metric,
            inverse,
            spectral_bound(metric),
            spectral_bound(inverse),
        )

    def _check_rounding(self, index: int, bundle: _Bundle, latent: Vector, radius: arb) -> None:
        """Check that the program's steps are off by no more than is claimed, wherever they are made."""
        if self.program is None:
            return
        off = self.program.bound(bundle.token, self._near(bundle, latent, radius), bundle.box).step
        if not off <= arb(self.claims.step_error):
            raise RefusedError("step_error", f"is less than the rounding of the program in bundle {index}")

    @staticmethod
    def _near(bundle: _Bundle, latent: Vector, radius: arb) -> Vector:
        reach = [(radius * norm_bound(row)).upper() for row in bundle.inverse.tolist()]
        return [entry + arb(0, far) for entry, far in zip(latent, reach, strict=True)]

    def _over(self, bundle: _Bundle, latent: Vector, radius: arb) -> tuple[arb, arb]:
        """‖L J L⁻¹‖₂ over the latents within a radius and the box of states, and ‖|L B| w‖₂."""
        size, tau = self.model.size, self.model.damping
        near = self._near(bundle, latent, radius)
        _, rates, _ = self.model.evaluate_along(bundle.token, near, bundle.box, bundle.widths)
        inner = identity(size) * (1 - tau) + arb_mat([row[:size] for row in rates]) * tau
        along = bundle.metric * arb_mat([row[size:] for row in rates]) * tau
        moved = norm_bound([sum((abs(entry) for entry in row), arb(0)) for row in along.tolist()])
        return spectral_bound(bundle.metric * inner * bundle.inverse), moved

    def _image(self, bundle: _Bundle, latent: Vector) -> Vector:
        """T at a latent and the middle of the box of states."""
        image, _, _ = self.model.evaluate(bundle.token, latent, bundle.centre, None)
        return [a + self.model.damping * (b - a) for a, b in zip(latent, image, strict=True)]

    def _apart(self, bundle: _Bundle, one: Vector, other: Vector) -> arb:
        return norm_bound(apply(bundle.metric, minus(one, other)))

    def _metric(self, index: int) -> arb_mat:
        return triangle(self._rows["metrics"][index], self.model.size)


def check_iteration(claim: IterationClaim, sizes: Mapping[str, Any], *, state: int, tokens: int) -> None:
    """Check what is claimed of the iteration, but for the bundles themselves."""
    for name in ("damping", "rtol", "max_iterations"):
        if name not in sizes:
            raise RefusedError(f"config.sizes.{name}", "is not there, so that the iteration is not known")
    if not 0 < claim.tolerance < 1:  # bounds of rounding take it for less than 1
        raise RefusedError("tolerance", "is not positive and below 1")
    for name in ("latent_error", "step_error"):
        if not getattr(claim, name) >= 0:
            raise RefusedError(name, "is negative")
    if not LEAST_ULPS <= claim.ulps <= MOST_ULPS:
        raise RefusedError("ulps", f"is not from {LEAST_ULPS} to {MOST_ULPS}")
    limit = int(sizes["max_iterations"])
    if claim.iterations > MOST_ITERATIONS:
        raise RefusedError("iterations", f"are more than {MOST_ITERATIONS}")
    if not claim.iterations <= limit:
        raise RefusedError("iterations", f"are more than the limit of the run, {limit}")
    bundles, latent = claim.bundles, int(sizes["d_model"])
    if not bundles.tokens or max(bundles.tokens) >= tokens:
        raise RefusedError("bundles.tokens", f"are none, or not all among {tokens} tokens")
    numbers = {"centres": state, "widths": state, "latents": latent, "radii": 1}
    for name, size in {**numbers, "metrics": latent * (latent + 1) // 2}.items():
        if getattr(bundles, name).size != len(bundles.tokens) * size:
            raise RefusedError(f"bundles.{name}", f"does not hold {size} numbers for each bundle")


def _length(vector: Vector) -> arb:
    """The Euclidean norm, from below too."""
    squares = (entry.abs_lower() ** 2 for entry in vector)
    return sum(squares, arb(0)).sqrt()


class AnswersChecker(ABC):
    """Proves bundles of orbits again, and single steps; `check_step` of a kind says what is claimed."""

    def __init__(
        self, claim: Any, weights: Weights, sizes: Mapping[str, Any], automaton: Automaton, bits: int
    ) -> None:
        self.claim, self.automaton, self.bits = claim, automaton, bits
        with precision(bits):
            self.model = ArbModel(weights, sizes)
            rounds = claim.dtype != "real"
            self.program = ArbRounding(weights, self.model, claim.ulps) if rounds else None
            self.orbits = OrbitChecker(claim, self.model, self.program)

    def check(self, kind: str, *job: int) -> None:
        """Check a bundle of orbits by its number, or a step."""
        with precision(self.bits):
            if kind == "bundle":
                self.orbits.check_bundle(*job)
            else:
                self.check_step(*job)

    @abstractmethod
    def check_step(self, *job: int) -> None:
        """Check what is claimed of a step, in the precision that is set."""

    def follow(
        self,
        line: Callable[[str], str],
        token: int,
        state: tuple[Array, arb_mat],
        fixed_point: tuple[Array, float, int],
        target: tuple[Array, arb_mat | None],
        answer: int,
    ) -> tuple[arb, list[arb]]:
        """Return how far the image reaches from c' in the metric W', and the least gaps to the other logits.

        ``line`` names a line of the certificate by its field. The set {c + U u} has ``state`` = (c, U);
        ``fixed_point`` is the latent near the fixed points, the radius of their box, and their bundle;
        ``target`` is c' and W', None for the identity; ``answer`` the label that the token leads to.
        """
        model, size = self.model, self.model.size
        strayed, off = arb(self.claim.latent_error), arb(self.claim.step_error)
        directions, (numbers, radius, bundle) = state[1].tolist(), fixed_point
        centre, latent = exact_vector(state[0]), exact_vector(numbers)
        region = [c + arb(0, norm_bound(row)) for c, row in zip(centre, directions, strict=True)]
        if not radius >= 0:
            raise RefusedError(line("latent_radii"), "is negative")
        box = [number + arb(0, radius) for number in latent]
        _, rates, following = model.evaluate_along(token, box, model.state(region), directions)
        slopes = arb_mat([row[:size] for row in rates])
        inverse, defect, kappa = contracting_newton_map(
            slopes, lambda reason: RefusedError(line("latent_radii"), reason)
        )
        image, _, _ = model.evaluate(token, latent, model.state(centre), None)
        step = apply(inverse, minus(image, latent))
        moved = inverse * arb_mat([row[size:] for row in rates])
        central = max_upper([abs(entry) for entry in step])
        farthest = central + max_upper([norm_bound(row) for row in moved.tolist()])
        if not farthest / (1 - kappa) + strayed <= radius:
            raise RefusedError(line("latents"), "no fixed points of the set are proved within its radius")
        self.orbits.check_member(line("bundle_of"), bundle, token, region, latent, radius)
        # (I − A)⁻¹ B = (I − E)⁻¹ P B with E the defect: its series, the rest column by column within a norm
        response = moved + defect * (moved + defect * moved)
        response += _around(moved, kappa**3 / (1 - kappa))
        # z*(c) lies within κ / (1 − κ) of a step
        share = kappa / (1 - kappa)
        near = [entry + arb(0, (share * central).upper()) for entry in plus(latent, step)]
        by_state = arb_mat([row[size:] for row in following])
        by_latent = arb_mat([row[:size] for row in following])
        _, _, found = model.evaluate(token, near, model.state(centre), None)
        landing = entries_of(model.following(found, model.state(centre)))
        away, metric, stretch = minus(landing, exact_vector(target[0])), target[1], arb(1)
        if metric is not None:
            away, by_state, by_latent = apply(metric, away), metric * by_state, metric * by_latent
            stretch = norm_bound([norm_bound(row) for row in metric.tolist()])
        along_set = spectral_bound(by_state + by_latent * response)
        reach = norm_bound(away) + along_set + spectral_bound(by_latent) * strayed + stretch * off
        wrong = arb(0)
        if self.program is not None:
            rounding = self.program.bound(token, box, model.state(region))
            if not rounding.state <= off:
                raise RefusedError(
                    "step_error", f"is less than the rounding of a next state: {line('targets')}"
                )
            wrong = rounding.logit
        return reach, [gap - 2 * wrong for gap in self._gaps(near, response, answer, strayed)]

    def _gaps(self, latent: Vector, response: arb_mat, answer: int, strayed: arb) -> list[arb]:
        """Bound from below by how much the logit of the answer exceeds each other one over a set."""
        logits = self.model.logits(latent)
        slopes, heads = (self.model.head * response).tolist(), self.model.head.tolist()
        gaps = []
        for other in range(len(logits)):
            if other != answer:
                along, own = (norm_bound(minus(rows[answer], rows[other])) for rows in (slopes, heads))
                gaps.append(logits[answer] - logits[other] - along - own * strayed)
        return gaps


def _around(matrix: arb_mat, share: arb) -> arb_mat:
    """Balls around zero: in every column a share of its largest entry."""
    columns = matrix.transpose().tolist()
    row = [arb(0, (share * max_upper([abs(entry) for entry in column])).upper()) for column in columns]
    return arb_mat([row] * matrix.nrows())


class WordLevel(Part):
    """The claims on all words of one length, a row per word: see ``words.md``."""

    latents: Numbers
    latent_radii: Numbers
    states: Numbers
    state_radii: Numbers
    margins: Numbers
    bundle_of: list[NonNegativeInt]


class Words(IterationClaim):
    """All words up to a length are answered right."""

    says: ClassVar[Mapping[str, str]] = statements("iteration", "words")

    kind: Literal["words"] = "words"
    levels: list[WordLevel]
    length: PositiveInt
    words: PositiveInt

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each word."""
        return work_of_steps(self, context, sum(len(level.bundle_of) for level in self.levels))

    def check(self, context: Context) -> None:
        """Verify the counts, the bundles of orbits, and every word."""
        automaton, state = check_answers_of(context)
        tokens = len(automaton.table[0])
        _check_sizes(self, tokens, state, int(context.sizes["d_model"]))
        check_iteration(self, context.sizes, state=state, tokens=tokens)
        jobs = [(n, row) for n in range(self.length) for row in range(tokens ** (n + 1))]
        self.check_steps(context, WordsChecker, automaton, jobs, "word")

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict, with the number of words."""
        return self.right(f"all {self.words} words of up to {self.length} tokens", config)


class WordsChecker(AnswersChecker):
    """Proves bundles of orbits and the last steps of single words again."""

    def check_step(self, index: int, row: int) -> None:  # type: ignore[override]
        """Check a word by the number of its level and its row there."""
        levels, tokens = self.claim.levels, len(self.automaton.table[0])
        level = levels[index]
        word = [row // tokens**power % tokens for power in range(index, -1, -1)]
        shown = " ".join(map(str, word))
        states = level.states.reshape(len(level.margins), -1)
        centre, radius = np.zeros(states.shape[1]), 0.0
        if index:
            before, parent = levels[index - 1], row // tokens
            centre = before.states.reshape(len(before.margins), -1)[parent]
            radius = float(before.state_radii[parent])

        def line(field: str) -> str:
            return f"levels[{index}].{field}[{row}]"

        reach, gaps = self.follow(
            line,
            word[-1],
            (centre, identity(len(centre)) * arb(radius)),
            (
                level.latents.reshape(len(level.margins), -1)[row],
                float(level.latent_radii[row]),
                level.bundle_of[row],
            ),
            (states[row], None),
            self.automaton.after(word),
        )
        if not reach <= float(level.state_radii[row]):
            raise RefusedError(line("state_radii"), f"is less than the distance of the state (word {shown})")
        margin = float(level.margins[row])
        if not margin > 0:
            raise RefusedError(line("margins"), f"is not positive (word {shown})")
        if not all(gap >= margin for gap in gaps):
            raise RefusedError(line("margins"), f"is larger than what is proved (word {shown})")


def _check_sizes(claim: Words, tokens: int, state: int, latent: int) -> None:
    numbers = {"latents": latent, "latent_radii": 1, "states": state, "state_radii": 1, "margins": 1}
    for number, level in enumerate(claim.levels):
        words = tokens ** (number + 1)
        for name, size in numbers.items():
            if getattr(level, name).size != words * size:
                raise RefusedError(
                    f"levels[{number}].{name}", f"does not hold {words * size} numbers for {words} words"
                )
        if len(level.bundle_of) != words:
            raise RefusedError(
                f"levels[{number}].bundle_of", f"does not hold a number for each of {words} words"
            )
    if claim.length != len(claim.levels):
        raise RefusedError("length", f"is not the number of levels, {len(claim.levels)}")
    if claim.words != sum(tokens ** (number + 1) for number in range(claim.length)):
        raise RefusedError("words", "is not the number of words of the levels")
    if claim.margin != min(level.margins.min() for level in claim.levels):
        raise RefusedError("margin", "is not the least one of the levels")
