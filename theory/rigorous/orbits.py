"""Where the damped iteration from z₀ = 0 goes, in rigorous arithmetic: the second half of C3.

At each position, with one state s, let T(z) = (1 − τ) z + τ Φ(z; s) and z_{n+1} = T(z_n) from z₀ = 0, in
exact arithmetic. An orbit y of the same iteration is computed in floating point; what is proved is how far
the exact one may be from it.

**A6.** Let z_n − y_n = d_n lie in {d : |W_n d|_i ≤ ρ_i}, with d_0 = 0, for a float matrix W_n with Q_n as an
approximate inverse, let M_n enclose ∂zT over a box that holds y_n + d_n for all of these, and let
δ_n ≥ |T(y_n) − y_{n+1}|. By the mean value theorem d_{n+1} = M d_n + (T(y_n) − y_{n+1}) with an M in M_n, so
that |W_{n+1} d_{n+1}| ≤ |W_{n+1} M_n Q_n| ρ_n + |W_{n+1}| δ_n, and a little more for I − Q_n W_n. The Q_n are
nearly orthogonal and turn with the products of the M_n, so that a step which stretches errors in one
direction and shrinks them in another is not charged with the former in all of them (Lohner 1987). If after K
steps ‖y_K − z̃‖_∞ + ‖d_K‖_∞ ≤ D, and g (D + e) ≤ r − e with g, e and r of A3
(`theory.rigorous.enclosure`), the exact orbit tends to z*, as ‖z_K − z*‖_∞ ≤ D + e.

Source: Lohner 1987, Enclosing the solutions of ordinary initial and boundary value problems, in Computer
Arithmetic (the frames).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls.ball import UNDERFLOW, Array, Ball, round_up, row_sum_norm
from theory.rigorous.balls.dual import Dual
from theory.rigorous.enclosure import EnclosedTransitions, damped_step

LONGEST_ORBIT = 512
"""Steps after which an orbit that has not arrived is given up."""
SLACK = 2.0**-12
"""The part of the distance within which an iteration converges that is left for rounding."""
STILL = 2.0**-50
"""The relative change a step below which an orbit in floating point has come to rest."""
NEAR = 0.5
"""The share of the distance asked for at which the floating-point orbit counts as arrived; the rest is for
the bound of its error."""


@dataclass(frozen=True, eq=False)
class Orbits:
    """Proved bounds of exact orbits of z₀ = 0, at T positions."""

    iterations: NDArray[np.int64]  # K; -1 where nothing is proved
    distance: Array  # D, an upper bound of ‖z_K − z̃‖_∞; infinite where nothing is proved

    @property
    def arrive(self) -> NDArray[np.bool_]:
        """Where the orbit is proved to come within the distance asked for."""
        return self.iterations >= 0


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def orbits_into_basin(
    transitions: EnclosedTransitions,
    state: Mapping[str, Ball],
    latent: Array,
    radius: Array,
    error: Array,
    growth: Array,
) -> Orbits:
    """Prove after how many damped steps from zero g (D + e) ≤ r − e, so that the orbit tends to z*.

    States are of radius zero. Where A3 is not proved, give a radius of 0.
    """
    within = (1 - SLACK) * ((radius - error) / growth - error)
    found = enclose_orbits(transitions, state, latent, np.nan_to_num(within, nan=-1.0, posinf=-1.0))
    proved = found.arrive & (round_up(growth * (found.distance + error) + error) <= radius)
    return Orbits(np.where(proved, found.iterations, -1), np.where(proved, found.distance, np.inf))


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def enclose_orbits(
    transitions: EnclosedTransitions, state: Mapping[str, Ball], latent: Array, within: Array
) -> Orbits:
    """Prove after how many damped steps from zero the exact orbit is within ``[T]`` distances of latents."""
    tau = Ball.exact(transitions.damping)
    keep = Ball.exact(1.0) - tau
    iterates, images = _approximate_orbits(transitions, state, latent, within)
    iterations = np.full(len(latent), -1, dtype=np.int64)
    distance = np.full(len(latent), np.inf)
    errors = _Errors.box(np.zeros_like(latent))
    for step, here in enumerate(iterates):
        away = (Ball.exact(here) - Ball.exact(latent)).widened(errors.entries).magnitude.max(1, initial=0.0)
        arrived = (iterations < 0) & (away <= within)
        iterations, distance = np.where(arrived, step, iterations), np.where(arrived, away, distance)
        if step == len(iterates) - 1 or (iterations >= 0).all():
            break
        defect = (keep * Ball.exact(here) + images[step] * tau - Ball.exact(iterates[step + 1])).magnitude
        if step == 0:  # z₀ is exact: its derivative is not needed, and need not exist
            errors = _Errors.box(defect)
            continue
        region = Dual.variable(Ball.around(here, errors.entries), latent.shape[1])
        slope = transitions.advance(region, state, {})[0].tangent
        errors = errors.after(damped_step(slope, transitions.damping), defect)
    return Orbits(iterations, distance)


@dataclass(frozen=True, eq=False)
class _Errors:
    """Sets of errors {d : |W d|_i ≤ ρ_i} at T positions."""

    frame: Array  # W, [T, d, d], nearly orthogonal; its transpose is Q
    bounds: Array  # ρ, [T, d]
    loss: Ball  # an enclosure of I − Q W
    entries: Array  # upper bounds of the |d_i|, [T, d]

    @classmethod
    def of(cls, frame: Array, bounds: Array) -> "_Errors":
        """|d| ≤ |Q| ρ + ‖I − Q W‖_∞ ‖d‖_∞, so that ‖d‖_∞ ≤ max |Q| ρ / (1 − ‖I − Q W‖_∞)."""
        turn = Ball.exact(frame)
        loss = Ball.exact(np.eye(frame.shape[-1])) - turn.transpose() @ turn
        straight, lost = _times(turn.transpose(), bounds), row_sum_norm(loss)
        slack = (Ball.exact(1.0) - Ball.exact(lost)).mignitude
        most = np.where(lost < 1, round_up(straight.max(1, initial=0.0) / slack), np.inf)
        return cls(frame, bounds, loss, round_up(straight + (lost * most)[:, None]))

    @classmethod
    def box(cls, bounds: Array) -> "_Errors":
        """The set of the errors with these bounds."""
        return cls.of(np.broadcast_to(np.eye(bounds.shape[1]), (*bounds.shape, bounds.shape[1])), bounds)

    def after(self, step: Ball, defect: Array) -> "_Errors":
        """The set after a step with this derivative, which adds a defect; d = Q (W d) + (I − Q W) d."""
        moved = step @ Ball.exact(self.frame).transpose()
        # the frame begins with the longest side of the image, which is to be bounded without waste
        lengths = np.linalg.norm(moved.midpoint, axis=1) * self.bounds
        order = np.argsort(-np.nan_to_num(lengths), axis=1)
        sides = np.take_along_axis(np.nan_to_num(moved.midpoint), order[:, None, :], axis=2)
        turn = Ball.exact(np.linalg.qr(sides)[0]).transpose()
        lost = _times(self.loss, self.entries)
        bounds = _times(turn @ moved, self.bounds) + _times(turn @ step, lost) + _times(turn, defect)
        return _Errors.of(turn.midpoint, round_up(bounds))


def _times(matrices: Ball, vectors: Array) -> Array:
    """Upper bounds of |M v| for all |v| up to these, ``[T, d]``."""
    products = (matrices.magnitude @ vectors[..., None])[..., 0]
    return round_up(products + UNDERFLOW, vectors.shape[1])


def _approximate_orbits(
    transitions: EnclosedTransitions, state: Mapping[str, Ball], latent: Array, within: Array
) -> tuple[list[Array], list[Ball]]:
    """The orbits in floating point, until the last that arrives at all has done so, and their images by Φ."""
    here = np.zeros_like(latent)
    iterates, images, arrivals = [here], [], np.full(len(latent), -1)
    under_way = within > 0
    for step in range(LONGEST_ORBIT + 1):
        near = np.abs(here - latent).max(1, initial=0.0) <= NEAR * within
        arrivals = np.where(under_way & near, step, arrivals)
        under_way &= ~near & np.isfinite(here).all(1)
        if not under_way.any() or step == LONGEST_ORBIT:
            break
        image = transitions.advance(Dual.constant(Ball.exact(here), 0), state, {})[0].value
        change = transitions.damping * (image.midpoint - here)
        under_way &= np.abs(change).max(1, initial=0.0) > STILL * (1 + np.abs(here).max(1, initial=0.0))
        here = here + change
        iterates.append(here)
        images.append(image)
    return iterates[: max(int(arrivals.max(initial=0)), 0) + 1], images
