"""State-to-state Jacobians at many positions in one batched computation, kept in factors.

    ds'/ds = ∂sG + ∂zG (I − ∂zΦ)^{-1} ∂sΦ      all at z*, at every position

The terms are those of :mod:`theory.jacobian.factored`; here ``torch.func.vmap`` maps them over the positions
and one batched solve takes the place of T. The cost of a position is d evaluations of Φ and G forward and d
backward, d the size of z; no n × n matrix is formed unless ∂sG is not diagonal.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.func import vmap

from automata.errors import InputError
from theory.blocks import flatten, random_signs, replace, slices, validate
from theory.forward_mode import jacobian
from theory.jacobian.factored import FactoredJacobian, diagonality, latent_derivatives, probe_direct_term
from theory.pure_maps import validate_maps
from theory.transition import State, TokenInputs, TransitionBatch

MAX_CHUNK_ENTRIES = 2**20
"""The most float64 entries in one batch of tangents: 8 MiB stay in the cache, 32 MiB took twice as long."""


@dataclass(frozen=True, eq=False)
class BatchedJacobian:
    """The matrices J_t = D_t + L_t R_t at T positions, with D_t diagonal or dense and L_t R_t of low rank.

    Attributes:
        direct: D, shape ``[T, n]`` if it is diagonal at all positions, else ``[T, n, n]``.
        left: L, shape ``[T, n, d]``.
        right: R, shape ``[T, d, n]``.
        diagonality_errors: of D at each position, see `FactoredJacobian`; shape ``[T]``.

    Example:
        >>> left, right = torch.ones(2, 2, 1), torch.tensor([[[0.0, 1.0]], [[0.0, 0.0]]])
        >>> J = BatchedJacobian(torch.tensor([[3.0, 4.0], [3.0, 4.0]]), left, right, torch.zeros(2))
        >>> len(J), J.size, J[0].dense()
        (2, 2, tensor([[3., 1.],
                [0., 5.]]))
        >>> J.matvec(torch.ones(2))
        tensor([[4., 5.],
                [3., 4.]])
    """

    direct: Tensor
    left: Tensor
    right: Tensor
    diagonality_errors: Tensor

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, position: int) -> FactoredJacobian:
        error = self.diagonality_errors[position].item()
        return FactoredJacobian(self.direct[position], self.left[position], self.right[position], error)

    @property
    def size(self) -> int:
        """The number n of states in the block."""
        return self.left.shape[1]

    @property
    def has_diagonal_direct_term(self) -> bool:
        """Return whether D is stored as diagonals."""
        return self.direct.ndim == 2

    def matvec(self, vectors: Tensor) -> Tensor:
        """Return J_t v_t, shape ``[T, n]``, for vectors of that shape or one of shape ``[n]`` for all."""
        direct = self.direct * vectors if self.has_diagonal_direct_term else _apply(self.direct, vectors)
        return direct + _apply(self.left, _apply(self.right, vectors))

    def diagonals(self) -> Tensor:
        """Return the diagonal of every J_t, shape ``[T, n]``."""
        direct = self.direct if self.has_diagonal_direct_term else self.direct.diagonal(dim1=1, dim2=2)
        return direct + torch.einsum("tnd,tdn->tn", self.left, self.right)


def batched_layer_jacobians(
    transitions: TransitionBatch, states: State, latents: Tensor
) -> tuple[BatchedJacobian, ...]:
    """Return for each layer the blocks ∂v'/∂v of ds'/ds at all positions, the rest of each state held fixed.

    The values are those of `layer_jacobians` at every position, to rounding. The factors take 8 T n (2 d + 1)
    bytes per layer (137 MB at T = 256, n = 1024, d = 32); a D that is not diagonal takes 8 T n² instead.

    The states s are those before their tokens, each entry ``[T, …]``, the latents the fixed points z*,
    ``[T, latent_size]``; elsewhere the formula has no meaning. InputError if states or latents cannot be
    used, or if I − ∂zΦ is singular at a position.

    Example:
        h' = λ h + z with Φ = z/2 + 3 x h: J = λ + 6 x, here for the tokens x = 1 and x = 2.

        >>> transitions = TransitionBatch(
        ...     advance=lambda z, s, x: (0.5 * z + 3 * x["x"] * s["h"], {"h": 0.25 * s["h"] + z}),
        ...     inputs={"x": torch.tensor([1.0, 2.0], dtype=torch.float64)},
        ...     latent_size=1,
        ...     layer_states=(("h",),),
        ... )
        >>> h = torch.ones(2, 1, dtype=torch.float64)
        >>> (jacobian,) = batched_layer_jacobians(transitions, {"h": h}, 6 * transitions.inputs["x"][:, None])
        >>> jacobian.diagonals().T, jacobian[1].dense()
        (tensor([[ 6.2500, 12.2500]], dtype=torch.float64), tensor([[12.2500]], dtype=torch.float64))
    """
    _validate(transitions, states, latents)
    names = tuple(dict.fromkeys(name for layer in transitions.layer_states for name in layer))
    left, right = _latent_factors(transitions, names, states, latents)
    offsets = slices({name: states[name][0] for name in names})
    result = []
    for layer in transitions.layer_states:
        direct, errors = _direct_terms(transitions, layer, states, latents)
        rows = [left[:, offsets[name]] for name in layer]
        columns = [right[:, :, offsets[name]] for name in layer]
        factors = (rows[0], columns[0]) if len(layer) == 1 else (torch.cat(rows, 1), torch.cat(columns, 2))
        result.append(BatchedJacobian(direct, *factors, errors))
    return tuple(result)


@torch.no_grad()
def _latent_factors(
    transitions: TransitionBatch, names: tuple[str, ...], states: State, latents: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ∂zG and (I − ∂zΦ)^{-1} ∂vΦ at every position."""
    positions, size, entries = len(transitions), transitions.latent_size, _block_size(states, names)
    left, right = latents.new_empty(positions, entries, size), latents.new_empty(positions, size, entries)
    identity = torch.eye(size, dtype=latents.dtype, device=latents.device)

    def derivatives(latent: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, Tensor, Tensor]:
        advance = partial(_advance_block, transitions, names, state, inputs)
        return latent_derivatives(advance, latent, flatten(state, names))

    count = _positions_at_once(entries * max(1, size))
    for start in range(0, positions, count):
        part = slice(start, start + count)
        here = {name: entry[part] for name, entry in states.items()}
        inputs = {name: entry[part] for name, entry in transitions.inputs.items()}
        slope, left[part], source = vmap(derivatives)(latents[part], here, inputs)
        right[part], singular = torch.linalg.solve_ex(identity - slope, source)
        if singular.any():
            position = start + int(singular.nonzero()[0])
            raise InputError(f"I − ∂zΦ is singular at position {position}; leave it out: it has no Jacobian")
    return left, right


