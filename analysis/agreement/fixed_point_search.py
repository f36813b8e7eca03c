"""Which fixed points does a token have? Solves from many starts, the ends sorted into distinct fixed points.

The damped iteration finds only fixed points that attract; one that repels it is not found, and starts that do
not converge are counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from analysis.framework.visited_states import TIGHT_RTOL
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from theory import State, Transition, latent_jacobian
from theory.fixed_point import ERROR_MARGIN
from theory.theorem1.conditions import damped_slope, spectral_radius


@dataclass(frozen=True)
class FoundFixedPoint:
    """One fixed point of one token, how many starts ended in it, and which named ones.

    ``answer`` is the class decoded from it, ``spectral_radius`` that of the damped iteration (below 1 it
    attracts), ``smallest_singular_value`` that of I − ∂zΦ.
    """

    answer: int
    spectral_radius: float
    smallest_singular_value: float
    starts: int
    reached_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class TokenFixedPoints:
    """The result of a search at one token.

    Example:
        >>> point = FoundFixedPoint(answer=1, spectral_radius=0.7, smallest_singular_value=0.2, starts=9)
        >>> found = TokenFixedPoints(3, 17, 0, 1, "sample", (point,), unconverged=0)
        >>> found.rows(["even", "odd"])
        [['3, 17', 'sample', 'odd', 'odd', '9', 'random starts or zero only', '0.700']]
    """

    sequence: int  # number of the sequence
    position: int  # of the token, from 0
    token: int  # which token
    label: int  # the correct class
    reason: str  # why this token was looked at
    fixed_points: tuple[FoundFixedPoint, ...]  # the distinct ones, those with the most starts first
    unconverged: int  # how many starts did not converge

    def rows(self, names: Sequence[str]) -> list[list[str]]:
        """Return a row for every fixed point, under the headings `SEARCHED`."""
        where = [f"{self.sequence}, {self.position}", self.reason, names[self.label]]
        rows = [
            [
                *where,
                names[point.answer],
                str(point.starts),
                " and ".join(point.reached_by) or "random starts or zero only",
                f"{point.spectral_radius:.3f}",
            ]
            for point in self.fixed_points
        ]
        lost = [*where, "not converged", str(self.unconverged), "–", "–"]
        return [*rows, lost] if self.unconverged else rows


SEARCHED = ("sequence, position", "why", "right answer", "decodes", "starts", "reached by", "spectral radius")
"""Headings of a table of fixed points."""


@torch.no_grad()
def search_fixed_points(
    model: FixedPointModel,
    token: int,
    state: State,
    starts: Tensor,
    names: Sequence[str],
    max_iterations: int,
) -> tuple[tuple[FoundFixedPoint, ...], int]:
    """Solve one token from several starts and sort the ends into distinct fixed points.

    Two ends z and z̃ count as one fixed point if ‖z − z̃‖ is within a decade of (‖Φ(z) − z‖ + ‖Φ(z̃) − z̃‖) /
    σ, σ the smallest singular value of I − ∂zΦ: to first order, r/σ is how far a fixed point can be from a
    latent with residual r. The model is in float64 and the state has no batch axis. ``names`` are those of
    the first starts, ``[starts, d_model]``; the second thing returned is how many starts did not converge.
    """
    count = len(starts)
    batched = {name: entry[None].expand(count, *entry.shape) for name, entry in state.items()}
    tokens = torch.full((count, 1), token, device=starts.device)
    stopping = Stopping(rtol=TIGHT_RTOL, max_iterations=max_iterations)
    solve = Solve("sequential", stopping=stopping, start=starts[:, None])
    output = model.run(tokens, batched, solve)
    solution = output.solution
    assert solution is not None
    converged = solution.converged[:, 0]
    transition = model.transition(token)
    clusters: list[_Cluster] = []
    for index in converged.nonzero()[:, 0].tolist():
        latent, residual = solution.latents[index, 0], solution.residual[index, 0].item()
        home = next((cluster for cluster in clusters if cluster.holds(latent, residual)), None)
        if home is None:
            answer = int(output.answers[index, 0])
            home = _Cluster.around(transition, state, latent, residual, answer)
            clusters.append(home)
        home.members.append(index)
    clusters.sort(key=lambda cluster: -len(cluster.members))
    return tuple(cluster.summary(names) for cluster in clusters), count - int(converged.sum())


@dataclass(frozen=True, eq=False)
class _Cluster:
    latent: Tensor
    residual: float
    smallest_singular_value: float
    spectral_radius: float
    answer: int
    members: list[int]

    @classmethod
    def around(
        cls, transition: Transition, state: State, latent: Tensor, residual: float, answer: int
    ) -> "_Cluster":
        slope = latent_jacobian(transition, state, latent)
        identity = torch.eye(len(slope), dtype=slope.dtype, device=slope.device)
        finite = bool(slope.isfinite().all())
        smallest = torch.linalg.svdvals(identity - slope)[-1].item() if finite else math.nan
        return cls(
            latent, residual, smallest, spectral_radius(damped_slope(slope, transition.damping)), answer, []
        )

    def holds(self, latent: Tensor, residual: float) -> bool:
        distance = (latent - self.latent).norm().item()
        return distance * self.smallest_singular_value <= ERROR_MARGIN * (residual + self.residual)

    def summary(self, names: Sequence[str]) -> FoundFixedPoint:
        reached_by = tuple(names[index] for index in self.members if index < len(names))
        return FoundFixedPoint(
            self.answer, self.spectral_radius, self.smallest_singular_value, len(self.members), reached_by
        )


def states_before(
    model: FixedPointModel, tokens: Tensor, latents: Tensor, positions: Sequence[int]
) -> list[State]:
    """Return for each sequence the state before its token at a position, given the latents of the tokens.

    ``latents``, ``[sequences, length, d_model]``, are the fixed points of the sequential mode; there is one
    position, and one state without a batch axis, per sequence.
    """
    states: dict[int, State] = {}
    state = model.init_state(len(tokens))
    as_given = Stopping(rtol=0.0, max_iterations=1)  # one evaluation, no step: the latents stay as they are
    with torch.no_grad():
        for position in range(max(positions, default=-1) + 1):
            for sequence in (number for number, wanted in enumerate(positions) if wanted == position):
                states[sequence] = {name: entry[sequence].clone() for name, entry in state.items()}
            here = slice(position, position + 1)
            solve = Solve("sequential", stopping=as_given, start=latents[:, here])
            state = model.run(tokens[:, here], state, solve).state
    return [states[sequence] for sequence in range(len(positions))]
