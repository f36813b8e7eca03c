"""What claims of right answers say of the iteration that is run, and how it is checked: orbits, ends, steps.

**Orbits.** Bundles are followed again from zero; the theorem is that of `theory.rigorous.covers.orbits`, with
its names. Nothing of an orbit is taken from the certificate but the box of states and the region in which it
is to end.

**Steps.** A set is {c + U u : ‖u‖₂ ≤ 1}. Derivatives are taken along the columns of U by
`ArbModel.evaluate_along`, so that the mean value theorem gives ‖W' (s' − c')‖₂ ≤ ‖W' (G(z*(c); c) − c')‖₂ +
‖W' J U‖₂, and the latent and the next state may be off as `latent_error` and `step_error` say;
`theory.rigorous.covers.invariant_cover` has the theorems.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.arb.balls import (
    Vector,
    apply,
    contracting_newton_map,
    exact_matrix,
    exact_vector,
    identity,
    max_upper,
    norm_bound,
    precision,
    spectral_bound,
    triangle,
)
from analysis.certificates.arb.mamba2 import ArbModel, State, entries_of
from analysis.certificates.arb.rounding import ArbRounding
from analysis.certificates.certificate import (
    LEAST_ULPS,
    MOST_ULPS,
    Automaton,
    Claim,
    Number,
    Numbers,
    Part,
    RefusedError,
    Work,
    at_least,
)
from analysis.certificates.checking import Context, Weights, check_answers, check_each, check_weights

Array = NDArray[np.float64]


ANSWER_RTOL = 1e-10
"""What `implicit.answer` takes if no tolerance is given; written out, for the checker imports no model."""

ITERATION_STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state, window and h, is zero before the first token. Where "
        "dtype is float64, all is claimed of program too; where it is real, nothing is claimed of rounding."
    ),
    "iteration": (
        "What is run is the sequential mode: at every token z = 0 is the first latent, and z + damping "
        "(Phi(z) - z) follows z, with the damping of the configuration, until |Phi(z) - z| <= rtol |z| "
        "(Euclidean norms, no absolute tolerance) or a limit of evaluations of Phi is reached. What is "
        "claimed holds for every rtol from 0 to tolerance and every limit of at least iterations, which is "
        "at most max_iterations of the configuration; with rtol = tolerance every token stops by it. Of a "
        "larger rtol, such as that of the configuration may be, nothing is claimed."
    ),
    "bundles": (
        "For every state within widths of centres (entry by entry) and token tokens of bundle b, the damped "
        "self-map sends the latents z with |L (z - latents)| <= radii (Euclidean norm, L the upper "
        "triangular matrix of its row of metrics, row by row) into themselves and contracts there, so that "
        "it has exactly one fixed point among them. The iteration from zero does not stop before it is among "
        "them, tends to the fixed point, and stops within latent_error of it (Euclidean norm)."
    ),
    "step_error": (
        "The same holds of a program whose damped steps and next states are off by at most step_error each, "
        "and whose residuals by step_error / damping (Euclidean norms), as long as its latents and states "
        "are where bundles and sets say."
    ),
    "program": (
        "The program is the sequential mode of the model with its weights as float64 numbers, computed by "
        "the operations of PyTorch on a CPU in float64, without gradient or padding, as python -m "
        "implicit.answer runs it with an --rtol of at most tolerance. Assumed of these operations, with "
        "u = 2^-53: + - * / return the exact result times 1 + d, |d| <= u; sums and products of matrices of "
        "n terms are within n u / (1 - n u) of the sum of the absolute values of the terms, in any order; "
        "exp, softplus up to 20, silu, sqrt and 1 / sqrt are within 2 u ulps of the exact result, relative "
        "to it; above 20 softplus is its argument; results below 2^-100 may be that much off. Under these "
        "assumptions it is off by at most step_error wherever it comes, and margin is one of the logits that "
        "it computes."
    ),
}

OF_THESE_WEIGHTS = "of the model with its weights the exact numbers that they are"
DType = Literal["float64", "real"]
"""The format whose rounding is covered; that of real numbers has none."""


class OrbitBundles(Part):
    """Bundles of orbits, a row each: see `ITERATION_STATEMENTS`."""

    tokens: list[NonNegativeInt]
    centres: Numbers
    widths: Numbers
    latents: Numbers
    metrics: Numbers
    radii: Numbers


class IterationClaim(Claim):
    """A claim that the answers of the iteration that is run are those of an automaton."""

    bundles: OrbitBundles
    tolerance: Number
    iterations: PositiveInt
    latent_error: Number
    step_error: Number
    dtype: DType
    ulps: PositiveInt

    def check_steps(
        self,
        context: Context,
        checker: type["AnswersChecker"],
        automaton: Automaton,
        places: Sequence[tuple[int, ...]],
        unit: str,
    ) -> None:
        """Verify the bundles of orbits, and the steps at all places."""
        jobs = [("bundle", number) for number in range(len(self.bundles.tokens))]
        arguments = (self, dict(context.weights), context.sizes, automaton, context.bits)
        check_each(context, checker, arguments, [*jobs, *((unit, *place) for place in places)], unit=unit)

    def right(self, words: str, margin: float, config: Mapping[str, Any]) -> str:
        """Return that the answers to words are right, with what that is said of, and what it is not."""
        sizes = config["sizes"]
        scope = scope_of(sizes["damping"], self.tolerance, self.iterations, self.dtype)
        caveat = caveat_of(sizes["rtol"], self.tolerance, self.dtype, self.ulps)
        margin_of = f"with a margin of at least {at_least(margin)}, {OF_THESE_WEIGHTS}"
        return f"the answers to {words}, {scope}, {margin_of}; {caveat}"


def scope_of(damping: float, tolerance: float, iterations: int, dtype: DType) -> str:
    """Return of what a statement is proved, in words; its numbers are not rounded.

    Example:
        >>> print(scope_of(0.8, 1e-7, 90, "float64"))
        in exact arithmetic and as float64 computes it on a CPU (python -m implicit.answer), by the sequential
        iteration from zero (damping 0.8, rtol <= 1e-07, a limit of at least 90 iterations a token)

        The command has an rtol of its own, which may have to be another.

        >>> print(scope_of(0.8, 1e-11, 90, "float64"))
        in exact arithmetic and as float64 computes it on a CPU (python -m implicit.answer --rtol 1e-11), by
        the sequential iteration from zero (damping 0.8, rtol <= 1e-11, a limit of at least 90 iterations ...
    """
    command = "python -m implicit.answer" + ("" if tolerance >= ANSWER_RTOL else f" --rtol {tolerance!r}")
    executed = "" if dtype == "real" else f" and as {dtype} computes it on a CPU ({command})"
    return (
        f"in exact arithmetic{executed}, by the sequential iteration from zero (damping {damping!r}, rtol <= "
        f"{tolerance!r}, a limit of at least {iterations} iterations a token)"
    )


def caveat_of(rtol: float, tolerance: float, dtype: DType, ulps: int) -> str:
    """Return what is assumed and what is not covered, for a run with a relative tolerance of its own.

    Example:
        >>> caveat_of(1e-8, 1e-7, "real", 4), caveat_of(1e-4, 1e-7, "real", 4)
        ('rounding is not covered', "rounding, and the run's own rtol of 0.0001, are not covered")
        >>> print(caveat_of(1e-4, 1e-7, "float64", 4))
        of float64 it is assumed that + - * / round as in IEEE 754, that sums and matrix products are made of
        these, in any order, fused or not, and that exp, softplus, silu and roots are within 4 ulp; float32,
        and the run's own rtol of 0.0001, are not covered
    """
    left, assumed = "rounding", ""
    if dtype != "real":
        assumed = (
            f"of {dtype} it is assumed that + - * / round as in IEEE 754, that sums and matrix products are "
            "made of these, in any order, fused or not, and that exp, softplus, silu and roots are within "
            f"{ulps} ulp; "
        )
        left = "float32"
    if rtol <= tolerance:
        return f"{assumed}{left} is not covered"
    return f"{assumed}{left}, and the run's own rtol of {rtol!r}, are not covered"


def upper_triangle(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangles of square matrices, row by row.

    Example:
        >>> upper_triangle(np.array([[[1.0, 2.0], [0.0, 3.0]]])).tolist()
        [[1.0, 2.0, 3.0]]
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles: NDArray[np.float64] = matrices[:, rows, columns]
    return triangles


MOST_ITERATIONS = 10**5
"""That are followed in balls; the stored certificates have at most 173."""


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

    def __init__(
        self, claims: IterationClaim, model: ArbModel, bits: int, program: ArbRounding | None = None
    ) -> None:
        self.claims, self.model, self.bits, self.program = claims, model, bits, program
        count, bundles = len(claims.bundles.tokens), claims.bundles
        names = ("centres", "widths", "latents", "metrics")
        self._rows = {name: getattr(bundles, name).reshape(count, -1) for name in names}

    def check_bundle(self, index: int) -> None:
        """Check that the orbits of a bundle end as it is claimed."""
        with precision(self.bits):
            bundle, claims = self._bundle(index), self.claims
            tau, tolerance = self.model.damping, arb(claims.tolerance)
            off, error = arb(claims.step_error), arb(claims.latent_error)
            rate, moved = self._over(bundle, bundle.latent, bundle.radius)
            away = self._apart(bundle, self._image(bundle, bundle.latent), bundle.latent)
            if (
                not rate < 1
                or not rate * bundle.radius + moved + away + bundle.stretch * off <= bundle.radius
            ):
                raise RefusedError(
                    f"bundles.radii[{index}]",
                    "the iteration is not proved to contract to one fixed point in it",
                )
            self._check_rounding(index, bundle, bundle.latent, bundle.radius)
            length = norm_bound(bundle.latent)
            residual = tau * tolerance * (length + bundle.shrink * bundle.radius) + off
            if not bundle.shrink * bundle.stretch * residual / (1 - rate) <= error:
                raise RefusedError(
                    "latent_error", f"is less than the distance from a fixed point in bundle {index}"
                )
            entered = self._entered(index, bundle)
            left = claims.iterations - 1 - entered
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
        box = [
            entry + arb(0, latent_radius) - middle
            for entry, middle in zip(latent, rows["latents"], strict=True)
        ]
        if not norm_bound(apply(self._metric(index), box)) <= float(self.claims.bundles.radii[index]):
            raise RefusedError(line, "is a bundle whose region does not hold the fixed points")

    def _entered(self, index: int, bundle: _Bundle) -> int:
        """After how many steps all orbits are in the region, none of them stopped before."""
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
            step = [a - b for a, b in zip(following, centre, strict=True)]
            left = _length(step) - bundle.shrink * (width + after) - 2 * off
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
        """The latents within a radius."""
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
        return norm_bound(apply(bundle.metric, [a - b for a, b in zip(one, other, strict=True)]))

    def _metric(self, index: int) -> arb_mat:
        return triangle(self._rows["metrics"][index], self.model.size)


def check_iteration(
    certificate: IterationClaim, sizes: Mapping[str, Any], *, state: int, tokens: int
) -> None:
    """Check what a certificate says of the iteration, but for the bundles themselves."""
    for name in ("damping", "rtol", "max_iterations"):
        if name not in sizes:
            raise RefusedError(f"config.sizes.{name}", "is not there, so that the iteration is not known")
    if not 0 < certificate.tolerance < 1:  # bounds of rounding take it for less than 1
        raise RefusedError("tolerance", "is not positive and below 1")
    for name in ("latent_error", "step_error"):
        if not getattr(certificate, name) >= 0:
            raise RefusedError(name, "is negative")
    if not LEAST_ULPS <= certificate.ulps <= MOST_ULPS:
        raise RefusedError("ulps", f"is not from {LEAST_ULPS} to {MOST_ULPS}")
    limit = int(sizes["max_iterations"])
    if certificate.iterations > MOST_ITERATIONS:
        raise RefusedError("iterations", f"are more than {MOST_ITERATIONS}")
    if not certificate.iterations <= limit:
        raise RefusedError("iterations", f"are more than the limit of the run, {limit}")
    bundles, latent = certificate.bundles, int(sizes["d_model"])
    if not bundles.tokens or max(bundles.tokens) >= tokens:
        raise RefusedError("bundles.tokens", f"are none, or not all among {tokens} tokens")
    numbers = {
        "centres": state,
        "widths": state,
        "latents": latent,
        "metrics": latent * (latent + 1) // 2,
        "radii": 1,
    }
    for name, size in numbers.items():
        if getattr(bundles, name).size != len(bundles.tokens) * size:
            raise RefusedError(f"bundles.{name}", f"does not hold {size} numbers for each bundle")


def _length(vector: Vector) -> arb:
    """The Euclidean norm, from below too."""
    squares = (entry.abs_lower() ** 2 for entry in vector)
    return sum(squares, arb(0)).sqrt()


@dataclass(frozen=True, eq=False)
class StepClaim:
    """What a certificate says of a set {c + U u} and a token: centre c, axes U, and c', W' of its target.

    ``target_metric`` is None for the identity, and ``answer`` is the label that the token leads to; ``line``
    makes the name of a line of the certificate from that of its field.
    """

    token: int
    centre: Array
    axes: arb_mat
    latent: Array
    latent_radius: float
    bundle: int
    target_centre: Array
    target_metric: arb_mat | None
    answer: int
    line: Callable[[str], str]


class StepChecker:
    """Proves steps of a certificate again, and its bundles of orbits."""

    def __init__(self, claims: IterationClaim, weights: Weights, sizes: Mapping[str, Any], bits: int) -> None:
        self.claims, self.model = claims, ArbModel(weights, sizes)
        executed = claims.dtype != "real"
        self.program = ArbRounding(weights, self.model, claims.ulps) if executed else None
        self.orbits = OrbitChecker(claims, self.model, bits, self.program)

    def check(self, claim: StepClaim) -> tuple[arb, list[arb]]:
        """Return how far the image reaches from c' in the metric, and the least gaps to the other logits."""
        model, size, token = self.model, self.model.size, claim.token
        strayed, off = arb(self.claims.latent_error), arb(self.claims.step_error)
        directions = claim.axes.tolist()
        centre, latent = exact_vector(claim.centre), exact_vector(claim.latent)
        region = [c + arb(0, norm_bound(row)) for c, row in zip(centre, directions, strict=True)]
        radius = claim.latent_radius
        if not radius >= 0:
            raise RefusedError(claim.line("latent_radii"), "is negative")
        box = [number + arb(0, radius) for number in latent]
        _, rates, following = model.evaluate_along(token, box, model.state(region), directions)
        newton = contracting_newton_map(
            arb_mat([row[:size] for row in rates]),
            lambda reason: RefusedError(claim.line("latent_radii"), reason),
        )
        inverse, kappa = newton.inverse, newton.kappa
        image, _, _ = model.evaluate(token, latent, model.state(centre), None)
        step = apply(inverse, [a - b for a, b in zip(image, latent, strict=True)])
        moved = inverse * arb_mat([row[size:] for row in rates])
        central = max_upper([abs(entry) for entry in step])
        farthest = central + max_upper([norm_bound(row) for row in moved.tolist()])
        if not farthest / (1 - kappa) + strayed <= radius:
            raise RefusedError(
                claim.line("latents"), "no fixed points of the set are proved within its radius"
            )
        self.orbits.check_member(claim.line("bundle_of"), claim.bundle, token, region, latent, radius)
        # (I − A)⁻¹ B = (I − E)⁻¹ P B with E the defect: its series, the rest column by column within a norm
        response = moved + newton.defect * (moved + newton.defect * moved)
        response += _around(moved, kappa**3 / (1 - kappa))
        # z*(c) lies within κ / (1 − κ) of a step
        share = kappa / (1 - kappa)
        near = [a + b + arb(0, (share * central).upper()) for a, b in zip(latent, step, strict=True)]
        by_state = arb_mat([row[size:] for row in following])
        by_latent = arb_mat([row[:size] for row in following])
        _, _, found = model.evaluate(token, near, model.state(centre), None)
        landing = entries_of(model.following(found, model.state(centre)))
        away = [a - b for a, b in zip(landing, exact_vector(claim.target_centre), strict=True)]
        metric, stretch = claim.target_metric, arb(1)
        if metric is not None:
            away, by_state, by_latent = apply(metric, away), metric * by_state, metric * by_latent
            stretch = norm_bound([norm_bound(row) for row in metric.tolist()])
        along_set = spectral_bound(by_state + by_latent * response)
        reach = norm_bound(away) + along_set + spectral_bound(by_latent) * strayed + stretch * off
        logits = model.logits(near)
        slopes, heads = (model.head * response).tolist(), model.head.tolist()
        wrong = self._decoding(claim, box, region)
        gaps = []
        for other in range(len(logits)):
            if other != claim.answer:
                along, own = (
                    norm_bound([a - b for a, b in zip(rows[claim.answer], rows[other], strict=True)])
                    for rows in (slopes, heads)
                )
                gaps.append(logits[claim.answer] - logits[other] - along - own * strayed - 2 * wrong)
        return reach, gaps

    def _decoding(self, claim: StepClaim, box: Vector, region: Vector) -> arb:
        """How far off the program's logits are; that of its next state is checked."""
        if self.program is None:
            return arb(0)
        off = self.program.bound(claim.token, box, self.model.state(region))
        if not off.state <= arb(self.claims.step_error):
            raise RefusedError(
                "step_error", f"is less than the rounding of a next state: {claim.line('targets')}"
            )
        return off.logit


class AnswersChecker:
    """Proves bundles of orbits again, and single steps; `check_step` of a kind says what is claimed."""

    def __init__(
        self, claim: Any, weights: Weights, sizes: Mapping[str, Any], automaton: Automaton, bits: int
    ) -> None:
        self.claim, self.automaton, self.bits = claim, automaton, bits
        with precision(bits):
            self.steps = StepChecker(claim, weights, sizes, bits)

    def check(self, kind: str, *place: int) -> None:
        """Check a bundle of orbits by its number, or the step at a place."""
        if kind == "bundle":
            self.steps.orbits.check_bundle(*place)
            return
        with precision(self.bits):
            self.check_step(*place)

    def check_step(self, *place: int) -> None:
        """Check what is claimed of a place, in the precision that is set."""
        raise NotImplementedError


def _around(matrix: arb_mat, share: arb) -> arb_mat:
    """Balls around zero: in every column a share of its largest entry."""
    columns = matrix.transpose().tolist()
    row = [arb(0, (share * max_upper([abs(entry) for entry in column])).upper()) for column in columns]
    return arb_mat([row] * matrix.nrows())


MODELS = ("implicit-mamba2",)
"""Of which orbits and steps can be followed in balls."""


def check_answers_of(context: Context) -> tuple[Automaton, int]:
    """Verify that right answers are claimed of a word problem and a model that is evaluated here.

    Returns:
        The automaton, and how many numbers a state of the model has.
    """
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
    weights = sum(part.size for part in context.weights.values())
    size = int(context.sizes["d_model"])
    columns = size + state
    along = 4 * (weights + state) * columns
    orbits = len(claim.bundles.tokens) * min(claim.iterations, MOST_ITERATIONS)  # more are refused
    operations = (along + 20 * columns**3) * float(steps) + (along + 40 * size**3) * float(orbits)
    return Work(operations, 8.0 * (weights + state) * columns, context.bits)
