"""Right answers, to all words up to a length or of every length: each step proved again, in FLINT's balls.

**Orbits.** Bundles are followed again from zero; the theorem is that of `theory.rigorous.covers.orbits`, with
its names. Nothing of an orbit is taken from the certificate but the box of states and the region in which it
is to end.

**Steps.** A set is {c + U u : ‖u‖₂ ≤ 1}. Derivatives are taken along the columns of U by
`ArbModel.evaluate_along`, so that the mean value theorem gives ‖W' (s' − c')‖₂ ≤ ‖W' (G(z*(c); c) − c')‖₂ +
‖W' J U‖₂, and the latent and the next state may be off as `latent_error` and `step_error` say;
`theory.rigorous.covers.invariant_cover` has the theorems.

**Words.** A word is a step from the ball of states that the tokens before its last one lead to; the first
ball is the zero state alone.

**Every length.** Each set of a cover leads into its targets; U = ρ W⁻¹, whose inverse is enclosed here.

**Explicit models.** By the mean value theorem ‖W' (s' − c')‖₂ ≤ ‖W' (G(c) − c')‖₂ + ‖W' J U‖₂ + ‖W'‖₂ η with
J enclosed over the set and η the error of a program's step, and the difference of two logits is at least that
at the centre, less ‖(v − v') J U‖₂ + ‖v − v'‖₂ η with v, v' rows of the head.

**Every start.** The simultaneous mode tends to the right answers from every start, by balls that hold all
images of Φ. That they are enough is the proposition of `implicit.enclosed.image_ball`; it is shown for every
state of a box, with distances of latents divided by the last norm's weights w. Nothing is shared with what
found the balls. With û = z (mean z² + ε)^{−½} and u what the block adds to its stream,

    û moves by at most r     an entry of the input projection moves by at most |its row| r, the row being
                             taken times the weights of the norm before the block,
    |∂û/∂z| ≤ 1 / λ,  |∂ŝ/∂s| ≤ 1 / N     λ and N the least (mean z² + ε)^½ and (mean s² + ε)^½ on the set,

and ∂u/∂û is enclosed over these entries by derivatives that are worked out layer by layer.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.arb import (
    EPSILON,
    ArbElman,
    ArbModel,
    ArbRounding,
    Rows,
    State,
    Vector,
    apply,
    contracting_newton_map,
    entries_of,
    exact_matrix,
    exact_vector,
    identity,
    max_upper,
    minus,
    norm_bound,
    plus,
    precision,
    scaled_to_unit,
    spectral_bound,
    triangle,
)
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
    at_least,
    check_answers,
    check_each,
    check_weights,
    statements,
)

Array = NDArray[np.float64]
MODELS = ("implicit-mamba2",)  # models whose orbits and steps can be followed in balls
ANSWER_RTOL = 1e-10
"""The default tolerance of `implicit.answer`; written out, for the checker imports no model."""
MOST_ITERATIONS = 10**5  # iterations that are followed in balls; the stored certificates have at most 173
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
        sizes = config["sizes"]
        conditions = conditions_of(
            sizes["damping"], sizes["rtol"], self.tolerance, self.iterations, self.dtype, self.ulps
        )
        margin = f"margin: at least {at_least(self.margin)}"
        return Verdict(f"the answers to {words} are right", (*conditions, margin))


def conditions_of(
    damping: float, rtol: float, tolerance: float, iterations: int, dtype: DType, ulps: int
) -> tuple[str, ...]:
    """Return the conditions of a verdict: iteration, arithmetic, assumptions, and what is not covered.

    Numbers are not rounded. The command has an rtol of its own, which may have to be another.

    Example:
        >>> print("; ".join(conditions_of(0.8, 1e-4, 1e-11, 90, "float64", 4)))
        iteration: sequential, from zero (damping 0.8, rtol <= 1e-11, a limit of at least 90 iterations a
        token); arithmetic: exact, and as float64 computes it on a CPU (python -m implicit.answer --rtol
        1e-11); the weights are taken as the exact numbers that they are; assumed of float64: + - * / round as
        in IEEE 754; sums and matrix products are made of these, in any order, fused or not; exp, softplus,
        silu and roots are within 4 ulp; not covered: float32, and the run's own rtol of 0.0001
        >>> conditions_of(0.8, 1e-8, 1e-7, 90, "real", 4)[1::2]
        ('arithmetic: exact', 'not covered: rounding')
    """
    executed, assumed, left = "", [], "rounding"
    if dtype != "real":
        command = "python -m implicit.answer" + ("" if tolerance >= ANSWER_RTOL else f" --rtol {tolerance!r}")
        executed, left = f", and as {dtype} computes it on a CPU ({command})", "float32"
        assumed = [
            f"assumed of {dtype}: + - * / round as in IEEE 754; sums and matrix products are made of these, "
            f"in any order, fused or not; exp, softplus, silu and roots are within {ulps} ulp"
        ]
    own = "" if rtol <= tolerance else f", and the run's own rtol of {rtol!r}"
    return (
        f"iteration: sequential, from zero (damping {damping!r}, rtol <= {tolerance!r}, a limit of at least "
        f"{iterations} iterations a token)",
        f"arithmetic: exact{executed}",
        WEIGHTS_CONDITION,
        *assumed,
        f"not covered: {left}{own}",
    )


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


class CoverClaim(Claim):
    """The sets of a cover, a row each, and the sets that tokens lead to: see ``lengths.md``."""

    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    margin: Number


class Lengths(CoverClaim, IterationClaim):
    """Words of every length are answered right: a cover, and all that is claimed of its steps."""

    says: ClassVar[Mapping[str, str]] = statements("iteration", "lengths")

    kind: Literal["lengths"] = "lengths"
    latents: Numbers
    latent_radii: Numbers
    bundle_of: list[list[NonNegativeInt]]

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each set and token."""
        return work_of_steps(self, context, sum(map(len, self.bundle_of)))

    def check(self, context: Context) -> None:
        """Verify the bundles of orbits, every step of every set, and the answers."""
        automaton = self.check_sizes(context)
        sets = [(number,) for number in range(len(self.labels))]
        self.check_steps(context, CoverChecker, automaton, sets, "set")

    def check_sizes(self, context: Context) -> Automaton:
        """Verify that arrays hold what they should; return the automaton."""
        automaton, state = check_answers_of(context)
        tokens, latent = len(automaton.table[0]), int(context.sizes["d_model"])
        numbers = {"latents": tokens * latent, "latent_radii": tokens}
        check_sets(self, automaton, state, ("targets", "bundle_of"), numbers)
        check_iteration(self, context.sizes, state=state, tokens=tokens)
        return automaton

    def verdict(self, config: Mapping[str, Any]) -> Verdict:
        """Return the verdict, with the number of sets."""
        found = self.right("all words of every length", config)
        return Verdict(found.claim, (f"shown by: {len(self.labels)} sets of states", *found.conditions))


