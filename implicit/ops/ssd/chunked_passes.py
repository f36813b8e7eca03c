"""Forward and backward pass of the chunked SSD scan, written by hand for a CPU.

Reads and writes of memory decide the time. So chunks, small enough for the cache, are handled one after the
other and in place; numbers per token and head are computed beforehand.

Within a chunk of l tokens, with the state S before it, u = Δ x and a_i = Σ_{s ≤ i} Δ_s A:

    y_i = Σ_{j ≤ i} M_ij u_j + e^{a_i} S C_i        M_ij = e^{a_i − a_j} (C_i · B_j)
    S'  = Σ_j v_j B_jᵀ + e^{a_l} S                  v_j = e^{a_l − a_j} u_j

Axes in comments: b batch, l tokens of the chunk, h heads, p head_size, n state_size, g groups, r heads of a
group. Neighbours are written together: [bg, l, rp] has three axes.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.hand_written_passes import not_finite_sequences
from implicit.ops.ssd.reference import ssd_reference

LOG2_E = math.log2(math.e)


class Decays(NamedTuple):
    """Exponentials of the sums of Δ A within chunks."""

    total: Tensor  # a log2(e), ``[batch, heads, chunks, chunk_size]``, float64
    since_start: Tensor  # e^{a_i}, ``[batch, length, heads, 1]``
    until_end: Tensor  # e^{a_l − a_i}, the same shape
    of_chunk: Tensor  # e^{a_l}, ``[batch, heads, 1, 1, chunks]``

    @classmethod
    def of(cls, dt: Tensor, A: Tensor, chunk_size: int, dtype: torch.dtype) -> "Decays":
        """Compute them from Δ ``[batch, length, heads]`` and A ``[heads]``."""
        length = dt.shape[1]
        # In float64 because only differences are used: tokens that reset the state drive the sum to −10⁴,
        # where float32 keeps three digits of what follows them. In base 2 because torch.exp takes 5 to 20
        # times as long as torch.exp2 on a CPU. A last chunk that is shorter is filled up with Δ = 0.
        rates = (dt.double() * (A.double() * LOG2_E)).mT
        total = functional.pad(rates, (0, -length % chunk_size)).unflatten(-1, (-1, chunk_size)).cumsum(-1)

        def by_token(exponents: Tensor) -> Tensor:
            return exponents.flatten(2)[..., :length].mT.to(dtype).exp2().contiguous()[..., None]

        end = total[..., -1:]
        of_chunk = end.movedim(2, -1)[..., None, :].to(dtype).exp2()
        return cls(total, by_token(total), by_token(end - total), of_chunk)

    def between(self, chunk: int, size: int) -> Tensor:
        """e^{a_i − a_j} from token j to token i ≥ j of a chunk, ``[b, h, l, l]``; at most 1 where i < j."""
        total = self.total[:, :, chunk, :size]
        difference = (total[..., :, None] - total[..., None, :]).to(self.since_start.dtype)
        return difference.clamp_(max=0).exp2_()  # for i < j it is positive, and the power could overflow


def forward(
    chunk_size: int, x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Outputs and final state; arguments as of `ssd_chunked`, all of one dtype."""
    groups = B.shape[2]
    decays = Decays.of(dt, A, chunk_size, x.dtype)
    into_state = decays.until_end * dt[..., None]
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    state = initial_state
    for number, tokens in enumerate(_chunks(x, chunk_size)):
        x_chunk, b, c = x[:, tokens], _rows(B[:, tokens]), _rows(C[:, tokens])
        mixing = decays.between(number, x_chunk.shape[1])
        _by_group(mixing, groups).mul_((c @ b.mT).tril_()[:, None])
        inside = _tokens_first(mixing.flatten(0, 1) @ _rows(x_chunk, dt[:, tokens]), x_chunk)
        if state is None:
            y[:, tokens] = inside
        else:
            carried = _split_heads(c @ _as_matrix(state, groups).mT, x_chunk)
            torch.mul(carried, decays.since_start[:, tokens], out=y[:, tokens]).add_(inside)
        v = _merge_heads(x_chunk * into_state[:, tokens], groups)
        state = _state_after(state, decays.of_chunk[..., number], v, b, x_chunk)
    assert state is not None  # sequences are not empty
    rows = not_finite_sequences(y)
    if rows is not None:
        before = None if initial_state is None else initial_state[rows]
        y[rows], state[rows] = ssd_reference(x[rows], dt[rows], A, B[rows], C[rows], before)
    return y, state


