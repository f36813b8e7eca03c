"""Spectra of the linear filter: of one observation, of a word of them, and of random products.

- A hidden action is column-stochastic: spectral radius 1, with the eigenvalue 1.
- A reveal is a projection D_ρ: eigenvalues 1, as often as states show ρ, and 0.
- A word w between reveals: D_ρ M_w has spectral radius below 1 unless from some state ρ is shown after each
  repetition of w for ever, with positive probability. Its −log is the decay per repetition of w ρ if the
  start reaches the states of the leading block; otherwise it may be faster. With a full reveal the rank
  is at most 1, and the one eigenvalue that may be non-zero is M_w[s, s].
- Random products under their own law: the largest Lyapunov exponent is −h per token, the entropy rate
  (``decay``, theorem 4).
"""

import torch
from torch import Tensor

from automata.errors import InputError
from theory.belief.filters import BayesFilter


def word_spectrum(belief: BayesFilter, observations: Tensor) -> Tensor:
    """Return the eigenvalues of N_{y_L} ⋯ N_{y_1}, the largest modulus first, complex128, ``[states]``.

    InputError unless the observations are one sequence of indices of operators.

    Example:
        A coin that a flip turns over with probability 0.9 shows heads twice in a row with probability 0.1:

        >>> coin = BayesFilter([1.0, 0.0], [[[0.1, 0.9], [0.9, 0.1]]], [[0, 1]])
        >>> word_spectrum(coin, torch.tensor([0, 1])).real.tolist()
        [0.1, 0.0]
    """
    _check(belief, observations, 1)
    product = torch.eye(len(belief.initial), dtype=torch.float64)
    for number in observations.tolist():
        product = belief.operators[number] @ product
    found = torch.linalg.eigvals(product)
    return found[found.abs().argsort(descending=True)]


def largest_lyapunov_exponent(belief: BayesFilter, observations: Tensor) -> Tensor:
    """Return (1/L) log ‖N_{y_L} ⋯ N_{y_1}‖₁ of sequences, in nats per token, ``[B]``.

    The product is divided by its norm at every step, and the logarithms are summed. It estimates the largest
    exponent, whose error falls as 1/√L, of observations ``[B, L]`` that the automaton drew. InputError if the
    observations have another shape or numbers outside.
    """
    _check(belief, observations, 2)
    size = len(belief.initial)
    product = torch.eye(size, dtype=torch.float64).expand(len(observations), size, size)
    total = torch.zeros(len(observations), dtype=torch.float64)
    for position in range(observations.shape[1]):
        product = belief.operators[observations[:, position]] @ product
        norm = product.sum(dim=1).max(dim=1).values
        product = product / norm[:, None, None]
        total = total + norm.log()
    return total / observations.shape[1]


def _check(belief: BayesFilter, observations: Tensor, dimensions: int) -> None:
    if (
        observations.ndim != dimensions
        or not observations.numel()
        or not 0 <= int(observations.min()) <= int(observations.max()) < len(belief.operators)
    ):
        raise InputError(
            f"observations has shape {list(observations.shape)}; give {dimensions} dimensions with numbers "
            f"in 0 … {len(belief.operators) - 1}"
        )
