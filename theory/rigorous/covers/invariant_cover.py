"""Sets of states that a closed loop cannot leave: statements about sequences of every length.

Let s' = G(z*(s, x); s, x) with z* = Φ(z*; s, x). A *cover* is a finite list of ellipsoids

    S_i = { s : ‖W_i (s − c_i)‖₂ ≤ ρ_i } ,

and for each ellipsoid i and token x a target j with an answer. If the initial state lies in S_0, and for
every i and x the step maps S_i into S_j and gives that answer on all of S_i, then by induction the answer
after a sequence of any length is that of the finite automaton of the targets. A tree of words is the special
case in which only the first N tokens have targets.

**One step.** Let V be a float matrix with ‖I − W_i V‖₂ ≤ ε < 1. On S_i then s − c_i = V u with
‖u‖₂ ≤ R = ρ_i / (1 − ε). Let Z be the box of radius r around a latent z̃, A and B enclose ∂zΦ and ∂sΦ over
Z × S_i, P ≈ (I − A)⁻¹, and

    κ ≥ ‖I − P (I − A)‖_∞ ,    e = ( ‖P (Φ(z̃; c_i) − z̃)‖_∞ + max_k ‖(P B V)_k‖₂ R ) / (1 − κ) .

If κ < 1 and e ≤ r, every s ∈ S_i has exactly one fixed point z*(s) in Z (as A1 of
`theory.rigorous.enclosure`), and it is differentiable. With E = I − P (I − A) and b a column of P B V, that
of ∂z*/∂s V is (I − E)⁻¹ b, within κᴺ / (1 − κ) ‖b‖_∞ of b + E b + … + Eᴺ⁻¹ b. (The sum is enclosed entry by
entry; with one norm for all of ∂z*/∂s gains grow several times as fast with the radius.) With J = ∂sG + ∂zG
∂z*/∂s enclosed over Z × S_i, the mean value theorem on the convex S_i gives

    ‖W_j (s' − c_j)‖₂ ≤ ‖W_j (G(z*(c_i); c_i) − c_j)‖₂ + ‖W_j J V‖₂ R ,

and the step maps S_i into S_j if this is at most ρ_j. The difference of two logits is bounded likewise.

**A step that is not quite exact.** An iteration stops near a fixed point. Let ẑ lie within δ of z*(s) and
s' within η of G(ẑ; s), in the Euclidean norm. If e + δ ≤ r the segment from z*(s) to ẑ lies in Z, and
‖W_j (s' − c_j)‖₂ grows by at most ‖W_j ∂zG‖₂ δ + ‖W_j‖₂ η. So a cover that leaves room for that holds of
every iteration that ends within δ: `theory.rigorous.covers.orbits` proves of one that it does. For a program
η has to bound the rounding of G over Z × S_i, and twice that of a logit is taken off the margin.

**Radii** are grown until they suffice: from what the offsets and gains of vanishing sets ask for, then where
the proof asks for more. Only the last bounds count, and they are proved.

Source: Rump 2010, Acta Numerica 19, section 13 (existence); the sets of ellipsoids and their targets are a
path-complete Lyapunov function: Ahmadi, Jungers, Parrilo & Roozbehani 2014, SIAM J. Control Optim. 52.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from automata.command_line import progress_bar
from automata.monoids.cayley import IntArray
from theory.rigorous.balls.ball import Array, Ball, approximate_inverse, round_up, row_sum_norm, spectral_norm
from theory.rigorous.balls.dual import Dual


@dataclass(frozen=True, eq=False)
class StepRounding:
    """Bounds of a program's error at T positions, wherever its latents and states are in their boxes."""

    step: Array  # the next iterate, and the damping times the residual, in the Euclidean norm, [T]
    state: Array  # the next state, in the Euclidean norm, [T]
    logits: Array  # each of them, [T]


