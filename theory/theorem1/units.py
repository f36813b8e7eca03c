"""A transition in other units: those in which every entry of state and latent has the typical size 1.

Units h ↦ D⁻¹ F(D h), D diagonal, do not change whether a transition is diagonal or linear. They change
norms: the effect of an entry of 10⁻⁷ is lost beside one of 10⁷. The units are powers of two, so that floats
keep their digits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from theory.blocks import BlockMap, flatten, replace
from theory.jacobian.factored import block_derivatives
from theory.transition import State, Transition

LINKS = 4
"""Through how many others a latent is followed to h'."""


@dataclass(frozen=True)
class Units:
    """The unit of each entry."""

    transition: Transition  # in its own units
    state: Mapping[str, Tensor]  # by the name of an entry of a block
    latent: Tensor  # shape [latent_size]

    @classmethod
    def of(
        cls,
        transition: Transition,
        state: State,
        others: Sequence[State],
        latent: Tensor,
        slope: Tensor | None = None,
    ) -> "Units":
        """Return the largest number that each entry is at the states, and that its terms are at a latent.

        The slope is ∂zΦ there, where it is known.
        """
        names = tuple(dict.fromkeys(name for layer in transition.layer_states for name in layer))
        block = BlockMap(transition, state, names)
        image = block.state_update(latent, block.vector)
        seen = torch.stack([flatten(each, names) for each in (state, *others)] + [image.nan_to_num(0, 0, 0)])
        units = _powers_of_two(seen.abs().amax(0))
        scale = latent
        if latent.numel():
            # Also a latent that is near zero, or has not come near, where large terms cancel or lead.
            slope, left, source = (each.abs() for each in block_derivatives(block, latent, slope))
            slope, source = slope.nan_to_num(0, 0, 0), source @ units
            scale = torch.maximum(latent.abs(), (slope @ latent.abs() + source).nan_to_num(0, 0, 0))
            # Of one that is zero nothing else is known than what it does to h': about one unit there.
            effect = (left / units[:, None]).nan_to_num(0, 0, 0).amax(0)
            for _ in range(LINKS):
                effect = torch.maximum(effect, (effect[:, None] * slope).amax(0))
            scale = torch.where(scale > 0, scale, effect.reciprocal().nan_to_num(0, 0, 0))
        named = {name: part for name, part in replace(state, names, units).items() if name in names}
        return cls(transition, named, _powers_of_two(scale))

    @property
    def are_similar(self) -> bool:
        """Return whether no entry is more than a million times another, so that norms and steps suit all."""
        parts = torch.cat([self.latent, *(part.reshape(-1) for part in self.state.values())])
        return bool(parts.amax() <= 2.0**20 * parts.amin())

    def shrunk(self, state: State) -> State:
        """Return a state in these units."""
        return {n: part / self.state[n] if n in self.state else part for n, part in state.items()}

    def grown(self, state: State) -> State:
        """Return a state that is in these units in its own."""
        return {n: part * self.state[n] if n in self.state else part for n, part in state.items()}

    def of_transition(self) -> Transition:
        """Return the transition in these units."""
        own = self.transition
        return Transition(
            lambda z, s: own.self_map(z * self.latent, self.grown(s)) / self.latent,
            lambda z, s: self.shrunk(own.state_update(z * self.latent, self.grown(s))),
            own.latent_size,
            own.layer_states,
            own.damping,
        )


def _powers_of_two(sizes: Tensor) -> Tensor:
    """Return powers of two above the sizes, for zeros those of the median."""
    known = sizes[sizes > 0]
    sizes = torch.where(sizes > 0, sizes, known.median() if known.numel() else 1.0)
    return torch.ldexp(torch.ones_like(sizes), torch.frexp(sizes).exponent.clamp(-1000, 1000))
