"""What a model does from one token to the next: what it writes anew, forgets, and passes on through z."""

from dataclasses import dataclass

import numpy as np
import torch

from analysis.error_control.following import follow_errors, median
from analysis.error_control.pairs import Pairs
from analysis.framework.arrays import FloatArray
from analysis.framework.visited_states import in_double_precision, visited_states
from analysis.mechanism.visits import Visits
from implicit.models.interface import SequenceModel
from theory import latent_jacobian, layer_jacobians, solve_fixed_point

FOUND = 1e-9
"""The relative residual below which a latent counts as a fixed point; its last digits do not matter here."""
SMALLEST_ERROR = 0.01  # the smallest error that is followed, as a share of the way to another state


@dataclass(frozen=True)
class Dynamics:
    """One token's work, in numbers that no change of basis within the recurrent state alters."""

    # the share of the difference between codes that the last token has written, the rest having been kept by
    # the decay; None for an explicit model
    written: float | None
    left_after_one: float  # what is left of a small error along the difference of two states after one token
    left_after_all: float  # after all tokens that were read
    # the spectral norm of ∂zΦ at fixed points, in the median; None for an explicit model
    contraction: float | None
    second_term: float | None  # ‖∂zG (I − ∂zΦ)⁻¹ ∂sΦ‖ over ‖∂sG‖, Frobenius norms, in the median; likewise
    # how many directions that term acts in: (Σσ²)²/Σσ⁴ of its singular values; likewise
    second_rank: float | None
    # the entries of the direct term: their 5%, 50% and 95% quantiles; likewise
    decay: tuple[float, float, float] | None


def share_written(visits: Visits) -> float | None:
    """Return the share of the variance between codes that the last token wrote.

    With codes m = k + w, k kept and w written, it is Σ⟨w, m⟩/Σ⟨m, m⟩ over the centred codes; w of one half of
    the visits and m of the other, so that noise adds nothing in the mean.

    Example:
        Two classes at −1 and 1, of which 0.75 is written anew:

        >>> code = np.array([[-1.0], [-1.0], [1.0], [1.0]])
        >>> sides = np.array([0, 1, 0, 1])
        >>> label = np.array([0, 0, 1, 1])
        >>> share_written(Visits(np.arange(2), label, sides, {"h": code}, ("h",), 0.75 * code, 2.0, 1.0))
        0.75
    """
    if visits.written is None:
        return None
    states = visits.of(visits.recurrent)
    count = len(visits.classes)
    means = []
    for entries in (states, visits.written):
        for side in (0, 1):
            own = [entries[(visits.label == n) & (visits.half == side)].mean(axis=0) for n in range(count)]
            means.append(np.stack(own) - np.mean(own, axis=0))
    one, other, wrote, wrote_other = means
    whole = 2 * float((one * other).sum())
    return float((wrote * other).sum() + (wrote_other * one).sum()) / whole if whole > 0 else float("nan")


def measure_dynamics(
    model: SequenceModel, visits: Visits, pairs: Pairs, states: int, max_iterations: int, seed: int
) -> Dynamics:
    """Measure what happens from one token to the next, derivatives and errors in float64.

    Errors are followed at the pairs of words; derivatives are taken at the states after them.
    """
    exact = in_double_precision(model)
    followed = follow_errors(exact, pairs, (SMALLEST_ERROR,), max_iterations, seed)
    left = [median(followed.shares[SMALLEST_ERROR][:, place]) / SMALLEST_ERROR for place in (1, -1)]
    found = _derivatives(exact, pairs, states, max_iterations) if model.implicit is not None else []
    return Dynamics(
        written=share_written(visits),
        left_after_one=left[0],
        left_after_all=left[1],
        contraction=float(np.median([one[0] for one in found])) if found else None,
        second_term=float(np.median([one[1] for one in found])) if found else None,
        second_rank=float(np.median([one[2] for one in found])) if found else None,
        decay=_quantiles(np.concatenate([one[3] for one in found])) if found else None,
    )


def _derivatives(
    model: SequenceModel, pairs: Pairs, states: int, max_iterations: int
) -> list[tuple[float, float, float, FloatArray]]:
    """Return ‖∂zΦ‖, size and rank of the second term, and the diagonal of the first, at visited states."""
    found = []
    for visited in visited_states(model, torch.from_numpy(pairs.first), states):
        transition = model.transition(visited.token)
        solved = solve_fixed_point(transition, visited.state, max_iterations=max_iterations)
        if not solved.residual < FOUND * float(solved.latent.norm()):
            continue
        slope = latent_jacobian(transition, visited.state, solved.latent)
        blocks = layer_jacobians(transition, visited.state, solved.latent)
        left = torch.cat([block.left for block in blocks])
        right = torch.cat([block.right for block in blocks], dim=1)
        # singular values of the product from those of a small matrix
        if not all(bool(part.isfinite().all()) for part in (slope, left, right)):
            continue
        factors = torch.linalg.qr(left).R @ torch.linalg.qr(right.mT).R.mT
        squares = torch.linalg.svdvals(factors) ** 2
        direct = torch.cat(
            [block.direct if block.direct.ndim == 1 else block.direct.diagonal() for block in blocks]
        )
        found.append(
            (
                float(torch.linalg.matrix_norm(slope, 2)),
                float(squares.sum().sqrt() / direct.norm()),
                float(squares.sum() ** 2 / (squares**2).sum()),
                direct.numpy(),
            )
        )
    return found


def _quantiles(values: FloatArray) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return float(low), float(middle), float(high)