@torch.no_grad()
def _direct_terms(
    transitions: TransitionBatch, names: tuple[str, ...], states: State, latents: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ∂vG as diagonals with their measured errors, or as matrices if random probes contradict that."""
    size = _block_size(states, names)
    signs = random_signs(3, size, latents)

    def update(latent: Tensor, state: State, inputs: TokenInputs, vector: Tensor) -> Tensor:
        return _advance_block(transitions, names, state, inputs, latent, vector)[1]

    def probe(latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        return probe_direct_term(partial(update, latent, state, inputs), flatten(state, names), signs)

    def matrix(latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        return jacobian(partial(update, latent, state, inputs), flatten(state, names))

    positions = (latents, states, transitions.inputs)
    products = vmap(probe, chunk_size=_positions_at_once(len(signs) * size))(*positions)
    diagonal, errors = diagonality(products, signs)
    if diagonal.all():
        return products[:, 0].clone(), errors  # a view would keep all products
    return vmap(matrix, chunk_size=_positions_at_once(size**2))(*positions), torch.zeros_like(errors)


def _advance_block(
    transitions: TransitionBatch,
    names: tuple[str, ...],
    state: State,
    inputs: TokenInputs,
    latent: Tensor,
    vector: Tensor,
) -> tuple[Tensor, Tensor]:
    """Φ and the block of G at one position, with v in the block of the state."""
    image, following = transitions.advance(latent, replace(state, names, vector), inputs)
    return image, flatten(following, names)


def _block_size(states: State, names: tuple[str, ...]) -> int:
    return sum(states[name][0].numel() for name in names)


def _positions_at_once(entries: int) -> int:
    return max(1, MAX_CHUNK_ENTRIES // entries)


def _apply(matrices: Tensor, vectors: Tensor) -> Tensor:
    return (matrices @ vectors[..., None])[..., 0]


def _validate(transitions: TransitionBatch, states: State, latents: Tensor) -> None:
    validate(transitions[0], states)
    positions = len(transitions)
    for name, entry in states.items():
        if entry.ndim == 0 or len(entry) != positions:
            raise InputError(
                f"state entry {name!r} has shape {tuple(entry.shape)}; "
                f"give one state for each of the {positions} positions"
            )
    validate_maps(transitions[0], {name: entry[0] for name, entry in states.items()})
    expected = (positions, transitions.latent_size)
    if latents.shape != expected or latents.dtype != torch.float64:
        raise InputError(
            f"latents has shape {tuple(latents.shape)} and type {latents.dtype}; "
            f"give a float64 tensor of shape {expected}"
        )
