"""How a small error spreads along a sequence from sweep to sweep of the simultaneous mode.

The sweeps z ← 𝒯(z) are linearised at the fixed point z* of the sequence. With M = (1 − τ) I + τ ∂zΦ,
P = τ ∂sΦ, A = ∂sG, B = ∂zG at every token, an error of the latents and states in sweep k becomes

    e_t^(k+1) = M_t e_t^(k) + P_t d_{t−1}^(k) ,      d_t^(k) = A_t d_{t−1}^(k) + B_t e_t^(k) .

Multiplied by ω^k and summed over k, the sweeps turn into one pass over the tokens:

    d̂_t(ω) = J_t(ω) d̂_{t−1}(ω) + … ,      J_t(ω) = A_t + ω B_t (I − ω M_t)^{-1} P_t .

J_t(1) is the state-to-state Jacobian ds'/ds of Theorem 1, as I − M = τ (I − ∂zΦ). If the products of the
J_t(ω) grow by at most e^Λ(r) per token on the circle |ω| = r > 1, an error at token t is at most of the order
of r^(−k) e^{Λ(r) t} after k sweeps (Cauchy's bound): a front that moves by log r / Λ(r) tokens per sweep, or
no front at all where Λ(r) < 0. ``docs/when_modes_agree.md`` has the proof, Theorem 5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import vmap

from automata.errors import InputError
from theory.blocks import real_entries
from theory.forward_mode import jacobian, jvp
from theory.transition import State, TokenInputs, TransitionBatch

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearResponse:
    """How a change of the state before the first token grows along sequences, at several ω.

    Attributes:
        frequencies: ω, complex ``[F]``.
        growth: log ‖d̂_t‖ / ‖d̂_{t−1}‖, ``[F, B, T]``.
        spectral_radii: of M_t, ``[B, T]``: d̂(ω) is the sum over sweeps for |ω| < 1 / spectral radius only.

    Example:
        >>> growth = np.log(np.full((1, 1, 4), 0.5))
        >>> LinearResponse(np.ones(1, complex), growth, np.zeros((1, 4))).exponents(skip=2).round(3).tolist()
        [-0.693]
    """

    frequencies: NDArray[np.complex128]
    growth: FloatArray
    spectral_radii: FloatArray

    def exponents(self, skip: int = 0) -> FloatArray:
        """Return the mean growth per token at every ω, without the first tokens, where directions align."""
        mean: FloatArray = self.growth[..., skip:].mean(axis=(1, 2))
        return mean

    def circle_exponents(self, skip: int = 0) -> tuple[FloatArray, FloatArray]:
        """Return the radii |ω|, ascending, and the largest exponent on each circle."""
        radii = np.abs(self.frequencies).round(12)
        exponents = self.exponents(skip)
        distinct = np.unique(radii)
        return distinct, np.array([exponents[radii == radius].max() for radius in distinct])


def linear_speed(
    radii: Sequence[float] | FloatArray, exponents: Sequence[float] | FloatArray, spectral_radius: float = 0.0
) -> float:
    """Return the speed of the linear front, in tokens per sweep: the largest log r / Λ(r) over r > 1.

    The speed is infinite if the exponent Λ(r) is negative at some r > 1: small errors then vanish at all
    tokens together. Radii of at most 1 are left out, and those with r·ρ of at least 1 for the spectral radius
    ρ, where the response is that of no sweeps. NaN if none is left; InputError if no radius exceeds 1.

    Example:
        >>> linear_speed([1.0, 2.0], [-0.1, math.log(2)]), linear_speed([1.1], [-0.1])
        (1.0, inf)
        >>> linear_speed([1.1, 2.0], [math.log(1.1), -1], 0.9), linear_speed([2.0], [-1], 0.9)
        (1.0, nan)
    """
    pairs = [(r, value) for r, value in zip(radii, exponents, strict=True) if r > 1]
    if not pairs:
        raise InputError(f"radii is {list(radii)}; give at least one above 1")
    speeds = [
        math.inf if value <= 0 else math.log(r) / value for r, value in pairs if r * spectral_radius < 1
    ]
    return float(np.max(speeds)) if speeds else math.nan  # NaN if one is


@torch.no_grad()
def linear_response(
    transitions: TransitionBatch, states: State, latents: Tensor, frequencies: Sequence[complex], start: State
) -> LinearResponse:
    """Follow a change of the state before the first token along sequences, at several ω.

    InputError for latents that are no ``[B, T, latent_size]`` in float64, or a state of integers.

    Args:
        transitions: (Φ, G) at the B · T positions of B sequences, one sequence after the other.
        states: s before the tokens at the fixed point, each entry ``[B, T, …]``.
        latents: the fixed points z*, ``[B, T, latent_size]``, float64.
        frequencies: ω.
        start: the change, each entry as in one state, the same for all sequences.

    Example:
        s' = s/2 + z with z ← z/2 + s/4: J(ω) = 1/2 + (ω/4) / (1 − ω/2).

        >>> transitions = TransitionBatch(
        ...     advance=lambda z, s, x: (z / 2 + s["h"] / 4, {"h": s["h"] / 2 + z}),
        ...     inputs={"x": torch.zeros(3)},
        ...     latent_size=1,
        ...     layer_states=(("h",),),
        ... )
        >>> zeros = torch.zeros(1, 3, 1, dtype=torch.float64)
        >>> found = linear_response(transitions, {"h": zeros}, zeros, [1.0], {"h": torch.ones(1).double()})
        >>> np.exp(found.growth).round(6).tolist()
        [[[1.0, 1.0, 1.0]]]
    """
    if latents.ndim != 3 or latents.shape[-1] != transitions.latent_size or latents.dtype != torch.float64:
        raise InputError(
            f"latents has shape {tuple(latents.shape)} and type {latents.dtype}; give float64 "
            f"[sequences, tokens, {transitions.latent_size}]"
        )
    if set(real_entries(states)) != set(states):
        raise InputError("states has entries of integers; give a model whose state holds real numbers only")
    omega = torch.tensor(list(frequencies), dtype=torch.complex128)
    sequences, tokens, size = latents.shape
    shape = (len(omega), sequences)
    size_of_start = torch.cat([entry.flatten() for entry in start.values()]).norm()
    change = {
        name: (entry / size_of_start).to(torch.complex128).expand(*shape, *entry.shape)
        for name, entry in start.items()
    }
    still = (
        torch.zeros(*shape, size, dtype=torch.complex128),
        {n: torch.zeros_like(c) for n, c in change.items()},
    )
    inputs = {name: entry.unflatten(0, (sequences, tokens)) for name, entry in transitions.inputs.items()}

    def slopes(latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        return jacobian(lambda z: transitions.advance(z, state, inputs)[0], latent)

    def along(latent: Tensor, state: State, inputs: TokenInputs, dz: Tensor, ds: State) -> Any:
        return jvp(lambda z, s: transitions.advance(z, s, inputs), (latent, state), (dz, ds))[1]

    def push(here: tuple[Tensor, State, TokenInputs], dz: Tensor, ds: State) -> tuple[Tensor, State]:
        """Φ and G along complex changes ``[F, B, …]``: along their two parts."""
        split = {name: torch.cat([part.real, part.imag]) for name, part in ds.items()}
        over_both = vmap(vmap(along), in_dims=(None, None, None, 0, 0))
        image, following = over_both(*here, torch.cat([dz.real, dz.imag]), split)
        joined = {name: torch.complex(*part.chunk(2)) for name, part in following.items()}
        return torch.complex(*image.chunk(2)), joined

    identity = torch.eye(size, dtype=torch.complex128)
    growth, radii = [], []
    for t in range(tokens):
        here = latents[:, t], _at(states, t), _at(inputs, t)
        slope = (1 - transitions.damping) * torch.eye(size).double()
        slope = slope + transitions.damping * vmap(slopes)(*here)
        known = slope.isfinite().all(dim=-1).all(dim=-1)[:, None, None]  # elsewhere all is NaN
        radius = torch.linalg.eigvals(torch.where(known, slope, 0.0)).abs().amax(dim=-1) if size else None
        radii.append(
            slope.new_zeros(sequences) if radius is None else torch.where(known[:, 0, 0], radius, math.nan)
        )
        image, direct = push(here, still[0], change)
        source = omega[:, None, None] * transitions.damping * image
        system = identity - omega[:, None, None, None] * slope
        response, singular = torch.linalg.solve_ex(system, source[..., None])
        response = torch.where((singular > 0)[..., None, None], math.nan, response)
        _, through = push(here, response[..., 0], still[1])
        change = {name: direct[name] + through[name] for name in change}
        norm = torch.stack([part.flatten(2).abs().square().sum(-1) for part in change.values()]).sum(0).sqrt()
        growth.append(norm.log())
        change = {name: part / norm[(..., *[None] * (part.ndim - 2))] for name, part in change.items()}
    return LinearResponse(omega.numpy(), torch.stack(growth, -1).numpy(), torch.stack(radii, -1).numpy())


def _at(entries: State, t: int) -> State:
    return {name: entry[:, t] for name, entry in entries.items()}
