"""Metrics in which a closed loop contracts at every step, one metric a set, found in floating point.

Given Jacobians J_ix of the step from set i by token x into set j = target(i, x), metrics W_i with
‖W_j J_ix W_i⁻¹‖₂ ≤ γ for every step exist exactly if all products along paths decay at least like γᵗ, up to a
constant. With P_i = W_iᵀ W_i the condition is J_ixᵀ P_j J_ix ≤ γ² P_i, and the iteration

    P_i ← I + ⋁_x J_ixᵀ P_j J_ix / γ²

reaches such matrices where it converges, ⋁ being an upper bound of matrices in the Löwner order. Nothing that
is found here is part of a proof: `theory.rigorous.covers.invariant_cover` proves what follows from any
metrics.

Source: Philippe, Essick, Dullerud & Jungers 2016, Automatica 72 (the condition, necessary and sufficient as
paths grow); Allamigeon, Gaubert, Goubault, Putot & Stott 2018, ACM TECS 17 (the iteration over ⋁).
"""

import numpy as np

from automata.monoids.cayley import IntArray
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop

SWEEPS = 60
SETTLED = 3e-3
"""Relative change of a sweep that ends the iteration; the metrics need not be exact."""
LARGEST = 1e8
"""Matrices that grow beyond it are given up, while they can still be factored."""
STEPS_AT_ONCE = 512


@np.errstate(all="ignore")  # what overflows has no metrics
def step_jacobians(loop: EnclosedLoop, cover: Cover) -> Array:
    """Return ds'/ds at the centres of sets for every token, ``[sets, tokens, n, n]``, in floating point."""
    sets, tokens, size = cover.latents.shape
    states = cover.centres.shape[1]
    found = np.zeros((sets * tokens, states, states))
    for first in range(0, len(found), STEPS_AT_ONCE):
        rows = np.arange(first, min(len(found), first + STEPS_AT_ONCE))
        i, x = np.divmod(rows, tokens)
        z = Dual.variable(Ball.exact(cover.latents[i, x]), size + states)
        s = Dual.variable(Ball.exact(cover.centres[i]), size + states, first=size)
        image, following = loop.advance(z, s, x)
        inner, outer = image.tangent.midpoint, following.tangent.midpoint
        try:
            response = np.linalg.solve(np.eye(size) - inner[..., :size], inner[..., size:])
        except np.linalg.LinAlgError:  # one of them is singular
            response = np.full_like(inner[..., size:], np.nan)
        found[rows] = outer[..., size:] + outer[..., :size] @ response
    return found.reshape(sets, tokens, states, states)


def upper_bound(first: Array, second: Array) -> Array:
    """Return matrices above both of two positive definite ones, minimal among them in the Löwner order.

    With first = L Lᵀ and L⁻¹ second L⁻ᵀ = U diag(λ) Uᵀ it is L U diag(max(λ, 1)) Uᵀ Lᵀ.
    """
    lower = np.linalg.cholesky(first)
    inverse = np.linalg.inv(lower)
    values, vectors = np.linalg.eigh(inverse @ second @ np.swapaxes(inverse, -1, -2))
    mixed = lower @ vectors
    result: Array = (mixed * np.maximum(values, 1)[..., None, :]) @ np.swapaxes(mixed, -1, -2)
    return result


@np.errstate(all="ignore")
def contracting_metrics(jacobians: Array, targets: IntArray, rate: float) -> tuple[Array, Array] | None:
    """Return W and W⁻¹ of every set with ‖W_j J W_i⁻¹‖₂ ≤ rate at every step, ``[sets, n, n]`` each.

    Jacobians are ``[sets, tokens, n, n]``. None if the iteration does not settle: products of the Jacobians
    do not decay as fast, or too slowly, or are not finite.
    """
    sets, tokens, states, _ = jacobians.shape
    shapes = np.broadcast_to(np.eye(states), (sets, states, states)).copy()
    transposed = np.swapaxes(jacobians, -1, -2)
    try:
        for _ in range(SWEEPS):
            following = 1e-6 * np.eye(states)
            for token in range(tokens):
                back = transposed[:, token] @ shapes[targets[:, token]] @ jacobians[:, token] / rate**2
                following = upper_bound(following + np.zeros_like(back), back)
            following = following + np.eye(states)
            norms = np.linalg.norm(shapes, axis=(1, 2))
            change = float((np.linalg.norm(following - shapes, axis=(1, 2)) / norms).max())
            shapes = following
            if not shapes.max() < LARGEST:
                break
            if change < SETTLED:
                metrics = np.swapaxes(np.linalg.cholesky(shapes), -1, -2).copy()
                return metrics, np.linalg.inv(metrics)
    except np.linalg.LinAlgError:  # of matrices that are not finite
        pass
    return None
