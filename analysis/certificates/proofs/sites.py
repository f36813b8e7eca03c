"""Where something is to be proved about a run: visited pairs, their approximate fixed points, companions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.framework.visited_states import TIGHT_RTOL, VisitedState, in_double_precision
from implicit.enclosed.any_cell import compare_with_floats
from implicit.enclosed.forms import Form, block_parts, boxes, form_of, widest
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel, SequenceModel
from implicit.models.stack import CellStack
from implicit.modes import Solve
from theory.jacobian.coupling_entries import coupling_entries
from theory.rigorous.balls.ball import Array, Ball
from theory.rigorous.enclosure import Entries, approximate_slopes, refine
from theory.rigorous.tensors import EnclosedTransitionBatch

CHUNK = 2**22
"""The most float64 entries of one array of derivatives."""
MAX_COMPANIONS = 3
"""How many other values of h are tried until one has a fixed point beside the window that is kept."""


@dataclass(frozen=True, eq=False)
class Sites:
    """Positions at which something is to be proved.

    Attributes:
        model: the model.
        tokens: ``[T]``.
        state: the states, each entry ``[T, …]``.
        latents: approximate fixed points, ``[T, d]``.
        places: per layer the entry of ∂h'/∂h.

    Example:
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> state = {name: entry.numpy() for name, entry in model.init_state(1).items()}
        >>> place = (np.array([0]), np.array([1]))
        >>> sites = Sites(model, np.array([1]), state, np.zeros((1, 4)), [place])
        >>> len(sites), sites.boxes(np.array([0.5]))["ssm.0"].radius.max()
        (1, np.float64(0.5))
    """

    model: SequenceModel
    tokens: NDArray[np.int64]
    state: Mapping[str, Array]
    latents: Array
    places: Sequence[Entries]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, chosen: NDArray[np.int64] | slice) -> "Sites":
        return Sites(
            self.model,
            self.tokens[chosen],
            {name: entry[chosen] for name, entry in self.state.items()},
            self.latents[chosen],
            [(rows[chosen], columns[chosen]) for rows, columns in self.places],
        )

    def transitions(self) -> Form:
        """Return (Φ, G) at these positions."""
        return form_of(self.model, torch.from_numpy(self.tokens))

    def boxes(self, radius: Array) -> dict[str, Ball]:
        """Return the states with h widened by a radius at each position."""
        return boxes(self.transitions(), block_parts(self.model), self.state, radius)

    def chunks(self) -> list[slice]:
        """Return slices that keep derivatives within `CHUNK` entries."""
        numbers = widest(self.model, self.transitions())
        count = max(1, CHUNK // (numbers * (self.latents.shape[1] + len(self.places))))
        return [slice(start, start + count) for start in range(0, len(self), count)]


@dataclass(frozen=True, eq=False)
class Companions:
    """For each position another visited h, put beside the window of this one.

    Attributes:
        pairs: the number of the position that h is taken from, ``[T]``.
        differ: whether it is another h, ``[T]``; where there is none, a position is its own companion.
        sites: the states made so.

    Example:
        `companions` makes them.
    """

    pairs: NDArray[np.int64]
    differ: NDArray[np.bool_]
    sites: Sites


def visited_sites(model: FixedPointModel, visited: Sequence[VisitedState]) -> Sites:
    """Return the visited pairs with their fixed points and a large coupling entry of each.

    Args:
        model: in its working precision.
        visited: the pairs.

    Example:
        >>> from analysis.framework.visited_states import visited_states
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> sites = visited_sites(model, visited)
        >>> rows, columns = sites.places[0]
        >>> sites.latents.shape, bool((rows != columns).all())
        ((2, 4), True)
    """
    names = visited[0].state
    tokens = np.array([pair.token for pair in visited])
    state = {name: np.stack([pair.state[name].numpy() for pair in visited]) for name in names}
    latents = _fixed_points(model, tokens, state)
    _, slopes = approximate_slopes(*_points(model, tokens, state), latents)
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

    Example:
        With one pair per token, its companion can only be itself.

        >>> from analysis.framework.visited_states import visited_states
        >>> from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2)
        >>> model = ImplicitMamba2(config)
        >>> visited = visited_states(in_double_precision(model), torch.tensor([[0, 1, 1, 0]]), 2)
        >>> found = companions(visited_sites(model, visited), attempt=0)
        >>> found.pairs, found.differ
        (array([0, 1]), array([False, False]))
    """
    blocks = block_parts(sites.model)
    vectors = np.concatenate(
        [entry.reshape(len(sites), -1) for name, entry in sites.state.items() if name in blocks], axis=1
    )
    pairs = np.arange(len(sites))
    for position, token in enumerate(sites.tokens):
        others = np.flatnonzero(
            (sites.tokens == token) & (vectors != vectors[position]).any(1)
        )  # two visited states may have the same h
        if len(others):
            distances = np.square(vectors[others] - vectors[position]).sum(1)
            order = others[np.argsort(-distances)]
            pairs[position] = order[(len(order) - 1) * (2**attempt - 1) // 2**attempt]
    state = {name: entry[pairs] if name in blocks else entry for name, entry in sites.state.items()}
    columns = [column for _, column in sites.places]
    latents = _fixed_points(sites.model, sites.tokens, state, columns)
    differ = pairs != np.arange(len(sites))
    return Companions(pairs, differ, Sites(sites.model, sites.tokens, state, latents, sites.places))


@torch.no_grad()
def _fixed_points(
    model: SequenceModel,
    tokens: NDArray[np.int64],
    state: dict[str, Array],
    columns: Sequence[NDArray[np.int64]] = (),
) -> Array:
    """Fixed points by iteration in float64 and Newton steps; the last iterate where there is none."""
    precise = in_double_precision(model).implicit
    assert precise is not None
    stopping = Stopping(rtol=TIGHT_RTOL, max_iterations=precise.stopping.max_iterations)
    where = torch.from_numpy(tokens)
    solve = Solve("sequential", stopping=stopping)
    solution = precise.fixed_points(where[:, None], _tensors(state), solve)
    latents = np.nan_to_num(solution.latents[:, 0].numpy(), posinf=0.0, neginf=0.0)
    form, points = _points(model, tokens, state)
    latents = refine(form, points, latents)
    if isinstance(form, EnclosedTransitionBatch) and isinstance(model, CellStack):
        compare_with_floats(model, form, where, state, latents, columns)
    return latents


def _points(
    model: SequenceModel, tokens: NDArray[np.int64], state: dict[str, Array]
) -> tuple[Form, dict[str, Ball]]:
    """(Φ, G) and the states as balls of radius zero."""
    form = form_of(model, torch.from_numpy(tokens))
    return form, boxes(form, block_parts(model), state, np.zeros(len(tokens)))


def _tensors(state: dict[str, Array]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(entry) for name, entry in state.items()}