class Program(Protocol):
    """A program that computes (Φ, G) in floating point; the package of the models supplies it."""

    def rounding(self, latent: Ball, state: Ball, tokens: Sequence[int] | IntArray) -> StepRounding:
        """Bound what it may be off, for latents ``[T, d]`` and states ``[T, n]`` in boxes."""


ATTEMPTS = 7
"""Times that the box of a latent is widened before it is given up."""
TERMS = 3
"""N, how many terms of the series of (I − E)⁻¹ are enclosed entry by entry."""


class EnclosedLoop(Protocol):
    """Φ, G and logits on balls, with latent and state as variables; the package of the models supplies it."""

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        """Return Φ, ``[T, d]``, and G, ``[T, n]``, at T positions."""

    def logits(self, latent: Dual) -> Dual:
        """Return the logits of latents, ``[T, d]`` → ``[T, classes]``: an affine map."""


@dataclass(frozen=True, eq=False)
class Cover:
    """Ellipsoids of states with their answers and targets."""

    centres: Array  # c, [sets, n]
    metrics: Array  # W, [sets, n, n]
    axes: Array  # V ≈ W⁻¹, [sets, n, n]
    radii: Array  # ρ, [sets]
    targets: IntArray  # the set that a set is mapped into by a token, [sets, tokens]
    answers: IntArray  # the answer to every token in a set, [sets, tokens]
    latents: Array  # z̃ of every set and token, [sets, tokens, d]

    @property
    def set_count(self) -> int:
        """The number of sets."""
        return len(self.centres)


