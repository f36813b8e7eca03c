"""Which entry of ∂h'/∂h to prove something about: one off the diagonal that is large.

The matrix itself, of n² entries with n in the thousands, is not formed. Random covectors, pulled back through
the fixed point to h, show the columns that matter; the derivative of G along one shows its rows.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vjp, vmap

from theory.blocks import flatten, random_signs, replace
from theory.forward_mode import jvp
from theory.transition import State, TokenInputs, TransitionBatch

PROBES = 4
"""Random covectors that the norms of the columns are estimated from."""


@torch.no_grad()
def coupling_entries(
    transitions: TransitionBatch, states: State, latents: Tensor, slopes: Tensor
) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return per layer the row and the column of a large off-diagonal entry of ∂h'/∂h at each position.

    Rows and columns, int64 ``[T]``, differ; where I − ∂zΦ is singular they mean nothing. States are those
    before their tokens, each entry ``[T, …]``, latents the fixed points, ``[T, d]``, and slopes ∂zΦ there.

    Example:
        Φ = h₀ and h' = h / 2 + (0, z): the one entry off the diagonal is that of h'₁ by h₀.

        >>> unit = torch.tensor([0.0, 1.0], dtype=torch.float64)
        >>> transitions = TransitionBatch(
        ...     advance=lambda z, s, x: (s["h"][:1] * x["x"], {"h": s["h"] / 2 + z * unit}),
        ...     inputs={"x": torch.ones(1, dtype=torch.float64)},
        ...     latent_size=1,
        ...     layer_states=(("h",),),
        ... )
        >>> zero = torch.zeros(1, 1, dtype=torch.float64)
        >>> coupling_entries(transitions, {"h": zero.repeat(1, 2)}, zero, zero[..., None])
        ((tensor([1]), tensor([0])),)
    """
    system = torch.eye(transitions.latent_size, dtype=latents.dtype, device=latents.device) - slopes
    here = (latents, states, transitions.inputs)
    return tuple(_entry(transitions.advance, names, system, here) for names in transitions.layer_states)


def _entry(
    advance: Callable[[Tensor, State, TokenInputs], tuple[Tensor, State]],
    names: tuple[str, ...],
    system: Tensor,
    here: tuple[Tensor, State, TokenInputs],
) -> tuple[Tensor, Tensor]:
    """Row and column at each position, for the block of one layer."""

    def image(vector: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        return advance(latent, replace(state, names, vector), inputs)[0]

    def pulled_back(covector: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        pull = vjp(lambda v: image(v, latent, state, inputs), flatten(state, names))[1]
        return pull(covector)[0]

    def pushed(direction: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        vector = flatten(state, names)
        return jvp(lambda v: image(v, latent, state, inputs), (vector,), (direction,))[1]

    def updated(direction: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
        return jvp(lambda z: flatten(advance(z, state, inputs)[1], names), (latent,), (direction,))[1]

    latents = here[0]
    signs = random_signs(PROBES, latents.shape[1], latents).mT.expand(len(latents), -1, -1)
    covectors, _ = torch.linalg.solve_ex(system.mT, signs)
    # E (wᵀ X)_j² is the squared norm of column j of X = (I − ∂zΦ)⁻¹ ∂hΦ
    sources = sum(vmap(pulled_back)(covectors[..., probe], *here).square() for probe in range(PROBES))
    assert isinstance(sources, Tensor)
    columns = sources.argmax(1)
    units = torch.zeros_like(sources).scatter_(1, columns[:, None], 1.0)
    responses, _ = torch.linalg.solve_ex(system, vmap(pushed)(units, *here))
    changes = vmap(updated)(responses, *here).abs().scatter_(1, columns[:, None], -1.0)
    return changes.argmax(1), columns