class Sets:
    """The sets of a cover {c + U u : ‖u‖₂ ≤ 1} with U = ρ W⁻¹, in the precision that is set."""

    def __init__(self, claim: CoverClaim, automaton: Automaton) -> None:
        self.claim, self.automaton = claim, automaton
        self.centres = claim.centres.reshape(len(claim.labels), -1)
        self._triangles = claim.metrics.reshape(len(claim.labels), -1)

    def metric(self, index: int) -> arb_mat:
        """Return W of a set."""
        return triangle(self._triangles[index], self.centres.shape[1])

    def axes(self, index: int) -> arb_mat:
        """Return U of a set; the first one has to hold the zero state."""
        radius = float(self.claim.radii[index])
        if not radius > 0:
            raise RefusedError(f"radii[{index}]", "is not positive")
        metric = self.metric(index)
        try:
            axes = metric.inv() * arb(radius)
        except ZeroDivisionError:
            raise RefusedError(f"metrics[{index}]", "cannot be inverted") from None
        if index == 0 and not norm_bound(apply(metric, exact_vector(-self.centres[0]))) <= radius:
            raise RefusedError("centres[0]", "is not near the zero state")
        return axes

    def box(self, index: int) -> Vector:
        """Return a box that holds a set."""
        reach = [norm_bound(row) for row in self.axes(index).tolist()]
        centre = exact_vector(self.centres[index])
        return [entry + arb(0, far) for entry, far in zip(centre, reach, strict=True)]

    def target(self, index: int, token: int) -> tuple[int, int]:
        """Return the set that a token leads to, and its label, which is the automaton's."""
        target = self.claim.targets[index][token]
        label = self.automaton.table[self.claim.labels[index]][token]
        if target >= len(self.claim.labels) or self.claim.labels[target] != label:
            raise RefusedError(
                f"targets[{index}][{token}]", "is not a set of the state that the automaton is in"
            )
        return target, label