@dataclass(frozen=True, eq=False)
class StepBounds:
    """Proved bounds of T steps, each from a set with a token. NaN or infinite: nothing."""

    # whether every state of the set has exactly one fixed point in the box of its latent
    exists: NDArray[np.bool_]
    latent_radius: Array  # the radius of that box
    offset: Array  # ‖W_j (G(z*(c_i); c_i) − c_j)‖₂
    gain: Array  # ‖W_j J V‖₂
    image: Array  # offset + gain · R: how far the image reaches, in the metric of the target
    margin: Array  # by how much the logit of the answer exceeds every other, at least

    @classmethod
    def joined(cls, parts: Sequence["StepBounds"]) -> "StepBounds":
        """Return the bounds of all steps, one part after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def maps_into(self, radii: Array) -> NDArray[np.bool_]:
        """Return which steps lead into targets of these radii, with the right answer."""
        return self.exists & (self.image <= radii) & (self.margin > 0)


@dataclass(frozen=True)
class StepErrors:
    """Allowed errors of a step, in the Euclidean norm."""

    latent: float = 0.0  # δ, the distance of its latent from the fixed point
    state: float = 0.0  # η, the distance of its next state from G at that latent
    # whose rounding has to be proved to be at most that; None if that of none has
    program: Program | None = None


EXACT = StepErrors()


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def enclose_steps(
    loop: EnclosedLoop,
    cover: Cover,
    sources: Sequence[int] | IntArray,
    tokens: Sequence[int] | IntArray,
    errors: StepErrors = EXACT,
) -> StepBounds:
    """Bound the images of sets of a cover under tokens, each ``[T]``."""
    i, x = np.asarray(sources, dtype=np.int64), np.asarray(tokens, dtype=np.int64)
    j, latent, centre = cover.targets[i, x], cover.latents[i, x], cover.centres[i]
    size = latent.shape[1]
    axes, metric = Ball.exact(cover.axes[i]), Ball.exact(cover.metrics[j])
    reach, box = reach_and_box(cover, i)

    # the fixed point at the centre, and a first guess of how far those of the set lie from it
    point = Dual.constant(Ball.exact(centre), size)
    slope = loop.advance(Dual.variable(Ball.exact(latent), size), point, x)[0].tangent
    inverse = Ball.exact(approximate_inverse(np.eye(size) - slope.midpoint))
    still = Dual.constant(Ball.exact(latent), 0), Dual.constant(Ball.exact(centre), 0)
    residual = row_sum_norm(inverse @ (loop.advance(*still, x)[0].value - Ball.exact(latent))[..., None])
    radius = 2 * residual + 1e-12 + 2 * errors.latent
    identity, columns = Ball.exact(np.eye(size)), size + centre.shape[1]
    states = Dual.variable(Ball.around(centre, box), columns, first=size)
    for attempt in range(ATTEMPTS):
        latents = Dual.variable(Ball.around(latent, radius[:, None]), columns)
        mapped, following = loop.advance(latents, states, x)
        defect = identity - inverse @ (identity - mapped.tangent[..., :size])
        kappa = row_sum_norm(defect)
        slack = (Ball.exact(1.0) - Ball.exact(kappa)).mignitude
        solved = (inverse @ mapped.tangent[..., size:]) @ axes
        moved = round_up(row_lengths(solved).max(axis=1) * reach)
        error = np.where(kappa < 1, round_up((residual + moved) / slack), np.inf)
        farthest = round_up(error + errors.latent)
        exists = (kappa < 1) & (farthest <= radius)
        if exists.all() or attempt == ATTEMPTS - 1:
            break  # what was found belongs to this radius
        wider = np.where(kappa < 1, 1.5 * farthest, 2 * radius)
        radius = np.where(exists, radius, wider)

    # ∂z*/∂s V column by column: ‖(I − E)⁻¹ b − b − … − Eᴺ⁻¹ b‖_∞ ≤ κᴺ / (1 − κ) ‖b‖_∞
    response, power = solved, solved
    for _ in range(TERMS - 1):
        power = defect @ power
        response = response + power
    spread = round_up((round_up(kappa**TERMS, TERMS) / slack)[:, None] * solved.magnitude.max(axis=1))
    response = response.widened(np.where(kappa[:, None] < 1, spread, np.inf)[:, None, :])
    by_latent = metric @ following.tangent[..., :size]
    gain = spectral_norm(metric @ (following.tangent[..., size:] @ axes) + by_latent @ response)
    central_error = np.where(kappa < 1, round_up(residual / slack), np.inf)
    near = Dual.constant(Ball.around(latent, central_error[:, None]), 0)
    landing = loop.advance(near, still[1], x)[1].value - Ball.exact(cover.centres[j])
    offset = row_lengths((metric @ landing[..., None])[..., 0])
    strayed = spectral_norm(by_latent) * errors.latent + spectral_norm(metric) * errors.state
    image = round_up(offset + gain * reach + strayed)
    margin = _margin(loop, near, cover.answers[i, x], response, reach, errors.latent)
    if errors.program is not None:
        boxes = Ball.around(latent, radius[:, None]), Ball.around(centre, box)
        rounding = errors.program.rounding(*boxes, x)
        exists &= rounding.state <= errors.state
        margin = margin - 2 * round_up(rounding.logits + 1e-15 * np.abs(margin))
    return StepBounds(exists, radius, offset, gain, np.where(exists, image, np.inf), margin)


@np.errstate(all="ignore")
def reach_and_box(cover: Cover, i: IntArray) -> tuple[Array, Array]:
    """Return R with s − c = V u, ‖u‖₂ ≤ R, on the sets i, and how far they reach along each entry of s.

    Shapes: ``[T]`` and ``[T, n]``.
    """
    axes = Ball.exact(cover.axes[i])
    skew = spectral_norm(Ball.exact(np.eye(cover.axes.shape[-1])) - Ball.exact(cover.metrics[i]) @ axes)
    slack = (Ball.exact(1.0) - Ball.exact(skew)).mignitude
    reach = np.where(skew < 1, round_up(cover.radii[i] / slack), np.inf)
    return reach, round_up(row_lengths(axes) * reach[:, None])


def _margin(
    loop: EnclosedLoop, latent: Dual, answers: IntArray, response: Ball, reach: Array, strayed: float
) -> Array:
    """The least difference between the logit of the answer and another one, over the set."""
    logits = loop.logits(latent).value
    size, classes = latent.value.shape[-1], logits.shape[-1]
    decoded = loop.logits(Dual.variable(latent.value, size)).tangent  # [T, classes, d]
    weights = decoded @ response  # [T, classes, n]
    rows = np.arange(len(answers))
    margins = []
    for other in range(classes):
        gap = logits[rows, answers] - logits[:, other]
        slope, own = (
            row_lengths((slopes[rows, answers] - slopes[:, other])[:, None])[:, 0]
            for slopes in (weights, decoded)
        )
        least = gap.lower - round_up(slope * reach + own * strayed)
        margins.append(np.where(answers == other, np.inf, least - 1e-12 * np.abs(least)))
    return np.min(margins, axis=0)


def row_lengths(matrices: Ball) -> Array:
    """Return upper bounds of the Euclidean norms of rows."""
    squares = round_up(np.square(matrices.magnitude).sum(axis=-1), matrices.shape[-1])
    return round_up(np.sqrt(squares))


LEAST_RADIUS = 1e-9
MARGIN = 1.05
"""The first radii allow gains that are larger by this factor; a radius that is too small grows by it."""
SLACK = 0.01
"""Share of a target's radius that images leave free, for a check in other arithmetic."""
STEPS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class ClosedCover:
    """A cover with what is proved of its steps."""

    cover: Cover  # with radii
    bounds: StepBounds  # of every set and token, [sets · tokens], the tokens of a set side by side
    closed: NDArray[np.bool_]  # which of these steps lead into their targets, with the right answer


