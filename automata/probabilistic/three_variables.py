"""Three variables: the marginals determine the belief, so that a filter on nine numbers is exact.

**Theorem (three variables).** *Let b be a belief over the six arrangements of three values, P its marginals
and s(b) = Σ sgn(π) b(π). If det P = s(b), then*

    b(π) = (2 Σᵢ P[i, πᵢ] − 1 + sgn(π) det P) / 6 .                                                      (1)

*det P = s(b) holds at a known arrangement, after every reveal of one variable or of all, and is kept by
each action that draws a permutation with det A_σ = E sgn, where A_σ = E Π; so it holds always if the start
is known and all actions and reveals are of these kinds. A hidden swap, also after a fixed permutation, is;
so is one of all six, drawn uniformly. A hidden rotation is not: for e and a rotation with probabilities 1 −
p and p, E sgn = 1 and det A = 1 − 3p(1 − p). Nor is a reveal of the parity: |s| = 1, and |det P| may be
less.*

*Proof.* The marginals and s together are linear functions of b. If they are 0, then b is orthogonal to all
functions Σᵢ f(i, πᵢ), a space of dimension 5, and to sgn, which is not in it; so b = 0, and P and s
determine b. The right side of (1) is therefore b if it has the same P and s. P: two arrangements hold v at
i, one even and one odd; beside (i, v) they share no pair and cover the four others outside row i and column
v, which sum to 3 − 1 − 1 + P[i,v]. So (1) over the two is (4 P[i,v] + 2 (1 + P[i,v]) − 2)/6 = P[i,v]. s:
Σ_π sgn(π) Σᵢ P[i, πᵢ] = 0 for the same reason, and Σ_π sgn(π)² det P / 6 = det P.
*Kept:* an action gives P ← A P and s ← s · E sgn, and det is multiplicative. *Reveals:* a reveal of one
variable leaves two arrangements π and π', which differ by a swap: P = Π((1 − α) I + α S) with det P =
sgn(π)(1 − 2α) = s. ∎

So the belief, and with it every prediction, is a function of P on all that can be reached, reveals of one
variable included. The function is not linear. For four variables and hidden swaps there is no such function
(``scope``).
"""

from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike

from automata.errors import InputError
from automata.probabilistic.pfsa import FloatArray

_ARRANGEMENTS = np.array(list(permutations(range(3))))
_SIGNS = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0])


def belief_from_marginals(marginal: ArrayLike) -> FloatArray:
    """Return b of (1), shape ``[..., 6]``, arrangements in lexicographic order.

    Args:
        marginal: P, shape ``[..., 3, 3]``; with det P = s(b), otherwise (1) is another belief or none.

    Raises:
        InputError: the shape is another.

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

    Args:
        mixture: the probabilities of the six permutations, in lexicographic order, shape ``[6]``.

    Raises:
        InputError: the shape is another.

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