class CoverChecker(AnswersChecker):
    """Proves bundles of orbits and the steps of single sets again."""

    def check_step(self, index: int) -> None:  # type: ignore[override]
        """Check the step of every token from a set."""
        claim, sets = self.claim, Sets(self.claim, self.automaton)
        tokens = len(self.automaton.table[0])
        latents = claim.latents.reshape(len(claim.labels), tokens, -1)
        axes = sets.axes(index)
        for token in range(tokens):
            place, (target, label) = f"[{index}][{token}]", sets.target(index, token)
            radius = float(claim.latent_radii.reshape(-1, tokens)[index, token])
            reach, gaps = self.follow(
                lambda field, place=place: field + place,  # type: ignore[misc]
                token,
                (sets.centres[index], axes),
                (latents[index, token], radius, claim.bundle_of[index][token]),
                (sets.centres[target], sets.metric(target)),
                label,
            )
            if not reach <= float(claim.radii[target]):
                raise RefusedError(f"targets{place}", "the set is not proved to be mapped into it")
            if not all(gap >= claim.margin for gap in gaps):
                raise RefusedError("margin", f"is larger than what is proved of token {token} in set {index}")


def check_sets(
    claim: CoverClaim, automaton: Automaton, state: int, rows: Collection[str], numbers: Mapping[str, int]
) -> None:
    """Verify that the arrays of a cover fit its sets, which begin with the initial state, and the margin.

    A state has so many numbers. Each of ``rows`` has a number for every set and token, each of ``numbers`` so
    many for every set.
    """
    numbers = {"centres": state, "metrics": state * (state + 1) // 2, "radii": 1, **numbers}
    sets, (labels, tokens) = len(claim.labels), np.shape(automaton.table)
    if not sets or claim.labels[0] != automaton.initial_state:
        raise RefusedError("labels", "do not begin with the initial state of the automaton")
    if max(claim.labels) >= labels:
        raise RefusedError("labels", "are not states of the automaton")
    for name in rows:
        lists = getattr(claim, name)
        if len(lists) != sets or any(len(row) != tokens for row in lists):
            raise RefusedError(name, f"do not hold {tokens} numbers for each of {sets} sets")
    for name, size in numbers.items():
        if getattr(claim, name).size != sets * size:
            raise RefusedError(name, f"does not hold {size} numbers for each of {sets} sets")
    if not claim.margin > 0:
        raise RefusedError("margin", "is not positive")


ELMAN_WEIGHTS = {f"rnn.{kind}_l0" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
ELMAN_WEIGHTS |= {"embedding.weight", "head.weight", "head.bias"}
"""The names of all weights of a network of one layer."""


class ExplicitLengths(CoverClaim):
    """A cover of the states of an explicit model, and all that is claimed of its steps."""

    models: ClassVar[tuple[str, ...]] = ("elman",)
    says: ClassVar[Mapping[str, str]] = {**statements("explicit_lengths"), "sets": Lengths.says["sets"]}

    kind: Literal["explicit_lengths"] = "explicit_lengths"
    step_error: Number

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each set and token."""
        size = int(context.sizes.get("d_model", 0))
        one = float(30 * size**3 + context.weight_count)
        return Work(one * sum(map(len, self.targets)), 10.0 * size**2, context.bits)

    def check(self, context: Context) -> None:
        """Verify that the first set holds the zero state, every step of every set, and the answers."""
        automaton, weights = check_answers(context, self.models), context.weights
        if set(weights) != ELMAN_WEIGHTS:
            raise RefusedError("config.sizes", "are not those of an Elman network of one layer")
        size = weights["rnn.weight_hh_l0"].shape[0]
        check_sets(self, automaton, size, ("targets",), {})
        if not self.step_error >= 0:
            raise RefusedError("step_error", "is negative")
        sets = [(number,) for number in range(len(self.labels))]
        check_each(context, SetChecker, (self, dict(weights), automaton, context.bits), sets, unit="set")

    def verdict(self, config: Mapping[str, Any]) -> Verdict:  # noqa: ARG002
        """Return the verdict, with the number of sets and what is not covered."""
        conditions = (
            f"shown by: {len(self.labels)} sets of states",
            f"arithmetic: exact, and any in which every next state is off by at most {self.step_error!r}",
            WEIGHTS_CONDITION,
            "not covered: that a program is off by no more",
            f"margin: at least {at_least(self.margin)}",
        )
        return Verdict("the answers to all words of every length are right", conditions)


class SetChecker:
    """Proves the steps of single sets again."""

    def __init__(self, claim: ExplicitLengths, weights: Weights, automaton: Automaton, bits: int) -> None:
        self.claim, self.automaton, self.bits = claim, automaton, bits
        self.sets = Sets(claim, automaton)
        with precision(bits):
            self.model = ArbElman(weights)

    def check(self, index: int) -> None:
        """Check the step of every token from a set."""
        with precision(self.bits):
            axes = self.sets.axes(index)
            for token in range(len(self.automaton.table[0])):
                self._check_step(index, token, axes)

    def _check_step(self, index: int, token: int, axes: arb_mat) -> None:
        claim, sets = self.claim, self.sets
        target, answer = sets.target(index, token)
        after, slopes = self.model.step(token, exact_vector(sets.centres[index]), axes)
        metric, off = sets.metric(target), arb(claim.step_error)
        away = apply(metric, minus(after, exact_vector(sets.centres[target])))
        reach = norm_bound(away) + spectral_bound(metric * slopes)
        if not reach + spectral_bound(metric) * off <= float(claim.radii[target]):
            raise RefusedError(f"targets[{index}][{token}]", "the set is not proved to be mapped into it")
        logits, rows = self.model.logits(after), self.model.head.tolist()
        along = (self.model.head * slopes).tolist()
        for other in range(len(logits)):
            if other != answer:
                far, own = (norm_bound(minus(each[answer], each[other])) for each in (along, rows))
                if not logits[answer] - logits[other] - far - own * off >= claim.margin:
                    raise RefusedError(
                        "margin", f"is larger than what is proved of token {token} in set {index}"
                    )


class ArbImageBall:
    """A ball of latents around c, at a token and a box of states."""

    def __init__(self, model: ArbModel, token: int, state: State, centre: Vector, radius: arb) -> None:
        (self.layer,) = model.layers
        self.model, self.size = model, model.size
        self.injection = model.injection(token)
        self.window, self.h = state["conv.0"], state["ssm.0"]
        self.centre, self.radius = centre, radius
        self.target = [c / w for c, w in zip(centre, model.last_norm, strict=True)]
        self.scale = max_upper([abs(weight) for weight in model.last_norm])
        self.kept = self.scale if model.residual else arb(0)
        self.rows = [
            norm_bound([m * w for m, w in zip(row, self.layer.norm_before, strict=True)])
            for row in self.layer.in_proj.tolist()
        ]

    def holds_images(self) -> bool:
        """Return whether |Φ(z) − c| ≤ ρ is shown of all latents z that the last norm can give."""
        root, zero = arb(self.size).sqrt(), [arb(0)] * self.size
        added, slope = self._added(zero), self._slope(zero, root)
        moved = root * (self.kept + slope)
        away = minus(scaled_to_unit(added, [arb(1)] * self.size), self.target)
        return bool(norm_bound(away) + moved / self._least_root(added, moved) <= self.radius)

    def contracts(self) -> bool:
        """Return whether the norm of the derivative is shown to be below 1 on the ball."""
        far = self.scale * self.radius
        at_centre = (sum((z * z for z in self.centre), arb(0)) / self.size + EPSILON).sqrt()
        least = (at_centre - far / arb(self.size).sqrt()).lower()
        if not least > 0:
            return False
        turn = far / least
        read = scaled_to_unit(self.centre, [arb(1)] * self.size)
        added, slope = self._added(read), self._slope(read, turn)
        stream = plus(self.centre, added) if self.model.residual else added
        moved = self.kept * self.radius + slope * turn
        return bool((self.kept + slope * self.scale / least) / self._least_root(stream, moved) < 1)

    def _added(self, read: Vector) -> Vector:
        """The sum that the block adds to its stream at û = read."""
        inputs = [w * entry for w, entry in zip(self.layer.norm_before, read, strict=True)]
        found = self.layer.read(inputs, [[]] * self.size, self.injection, self.window)
        return self.layer.output(found, self.h, None)[0]

    def _slope(self, read: Vector, radius: arb) -> arb:
        """A bound of ‖∂u/∂û‖ where |û − read| ≤ radius."""
        before = self.layer.norm_before
        slopes: Rows = [[w if i == k else arb(0) for k in range(self.size)] for i, w in enumerate(before)]
        entering = [
            entry + arb(0, (row * radius).upper())
            for entry, row in zip(self.injection, self.rows, strict=True)
        ]
        inputs = [w * entry for w, entry in zip(before, read, strict=True)]
        found = self.layer.read(inputs, slopes, entering, self.window)
        _, along = self.layer.output(found, self.h, None)
        return spectral_bound(arb_mat(along))

    def _least_root(self, stream: Vector, moved: arb) -> arb:
        """The least (mean s² + ε)^½ within a distance of a stream."""
        middle = sum((entry.mid() ** 2 for entry in stream), arb(0)).sqrt()
        left = (middle - norm_bound([entry - entry.mid() for entry in stream]) - moved).lower()
        return ((left * left if left > 0 else arb(0)) / self.size + EPSILON).sqrt().lower()


class Starts(Claim):
    """The simultaneous mode tends to the same answers from every start: radii of balls around latents.

    The latents are those of the certificate's claim of every length, which it has to hold.
    """

    models: ClassVar[tuple[str, ...]] = MODELS
    says: ClassVar[Mapping[str, str]] = statements("starts")

    kind: Literal["starts"] = "starts"
    image_radii: Numbers

    def work(self, context: Context) -> Work:
        """Bound the work: two evaluations for each set and token."""
        lengths = self._lengths(context)
        return work_of_steps(lengths, context, 2 * sum(map(len, lengths.bundle_of)))

    def check(self, context: Context) -> None:
        """Verify the balls; the claim of every length verifies the sets that they are about."""
        lengths = self._lengths(context)
        automaton, _ = check_answers_of(context)
        sets, tokens = len(lengths.labels), len(automaton.table[0])
        if self.image_radii.size != sets * tokens:
            raise RefusedError("image_radii", f"does not hold {sets * tokens} numbers, one per set and token")
        lengths.check_sizes(context)
        arguments = (self, lengths, dict(context.weights), context.sizes, automaton, context.bits)
        places = [(index, token) for index in range(sets) for token in range(tokens)]
        check_each(context, ImageBallChecker, arguments, places, unit="step")

    def verdict(self, config: Mapping[str, Any]) -> Verdict:  # noqa: ARG002
        """Return the verdict on the simultaneous mode."""
        conditions = (
            "simultaneous mode: in exact arithmetic and without end; its rounding, tolerance and limit of "
            "iterations are not covered",
            "starts: those whose latents z have sum (z_i / w_i)^2 <= d, w the weights of the last norm and d "
            "their number, zero among them",
        )
        return Verdict("the simultaneous mode tends to the same answers, from every start", conditions)

    @staticmethod
    def _lengths(context: Context) -> Lengths:
        for claim in context.claims:
            if isinstance(claim, Lengths):
                return claim
        raise RefusedError(
            "image_radii", "are around latents of a claim of every length, of which there is none"
        )


class ImageBallChecker:
    """Shows of single sets that Φ maps all latents into a ball in which it contracts."""

    def __init__(
        self,
        claim: Starts,
        lengths: Lengths,
        weights: Weights,
        sizes: Mapping[str, Any],
        automaton: Automaton,
        bits: int,
    ) -> None:
        self.bits = bits
        self.sets = Sets(lengths, automaton)
        self.radii = claim.image_radii.reshape(len(lengths.labels), -1)
        self.latents = lengths.latents.reshape(*self.radii.shape, -1)
        with precision(bits):
            self.model = ArbModel(weights, sizes)

    def check(self, index: int, token: int) -> None:
        """Check a set and a token."""
        with precision(self.bits):
            ball = ArbImageBall(
                self.model,
                token,
                self.model.state(self.sets.box(index)),
                exact_vector(self.latents[index, token]),
                arb(float(self.radii[index, token])),
            )
            line = f"image_radii[{index * self.radii.shape[1] + token}]"
            if not ball.holds_images():
                raise RefusedError(line, f"not all images of token {token} in set {index} are within it")
            if not ball.contracts():
                raise RefusedError(line, f"no contraction on it is shown of token {token} in set {index}")