def backward(
    chunk_size: int,
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None,
    y_dot: Tensor | None,
    state_dot: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, Δ, A, B, C and the initial state, from those of the outputs and the final state.

    A dot marks a gradient: ẏ of the outputs, Ṡ' of the state after the chunk, Ṡ of the one before it.
    With w_i = e^{a_i} ẏ_i:

        u̇_j = Σ_i M_ij ẏ_i + e^{a_l − a_j} Ṡ' B_j                                          (1)
        Ċ_i = Σ_j P_ij B_j + Sᵀ w_i             P_ij = Σ_heads e^{a_i − a_j} (ẏ_i · u_j)    (2)
        Ḃ_j = Σ_i P_ij C_i + Ṡ'ᵀ v_j                                                       (3)
        Ṡ   = Σ_i w_i C_iᵀ + e^{a_l} Ṡ'                                                    (4)
        ȧ_i = Σ_j (G_ij − G_ji) − K_i + w_i · S C_i       G_ij = M_ij (ẏ_i · u_j), i ≠ j    (5)
        ȧ_l has Σ_j K_j + e^{a_l} Ṡ' · S besides          K_j = v_j · Ṡ' B_j                (6)

    Each part of (5) vanishes with its decay. The shorter ȧ_i = ẏ_i · y_i − u̇_i · u_i does not: at tokens
    that reset the state it would leave the rounding error of two large numbers. The sums over ȧ in the
    gradients of Δ and A meet every G_ij and K_j with both signs, so that ȧ is added up in float64.
    """
    groups = B.shape[2]
    decays = Decays.of(dt, A, chunk_size, x.dtype)
    into_state = decays.until_end * dt[..., None]
    states = _states_before(x, B, into_state, decays, initial_state, chunk_size)
    x_dot, dt_dot, B_dot, C_dot = (
        torch.empty_like(part, memory_format=torch.contiguous_format) for part in (x, dt, B, C)
    )
    y_dot = torch.zeros_like(x) if y_dot is None else y_dot
    if state_dot is None:
        state_dot = x.new_zeros(len(x), *x.shape[2:], B.shape[3])
    after = state_dot.contiguous()  # Ṡ'
    a_dot = torch.zeros_like(decays.total)
    for number, tokens in reversed(list(enumerate(_chunks(x, chunk_size)))):
        x_chunk, b, c = x[:, tokens], _rows(B[:, tokens]), _rows(C[:, tokens])
        state, of_chunk = states[number], decays.of_chunk[..., number]
        after_matrix = _as_matrix(after, groups)
        a_chunk = a_dot[:, :, number, : x_chunk.shape[1]]

        decay, scores = decays.between(number, x_chunk.shape[1]), c @ b.mT
        y_rows = _rows(y_dot[:, tokens])
        pairs = (y_rows @ _rows(x_chunk, dt[:, tokens]).mT).view_as(decay).mul_(decay)
        P = _by_group(pairs, groups).sum(1).tril_()
        _by_group(pairs, groups).mul_(scores.tril(-1)[:, None])
        G = pairs.double()
        a_chunk += G.sum(-1) - G.sum(-2)
        _by_group(decay, groups).mul_(scores.tril_()[:, None])  # M
        inside = _tokens_first(decay.flatten(0, 1).mT @ y_rows, x_chunk)

        v, v_dot = x_chunk * into_state[:, tokens], _split_heads(b @ after_matrix.mT, x_chunk)
        K = (v * v_dot).sum(-1).mT.double()
        a_chunk -= K
        a_chunk[..., -1] += K.sum(-1)
        u_dot = v_dot.mul_(decays.until_end[:, tokens]).add_(inside)  # (1)
        torch.mul(u_dot, dt[:, tokens, :, None], out=x_dot[:, tokens])
        dt_dot[:, tokens] = u_dot.mul_(x_chunk).sum(-1)
        b_dot = (P.mT @ c).baddbmm_(_merge_heads(v, groups), after_matrix)  # (3)
        c_dot = P @ b  # (2), and below with a state
        if state is not None:
            w = y_dot[:, tokens] * decays.since_start[:, tokens]
            state_matrix = _as_matrix(state, groups)
            c_dot.baddbmm_(_merge_heads(w, groups), state_matrix)
            a_chunk[..., -1] += (after * state).sum((-1, -2)) * of_chunk[..., 0, 0]  # (6)
            a_chunk += _split_heads(c @ state_matrix.mT, x_chunk).mul_(w).sum(-1).mT
            after = _state_after(after, of_chunk, _merge_heads(w, groups), c, x_chunk)  # (4)
        B_dot[:, tokens] = b_dot.unflatten(0, (-1, groups)).transpose(1, 2)
        C_dot[:, tokens] = c_dot.unflatten(0, (-1, groups)).transpose(1, 2)

    # a_i holds every Δ_s A with s ≤ i of its chunk.
    sums = a_dot.flip(-1).cumsum(-1).flip(-1).flatten(2)[..., : x.shape[1]].mT  # [b, length, h]
    dt_dot += sums * A
    A_dot = (sums * dt).sum((0, 1)).to(A.dtype)
    return x_dot, dt_dot, A_dot, B_dot, C_dot, None if initial_state is None else after


def _states_before(
    x: Tensor, B: Tensor, into_state: Tensor, decays: Decays, initial_state: Tensor | None, chunk_size: int
) -> list[Tensor | None]:
    """The state before every chunk, None for an absent initial state."""
    states = [initial_state]
    for number, tokens in enumerate(_chunks(x, chunk_size)[:-1]):
        v = _merge_heads(x[:, tokens] * into_state[:, tokens], B.shape[2])
        of_chunk = decays.of_chunk[..., number]
        states.append(_state_after(states[-1], of_chunk, v, _rows(B[:, tokens]), x))
    return states


def _state_after(state: Tensor | None, of_chunk: Tensor, v: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """Σ_j v_j b_jᵀ + e^{a_l} S with v [bg, l, rp] and b [bg, l, n]; x tells batch, heads and head_size."""
    if state is None:
        return (v.mT @ b).view(len(x), *x.shape[2:], -1)
    decayed = (state * of_chunk).contiguous()
    _as_matrix(decayed, len(b) // len(x)).baddbmm_(v.mT, b)
    return decayed


def _chunks(x: Tensor, chunk_size: int) -> list[slice]:
    """The tokens of every chunk."""
    return [slice(start, start + chunk_size) for start in range(0, x.shape[1], chunk_size)]


def _rows(part: Tensor, factor: Tensor | None = None) -> Tensor:
    """[b, l, h, p], times a factor [b, l, h] if there is one, as [bh, l, p]."""
    if factor is None:
        return part.transpose(1, 2).flatten(0, 1)
    batch, length, heads, size = part.shape
    rows = part.new_empty(batch, heads, length, size)
    return torch.mul(part.transpose(1, 2), factor.mT[..., None], out=rows).flatten(0, 1)


def _tokens_first(rows: Tensor, like: Tensor) -> Tensor:
    """[bh, l, p] as [b, l, h, p]."""
    return rows.unflatten(0, (len(like), -1)).transpose(1, 2)


def _merge_heads(part: Tensor, groups: int) -> Tensor:
    """[b, l, h, p] as [bg, l, rp]."""
    return part.unflatten(2, (groups, -1)).transpose(1, 2).flatten(3).flatten(0, 1)


def _split_heads(merged: Tensor, like: Tensor) -> Tensor:
    """[bg, l, rp] as [b, l, h, p]."""
    return merged.unflatten(0, (len(like), -1)).transpose(1, 2).reshape(like.shape)


def _by_group(part: Tensor, groups: int) -> Tensor:
    """[b, h, …] as [bg, r, …], a view."""
    return part.view(len(part) * groups, -1, *part.shape[2:])


def _as_matrix(state: Tensor, groups: int) -> Tensor:
    """[b, h, p, n] as [bg, rp, n]."""
    return state.reshape(len(state) * groups, -1, state.shape[-1])
