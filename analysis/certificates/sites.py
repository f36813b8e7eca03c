"""Where something is to be proved about a run: visited pairs with approximate fixed points, and companions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.certificates.producer import Sites
from analysis.visited_states import TIGHT_RTOL, VisitedState, in_double_precision
from implicit.enclosures import EnclosedMamba2
from implicit.fixed_point import Stopping
from implicit.model import ImplicitMamba2
from theory.balls.ball import Array, Ball
from theory.coupling_entries import coupling_entries
from theory.enclosure import approximate_slopes, refine

MAX_COMPANIONS = 3
"""How many other values of h are tried until one has a fixed point beside the window that is kept."""


@dataclass(frozen=True, eq=False)
class Companions:
    """For each position another visited h, put beside the window of this one.

    Attributes:
        pairs: the number of the position that h is taken from, ``[T]``.
        sites: the states made so.
    """

    pairs: NDArray[np.int64]
    sites: Sites


def visited_sites(model: ImplicitMamba2, visited: Sequence[VisitedState]) -> Sites:
    """Return the visited pairs with their fixed points and a large coupling entry of each.

    Args:
        model: in its working precision.
        visited: the pairs.
    """
    names = visited[0].state
    tokens = np.array([pair.token for pair in visited])
    state = {name: np.stack([pair.state[name].numpy() for pair in visited]) for name in names}
    latents = _fixed_points(model, tokens, state)
    enclosed = EnclosedMamba2(model, torch.from_numpy(tokens))
    _, slopes = approximate_slopes(enclosed, _exact(state), latents)
    places = coupling_entries(
        in_double_precision(model).transitions(torch.from_numpy(tokens)),
        _tensors(state),
        torch.from_numpy(latents),
        torch.from_numpy(slopes),
    )
    return Sites(model, tokens, state, latents, [(row.numpy(), column.numpy()) for row, column in places])


def companions(sites: Sites, attempt: int) -> Companions:
    """Return companions: the farthest h of the same token, and in later attempts nearer ones.

    Args:
        sites: all positions, among which companions are chosen.
        attempt: from 0; the distance falls by half of the candidates from one to the next.
    """
    vectors = np.concatenate(
        [entry.reshape(len(sites), -1) for name, entry in sites.state.items() if name.startswith("ssm")], axis=1
    )
    pairs = np.arange(len(sites))
    for position, token in enumerate(sites.tokens):
        others = np.flatnonzero(sites.tokens == token)
        distances = np.square(vectors[others] - vectors[position]).sum(1)
        order = others[np.argsort(-distances)]
        pairs[position] = order[(len(order) - 1) * (2**attempt - 1) // 2**attempt]
    state = {name: entry[pairs] if name.startswith("ssm") else entry for name, entry in sites.state.items()}
    latents = _fixed_points(sites.model, sites.tokens, state)
    return Companions(pairs, Sites(sites.model, sites.tokens, state, latents, sites.places))


@torch.no_grad()
def working_latents(model: ImplicitMamba2, sites: Sites) -> Array:
    """Return the latents that the model finds as it is used: its own precision, tolerance and limit."""
    dtype = model.embedding.weight.dtype
    state = {name: torch.from_numpy(entry).to(dtype) for name, entry in sites.state.items()}
    tokens = torch.from_numpy(sites.tokens)[:, None]
    return model.solve(tokens, mode="sequential", state=state).latents[:, 0].double().numpy()


@torch.no_grad()
def _fixed_points(model: object, tokens: NDArray[np.int64], state: dict[str, Array]) -> Array:
    """Fixed points by the model's iteration in float64 and Newton steps; the last iterate where there is none."""
    assert isinstance(model, ImplicitMamba2)
    precise = in_double_precision(model)
    assert isinstance(precise, ImplicitMamba2)
    stopping = Stopping(rtol=TIGHT_RTOL, max_iterations=model.config.max_iterations)
    where = torch.from_numpy(tokens)
    solution = precise.solve(where[:, None], mode="sequential", state=_tensors(state), stopping=stopping)
    latents = np.nan_to_num(solution.latents[:, 0].numpy(), posinf=0.0, neginf=0.0)
    return refine(EnclosedMamba2(model, where), _exact(state), latents)


def _exact(state: dict[str, Array]) -> dict[str, Ball]:
    return {name: Ball.exact(entry) for name, entry in state.items()}


def _tensors(state: dict[str, Array]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(entry) for name, entry in state.items()}
