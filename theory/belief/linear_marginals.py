"""The marginals of beliefs over arrangements, and a linear RNN of n² numbers that follows them.

At a hidden permutation P ← A P, which is A ⊗ I on the n² entries: the eigenvalues are those of A, in the
closed unit disc, 1 among them; a hidden swap of probability p has 1 and 1 − 2p, so that above ½ it takes a
negative one. At a full reveal the matrix is 0 and the input is the arrangement: an affine reset. With these
two kinds of tokens alone the map is exact, bounded and never decays
(``automata.probabilistic.marginal_filter``). At a reveal of one variable the linear map keeps the entry
that is shown and clears the rest of its row and column; rows are divided by their sums where P is read.
That is not exact: rows lose mass at different rates, and a hidden swap then mixes them in the wrong shares.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from automata.monoids.cayley import integer_array
from automata.probabilistic.marginal_filter import MarginalFilter


@dataclass(frozen=True, eq=False, init=False)
class LinearMarginals:
    """The unnormalised marginal map: p ← A_y p + c_y, with one pair for each observation of ``BayesFilter``.

    Attributes:
        initial: ``[n²]``.
        matrices: A_y, ``[observations, n², n²]``.
        inputs: c_y, ``[observations, n²]``.

    Example:
        >>> from automata.probabilistic.named_pfsas import lazy_swaps
        >>> automaton = lazy_swaps(3, probability=0.75)
        >>> linear = LinearMarginals(MarginalFilter(automaton, automaton.reveals[1:]))
        >>> torch.linalg.eigvals(linear.matrices[0]).real.round(decimals=12).unique().tolist()
        [-0.5, 1.0]
    """

    initial: Tensor
    matrices: Tensor
    inputs: Tensor
    shape: tuple[int, int]

    def __init__(self, filtered: MarginalFilter) -> None:
        automaton, size = filtered.automaton, filtered.initial.size
        rows, columns = filtered.initial.shape
        matrices = [filtered.linear[action] for action in range(len(automaton.actions))]
        inputs = [np.zeros(size) for _ in matrices]
        for reveal, reading in zip(automaton.reveals, automaton.readings, strict=True):
            for value in range(int(reading.max()) + 1):
                held = filtered.held[:, reading == value]
                if (held == held[:, :1]).all():
                    matrices.append(np.zeros((size, size)))
                    inputs.append(np.eye(columns)[held[:, 0]].ravel())
                    continue
                keep = np.ones((rows, columns))
                if reveal in filtered.variables:
                    variable = filtered.variables.index(reveal)
                    keep[variable] = 0
                    keep[:, held[variable, 0]] = 0
                    keep[variable, held[variable, 0]] = 1
                matrices.append(np.diag(keep.ravel()))
                inputs.append(np.zeros(size))
        arrays = {
            "initial": filtered.initial.ravel(),
            "matrices": np.stack(matrices),
            "inputs": np.stack(inputs),
        }
        vars(self).update({name: torch.from_numpy(a) for name, a in arrays.items()}, shape=(rows, columns))

    def states(self, observations: Tensor) -> Tensor:
        """Return p after every token, shape ``[B, L, n²]``."""
        current, found = self.initial.expand(len(observations), -1), []
        for position in range(observations.shape[1]):
            seen = observations[:, position]
            current = (self.matrices[seen] @ current[..., None])[..., 0] + self.inputs[seen]
            found.append(current)
        return torch.stack(found, dim=1)

    def read(self, states: Tensor) -> Tensor:
        """Return P, rows divided by their sums, shape ``[..., n, n]``; a row of zeros becomes uniform."""
        P = states.reshape(*states.shape[:-1], *self.shape)
        mass = P.sum(dim=-1, keepdim=True)
        return torch.where(mass > 0, P / torch.where(mass > 0, mass, 1.0), 1 / self.shape[1])


def marginals(beliefs: Tensor, arrangements: ArrayLike) -> Tensor:
    """Return P[i, v] = Pr(variable i holds v), shape ``[..., n, n]``, from beliefs over arrangements.

    A hidden swap acts linearly on P, so without reveals P needs n² numbers in place of n!. A partial
    reveal does not act on P at all: two beliefs with the same P can have posteriors with different ones.

    Shapes: beliefs ``[..., N]``; arrangements ``[N, n]``, what each variable holds in each state, 0 … n−1.

    Example:
        All six arrangements of three values, or only the three cyclic ones: the same marginals. Once
        variable 0 is seen to hold 0, variable 1 holds 1 with probability 1/2 or 1.

        >>> from itertools import permutations
        >>> arrangements = list(permutations(range(3)))
        >>> every = torch.full((6,), 1 / 6)
        >>> cyclic = torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 0.0]) / 3
        >>> bool(torch.allclose(marginals(every, arrangements), marginals(cyclic, arrangements)))
        True
        >>> seen = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
        >>> [round(marginals(b * seen / (b @ seen), arrangements)[1, 1].item(), 6) for b in (every, cyclic)]
        [0.5, 1.0]
    """
    held = torch.nn.functional.one_hot(torch.from_numpy(integer_array("arrangements", arrangements)))
    return torch.einsum("...q,qiv->...iv", beliefs, held.to(beliefs.dtype))


def swapped_marginals(marginal: Tensor, first: int, second: int, probability: float) -> Tensor:
    """Return P after a swap of two variables that happens with a probability, shape ``[..., n, n]``.

    P ← (1 − p) P + p S P, with S the permutation matrix of the two rows.

    Example:
        >>> swapped_marginals(torch.eye(2), 0, 1, 0.25).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
    """
    rows = torch.arange(marginal.shape[-2])
    rows[[first, second]] = rows[[second, first]]
    return (1 - probability) * marginal + probability * marginal[..., rows, :]
