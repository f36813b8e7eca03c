"""Three variables: the marginals determine the belief, so that a filter on nine numbers is exact.

**Theorem C.** *Let b be a belief over the six arrangements of three values, P its marginals and s(b) = Σ
sgn(π) b(π). If det P = s(b), then*

    b(π) = (2 Σᵢ P[i, πᵢ] − 1 + sgn(π) det P) / 6 .                                                      (1)

*det P = s(b) holds at a known arrangement and after every reveal of one variable or of all. Each action that
draws a permutation with det A_σ = E sgn, where A_σ = E Π, keeps it.* A hidden swap is such an action, a
hidden rotation is not. ``docs/belief.md`` proves it.
"""

from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from automata.errors import InputError
from automata.probabilistic.pfsa import FloatArray

_ARRANGEMENTS = np.array(list(permutations(range(3))))
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])


def belief_from_marginals(marginal: ArrayLike) -> FloatArray:
    """Return b of (1), shape ``[..., 6]``, arrangements in lexicographic order, of P ``[..., 3, 3]``.

    Without det P = s(b), (1) is another belief or none. InputError for another shape.

    Example:
        >>> half = [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
        >>> belief_from_marginals(half).tolist()
        [0.5, 0.0, 0.5, 0.0, 0.0, 0.0]
    """
    P = np.asarray(marginal, dtype=np.float64)
    if P.shape[-2:] != (3, 3):
        raise InputError(f"marginal has shape {list(P.shape)}; give [..., 3, 3]")
    held = P[..., np.arange(3), _ARRANGEMENTS].sum(axis=-1)  # [..., 6]
    return (2 * held - 1 + _SIGNS * np.linalg.det(P)[..., None]) / 6


def three_variables_closed(mixture: ArrayLike) -> bool:
    """Return whether an action on three variables keeps det P = s(b): whether det A_σ = E sgn.

    ``mixture`` holds the probabilities of the six permutations, in lexicographic order, ``[6]``; InputError
    for another shape.

    Example:
        A hidden swap, and a hidden rotation:

        >>> three_variables_closed([0.7, 0, 0.3, 0, 0, 0]), three_variables_closed([0.7, 0, 0, 0.3, 0, 0])
        (True, False)
    """
    probabilities = np.asarray(mixture, dtype=np.float64)
    if probabilities.shape != (6,):
        raise InputError(f"mixture has shape {list(probabilities.shape)}; give [6]")
    matrix = np.einsum("k,kij->ij", probabilities, np.eye(3)[_ARRANGEMENTS])
    return bool(abs(np.linalg.det(matrix) - probabilities @ _SIGNS) < 1e-12)  # a few roundings of float64
