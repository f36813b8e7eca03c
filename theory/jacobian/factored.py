"""The state-to-state Jacobian by the implicit function theorem, kept in factors.

    ds'/ds = ∂sG + ∂zG (I − ∂zΦ)^{-1} ∂sΦ      all at z*

The rank of the second term is at most the size of z and the first is diagonal in every SSM, so a block of
many thousands of states is stored as a vector and two thin matrices. A first term that is not diagonal, such
as an LSTM's, is found by measurement and stored as a matrix.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.func import vmap

from automata.checks import checked
from automata.errors import InputError
from theory.blocks import BlockMap, check_image, random_signs, real_entries, slices, validate
from theory.fixed_point import EPSILON, check_latent
from theory.forward_mode import MAX_CHUNK_ENTRIES, directional, jacobian, jacobian_by_rows, jvp
from theory.pure_maps import called, differentiating, without_derivative
from theory.transition import State, Transition


@dataclass(frozen=True, eq=False)
class FactoredJacobian:
    """The matrix J = D + L R, with D diagonal or dense and L R of low rank.

    Attributes:
        direct: D = ∂vG, shape ``[n]`` for a diagonal, else ``[n, n]``.
        left: L = ∂zG, shape ``[n, d]``.
        right: R = (I − ∂zΦ)^{-1} ∂vΦ, shape ``[d, n]``.
        diagonality_error: an estimate of ‖∂vG − D‖_F when D is stored as a diagonal, from random probes.

    Example:
        >>> import torch
        >>> J = FactoredJacobian(torch.tensor([3.0, 4.0]), torch.ones(2, 1), torch.tensor([[0.0, 1.0]]))
        >>> J.dense()
        tensor([[3., 1.],
                [0., 5.]])
        >>> J.diagonal(), J.matvec(torch.ones(2))
        (tensor([3., 5.]), tensor([4., 5.]))
    """

    direct: Tensor
    left: Tensor
    right: Tensor
    diagonality_error: float = 0.0

    @property
    def size(self) -> int:
        """The number n of states in the block."""
        return self.left.shape[0]

    @property
    def has_diagonal_direct_term(self) -> bool:
        """Return whether D is stored as a diagonal."""
        return self.direct.ndim == 1

    @cached_property
    def coupling(self) -> "FactoredJacobian":
        """The second term alone, L R: the part of J that goes through the fixed point."""
        return FactoredJacobian(self.left.new_zeros(self.size), self.left, self.right)

    def matvec(self, vector: Tensor) -> Tensor:
        """Return J v."""
        direct = self.direct * vector if self.has_diagonal_direct_term else self.direct @ vector
        return direct + self.left @ (self.right @ vector)

    def magnitude(self, vector: Tensor) -> Tensor:
        """Return |D| |v| + |L| |R| |v|: with ε it bounds what rounding leaves of J v."""
        absolute = FactoredJacobian(self.direct.abs(), self.left.abs(), self.right.abs())
        return absolute.matvec(vector.abs())

    def diagonal(self) -> Tensor:
        """Return the diagonal of J, shape ``[n]``."""
        direct = self.direct if self.has_diagonal_direct_term else self.direct.diagonal()
        return direct + (self.left * self.right.mT).sum(dim=1)

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the rows ``start`` to ``stop`` of J as a dense matrix, shape ``[stop − start, n]``."""
        result = self.left[start:stop] @ self.right
        if self.has_diagonal_direct_term:
            result.diagonal(offset=start).add_(self.direct[start:stop])
            return result
        return result.add_(self.direct[start:stop])

    def dense(self) -> Tensor:
        """Return J as a dense matrix, shape ``[n, n]``."""
        return self.rows(0, self.size)

    def frobenius_norm(self) -> float:
        """Return ‖J‖_F."""
        return math.hypot(*self._norms)

    def off_diagonal_norm(self) -> float:
        """Return ‖J − diag J‖_F, summed over the entries, or from the factors where little cancels there."""
        return self._norms[1]

    def off_diagonal_mass(self) -> float:
        """Return ‖J − diag J‖_F / ‖J‖_F, and 0 for the zero matrix, which is diagonal."""
        norm = self.frobenius_norm()
        return self.off_diagonal_norm() / norm if norm > 0 else 0.0

    def __sub__(self, other: "FactoredJacobian") -> "FactoredJacobian":
        if self.has_diagonal_direct_term and other.has_diagonal_direct_term:
            direct = self.direct - other.direct
        else:
            direct = _as_matrix(self.direct) - _as_matrix(other.direct)
        left = torch.cat([self.left, -other.left], dim=1)
        right = torch.cat([self.right, other.right], dim=0)
        return FactoredJacobian(
            direct, left, right, math.hypot(self.diagonality_error, other.diagonality_error)
        )

    @cached_property
    def _norms(self) -> tuple[float, float]:
        """The 2-norms of the diagonal entries and of all the others, in chunks of rows."""
        diagonal = off_diagonal = 0.0
        if self.has_diagonal_direct_term and self.size**2 > MAX_CHUNK_ENTRIES:
            others = self._off_diagonal_norm_from_factors()
            if others is not None:
                return self.diagonal().norm().item(), others
        count = max(1, MAX_CHUNK_ENTRIES // max(1, self.size))
        for start in range(0, self.size, count):
            chunk = self.rows(start, min(start + count, self.size))
            entries = chunk.diagonal(offset=start)
            diagonal = math.hypot(diagonal, entries.norm().item())
            entries.zero_()
            off_diagonal = math.hypot(off_diagonal, chunk.norm().item())
        return diagonal, off_diagonal

    def _off_diagonal_norm_from_factors(self) -> float | None:
        """The 2-norm of what L R has off the diagonal, without its n² entries; None if too much cancels.

        With L = Q T, Q orthogonal, ‖L R‖_F = ‖T R‖_F; the diagonal is taken off its square.
        """
        triangle = torch.linalg.qr(self.left, mode="r").R
        whole = (triangle @ self.right).norm().item()
        diagonal = (self.left * self.right.mT).sum(dim=1).norm().item()
        squares = whole**2 - diagonal**2
        # Their errors are of order ‖T‖ ‖R‖ ε and ‖L R‖² ε. Ten bits may cancel: twelve digits are left then.
        bound = triangle.norm().item() * self.right.norm().item()
        precise = 0 < bound <= 1024 * whole and whole**2 <= 1024 * squares
        return math.sqrt(squares) if precise else None


@dataclass(frozen=True, eq=False)
class FullStateJacobian:
    """The dense Jacobian of the whole state, window included, and where each entry lies in it.

    Attributes:
        matrix: ds'/ds, shape ``[m, m]``.
        slices: for each state entry its rows and columns.

    Example:
        >>> full = FullStateJacobian(torch.eye(3), {"h": slice(0, 2), "window": slice(2, 3)})
        >>> full.block("h", "window")
        tensor([[0.],
                [0.]])
    """

    matrix: Tensor
    slices: Mapping[str, slice]

    def block(self, output: str, source: str) -> Tensor:
        """Return ∂output'/∂source for two names of state entries."""
        return self.matrix[self.slices[output], self.slices[source]]


@checked
def latent_jacobian(transition: Transition, state: State, latent: Tensor) -> Tensor:
    """Return ∂zΦ at a latent, shape ``[latent_size, latent_size]``.

    InputError if Φ raises, changes what it is given, or cannot be differentiated.

    Example:
        >>> transition = Transition(lambda z, s: z**2 / 2, lambda z, s: s, 2, (("h",),))
        >>> latent_jacobian(transition, {}, torch.tensor([0.25, 0.5]))
        tensor([[0.2500, 0.0000],
                [0.0000, 0.5000]])
    """
    if transition.latent_size:
        with torch.no_grad():
            check_image(called("self_map", transition.self_map, latent, state), latent)
    try:
        return jacobian(lambda z: transition.self_map(z, state), latent)
    except RuntimeError as error:
        raise without_derivative("self_map", error) from error


def layer_jacobians(transition: Transition, state: State, latent: Tensor) -> tuple[FactoredJacobian, ...]:
    """Return for each layer the block ∂v'/∂v of ds'/ds, everything else in the state held fixed.

    The latent is the fixed point z*; elsewhere the formula has no meaning. States have no batch axis.
    InputError if the state cannot be used, if Φ or G raises, changes what it is given or cannot be
    differentiated, or if I − ∂zΦ is singular.

    Example:
        Φ = a z + b h and G = λ h + c z have z* = b h / (1 − a) and h' = (λ + c b / (1 − a)) h.

        >>> transition = Transition(
        ...     self_map=lambda z, s: 0.5 * z + 3 * s["h"],
        ...     state_update=lambda z, s: {"h": 0.25 * s["h"] + z},
        ...     latent_size=1,
        ...     layer_states=(("h",),),
        ... )
        >>> h = torch.ones(1, dtype=torch.float64)
        >>> layer_jacobians(transition, {"h": h}, 6 * h)[0].dense()
        tensor([[6.2500]], dtype=torch.float64)
    """
    return layer_jacobians_with(None, transition, state, latent)


def layer_jacobians_with(
    slope: Tensor | None, transition: Transition, state: State, latent: Tensor
) -> tuple[FactoredJacobian, ...]:
    """Return `layer_jacobians` where ∂zΦ is known, as `latent_jacobian` gives it."""
    validate(transition, state)
    check_latent("latent", latent, transition)
    names = tuple(dict.fromkeys(name for layer in transition.layer_states for name in layer))
    offsets = slices({name: state[name] for name in names})
    result = []
    with differentiating(transition, state, latent, names):
        left, right = _latent_factors(BlockMap(transition, state, names), latent, slope)
        for layer in transition.layer_states:
            index = torch.cat([torch.arange(offsets[name].start, offsets[name].stop) for name in layer])
            block = BlockMap(transition, state, layer)
            direct, error = _direct_term(block, latent)
            result.append(FactoredJacobian(direct, left[index], right[:, index], error))
    return tuple(result)


def full_state_jacobian(transition: Transition, state: State, latent: Tensor) -> FullStateJacobian:
    """Return ds'/ds for all real entries of the state as one dense matrix, the square of the state's size.

    InputError as `layer_jacobians`.

    Example:
        A window that feeds the state: h' = 2 h + w and w' = w / 2.

        >>> transition = Transition(
        ...     self_map=lambda z, s: z,
        ...     state_update=lambda z, s: {"h": 2 * s["h"] + s["w"], "w": s["w"] / 2},
        ...     latent_size=0,
        ...     layer_states=(("h",),),
        ... )
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> full_state_jacobian(transition, {"h": one, "w": one}, one[:0]).matrix
        tensor([[2.0000, 1.0000],
                [0.0000, 0.5000]], dtype=torch.float64)
    """
    validate(transition, state)
    check_latent("latent", latent, transition)
    block = BlockMap(transition, state, real_entries(state))
    with differentiating(transition, state, latent, block.names):
        left, right = _latent_factors(block, latent)
        direct = jacobian(lambda vector: block.state_update(latent, vector), block.vector)
    return FullStateJacobian(direct + left @ right, slices({name: state[name] for name in block.names}))


def block_derivatives(
    block: BlockMap, latent: Tensor, slope: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return ∂zΦ, ∂zG and ∂vΦ for the block; ∂zΦ may be known."""
    vector = block.vector
    if slope is None or not latent.numel():
        return latent_derivatives(
            lambda z, v: (block.self_map(z, v), block.state_update(z, v)), latent, vector
        )
    left = jacobian(lambda z: block.state_update(z, vector), latent)
    return slope, left, jacobian_by_rows(lambda v: block.self_map(latent, v), vector)


def _latent_factors(block: BlockMap, latent: Tensor, slope: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return ∂zG and (I − ∂zΦ)^{-1} ∂vΦ for the block."""
    slope, left, source = block_derivatives(block, latent, slope)
    identity = torch.eye(latent.numel(), dtype=latent.dtype, device=latent.device)
    right, singular = torch.linalg.solve_ex(identity - slope, source)
    if singular.item():
        raise InputError("I − ∂zΦ is singular at this latent; the Jacobian does not exist there")
    return left, right


def _direct_term(block: BlockMap, latent: Tensor) -> tuple[Tensor, float]:
    """Return ∂vG as a diagonal with its measured error, or as a matrix if random probes contradict that."""
    update, vector = partial(block.state_update, latent), block.vector
    signs = random_signs(3, vector.numel(), vector)
    columns = signs[:0]
    if vector.numel() <= SMALL:
        columns = torch.eye(vector.numel(), dtype=vector.dtype, device=vector.device)
    products = probe_direct_term(update, vector, torch.cat([signs, columns]))
    products, matrix = products[: 1 + len(signs)], products[1 + len(signs) :].mT
    is_diagonal, error = diagonality(products, signs)
    if not is_diagonal.item():
        return (matrix if len(columns) else jacobian(update, vector)), 0.0
    return products[0], error.item()


SMALL = 16
"""Up to this many entries a first term is also computed as a matrix with the probes, in one batch."""


Advance = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(z, v) ↦ (Φ(z; v), G(z; v)): latent and block as vectors of d and n entries."""


@torch.no_grad()
def latent_derivatives(advance: Advance, latent: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ∂zΦ, ∂zG and ∂vΦ, shapes ``[d, d]``, ``[n, d]`` and ``[d, n]``.

    The first two by forward mode together, one derivative for each entry of z; the third by reverse mode.
    """
    size, entries = latent.numel(), vector.numel()
    if size == 0:  # an explicit model: s' does not go through a fixed point
        return latent.new_zeros(0, 0), vector.new_zeros(entries, 0), vector.new_zeros(0, entries)

    def along(direction: Tensor) -> tuple[Tensor, Tensor]:
        return jvp(lambda z: advance(z, vector), (latent,), (direction,))[1]

    identity = torch.eye(size, dtype=latent.dtype, device=latent.device)
    # Not out_dims=1: vmap fails there on an output that does not depend on z.
    slopes, lefts = vmap(along)(identity)
    return slopes.mT, lefts.mT, jacobian_by_rows(lambda v: advance(latent, v)[0], vector)


def probe_direct_term(update: Callable[[Tensor], Tensor], vector: Tensor, signs: Tensor) -> Tensor:
    """Return ∂vG applied to ones and to random signs, ``[1 + k, n]``; a diagonal ∂vG is the first row."""
    return directional(update, vector, torch.cat([torch.ones_like(vector)[None], signs]))


def diagonality(products: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    """Say whether products ``[…, 1 + k, n]`` of :func:`probe_direct_term` are those of a diagonal matrix D.

    They are up to rounding; with it comes the estimate of ‖∂vG − D‖_F. Each has the shape ``[…]``.
    """
    deviation = products[..., 1:, :] - signs * products[..., :1, :]
    # The products of a diagonal term differ in the last places only; what is tolerated here is also returned.
    tolerance = 100 * EPSILON * products.abs().amax(dim=(-2, -1))
    error = torch.linalg.matrix_norm(deviation) / math.sqrt(len(signs))
    return deviation.abs().amax(dim=(-2, -1)) <= tolerance, error


def _as_matrix(direct: Tensor) -> Tensor:
    return direct.diag() if direct.ndim == 1 else direct
