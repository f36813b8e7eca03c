"""Which entry of ∂h'/∂h to prove something about: one off the diagonal that is large, found without the matrix.

The matrix has n² entries and n of many thousands. A random covector, pulled back through the fixed point to h,
shows the columns that matter; the derivative of G along one column shows its rows.
"""

import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from theory.blocks import flatten, random_signs, replace
from theory.derivatives import load_forward_mode
from theory.transition import State
from theory.transition_batch import TokenInputs, TransitionBatch


@torch.no_grad()
def coupling_entries(
    transitions: TransitionBatch, states: State, latents: Tensor, slopes: Tensor
) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return per layer the row and the column of a large off-diagonal entry of ∂h'/∂h at each position.

    Args:
        transitions: the pairs (Φ, G) of T positions, in float64.
        states: the states before their tokens, each entry ``[T, …]``.
        latents: the fixed points, ``[T, d]``.
        slopes: ∂zΦ there, ``[T, d, d]``.

    Returns:
        Rows and columns, int64 ``[T]``; row and column differ. Where I − ∂zΦ is singular they mean nothing.

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
    load_forward_mode()
    system = torch.eye(transitions.latent_size, dtype=latents.dtype, device=latents.device) - slopes
    covectors = random_signs(len(transitions), transitions.latent_size, latents)
    covectors, _ = torch.linalg.solve_ex(system.mT, covectors)
    found = []
    for names in transitions.layer_states:

        def image(vector: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
            return transitions.advance(latent, replace(state, names, vector), inputs)[0]  # noqa: B023

        def pulled_back(covector: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
            _, pull = vjp(lambda v: image(v, latent, state, inputs), flatten(state, names))  # noqa: B023
            return pull(covector)[0]

        def pushed(direction: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
            vector = flatten(state, names)  # noqa: B023
            return jvp(lambda v: image(v, latent, state, inputs), (vector,), (direction,))[1]

        def updated(direction: Tensor, latent: Tensor, state: State, inputs: TokenInputs) -> Tensor:
            def block(z: Tensor) -> Tensor:
                return flatten(transitions.advance(z, state, inputs)[1], names)  # noqa: B023

            return jvp(block, (latent,), (direction,))[1]

        here = (latents, states, transitions.inputs)
        columns = vmap(pulled_back)(covectors, *here).abs().argmax(1)
        units = torch.zeros(len(columns), sum(states[name][0].numel() for name in names)).to(latents)
        units.scatter_(1, columns[:, None], 1.0)
        responses, _ = torch.linalg.solve_ex(system, vmap(pushed)(units, *here))
        changes = vmap(updated)(responses, *here).abs()
        changes.scatter_(1, columns[:, None], -1.0)
        found.append((changes.argmax(1), columns))
    return tuple(found)