def bound_all(
    loop: EnclosedLoop, cover: Cover, rows: IntArray | None = None, errors: StepErrors = EXACT
) -> StepBounds:
    """Return the bounds of the steps of a cover, those of a set side by side."""
    tokens = cover.targets.shape[1]
    rows = np.arange(cover.targets.size) if rows is None else rows
    parts = [
        enclose_steps(loop, cover, *np.divmod(rows[first : first + STEPS_AT_ONCE], tokens), errors)
        for first in progress_bar(range(0, len(rows), STEPS_AT_ONCE), desc="steps bounded")
    ]
    return StepBounds.joined(parts)


def close_cover(
    loop: EnclosedLoop, cover: Cover, attempts: int = 40, errors: StepErrors = EXACT
) -> ClosedCover:
    """Find radii with which a cover is closed, and prove that it is."""
    sets, tokens = cover.targets.shape
    sources, targets = np.repeat(np.arange(sets), tokens), cover.targets.ravel()
    radii = np.full(sets, LEAST_RADIUS)
    first = bound_all(loop, replace(cover, radii=radii), errors=errors)
    fixed = np.where(first.exists, first.image - first.gain * radii[sources], first.offset)
    # a step of which nothing is known asks for nothing: NaN would spread to all sets behind it
    known = np.isfinite(fixed) & np.isfinite(first.gain)
    fixed, gain = (np.where(known, values, 0.0) for values in (fixed, first.gain))
    for _ in range(1000):
        needed = radii.copy()
        np.maximum.at(needed, targets, fixed + MARGIN * gain * radii[sources])
        if not (needed > radii * (1 + 1e-6)).any():
            break
        radii = needed
    radii = MARGIN * radii
    bounds = bound_all(loop, replace(cover, radii=radii), errors=errors)
    for attempt in range(attempts + 1):
        closed = bounds.maps_into(radii[targets])
        needed = np.zeros(sets)
        np.maximum.at(needed, targets, np.where(np.isfinite(bounds.image), bounds.image, 0.0))
        grown = needed > (1 - SLACK) * radii
        if attempt == attempts or not grown.any():
            break
        radii = np.where(grown, MARGIN * needed, radii)
        rows = np.nonzero(np.repeat(grown, tokens))[0]
        again = bound_all(loop, replace(cover, radii=radii), rows, errors)
        for field in fields(StepBounds):
            getattr(bounds, field.name)[rows] = getattr(again, field.name)
    return ClosedCover(replace(cover, radii=radii), bounds, closed)
