"""Every solvable group is tracked by an implicit SSM in as many sweeps as its derived series is long.

Let G = G₀ ⊃ G₁ ⊃ … ⊃ G_d = 1 be the derived series; the factors A_i = G_i/G_{i+1} are abelian. With a
transversal T_i of G_{i+1} in G_i every element is uniquely p = τ_{d-1} ⋯ τ₁ τ₀ with τ_i ∈ T_i, and
G_{i+1} p_i = G_{i+1} τ_i for p_i = τ_{d-1} ⋯ τ_i ∈ G_i. Multiplying p by a token x changes p_i to p_i
y_i, where

    y₀ = x,    y_{i+1} = τ_i y_i τ_i'⁻¹ ∈ G_{i+1},    τ_i' the representative of the coset of τ_i y_i.

So coordinate i, an element of A_i, is translated by the class of y_i, which depends on x and on the
coordinates *before* i (the embedding of Krasner and Kaloujnine 1951 into a wreath product). A translation
of an abelian group is diagonal in its characters: h_χ ← χ(y_i) h_χ, with factors on the unit circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from automata.errors import InputError
from automata.monoids.characters import irreducible_characters
from automata.monoids.monoid import Monoid
from theory.constructions.implicit_ssm import ImplicitSSM, require_numbers


@dataclass(frozen=True, eq=False)
class SolvableCascade:
    """Coordinates of a solvable group along its derived series, and the implicit SSM that tracks them.

    The latent z is the state before the token. With τ_i decoded from z, the diagonal of block i is χ(y_i)
    over all characters χ of A_i; u is 0. Block i of a sweep needs only the blocks before i of the sweep
    before. So after sweep s the blocks up to s are right at *all* tokens: d sweeps, whatever the length.
    InputError if the group is none, is not solvable, or is trivial.

    Example:
        S4, of derived length 3, in 2 + 3 + 4 complex numbers:

        >>> from automata.monoids.groups import symmetric_group
        >>> cascade = SolvableCascade(symmetric_group(4))
        >>> cascade.depth, cascade.factor_orders
        (3, (2, 3, 4))
        >>> tokens = torch.tensor([[7, 11, 23, 5]])
        >>> result = cascade.ssm().solve(tokens, max_sweeps=cascade.depth)
        >>> cascade.decode(result.states).tolist()
        [[7, 3, 11, 6]]
    """

    group: Monoid

    def __post_init__(self) -> None:
        if not self.group.is_group or not self.group.is_solvable or self.group.order == 1:
            raise InputError(
                f"group is {self.group.name}, which is trivial or no solvable group; "
                "give a solvable group such as S4, or track it by ssm_of_automaton"
            )

    @property
    def depth(self) -> int:
        """d, the length of the derived series."""
        return len(self._cosets)

    @property
    def factor_orders(self) -> tuple[int, ...]:
        """The orders of the abelian factors A_0, …, A_{d-1}; their sum is the size of the state."""
        return tuple(len(transversal) for transversal, _ in self._cosets)

    def ssm(self) -> ImplicitSSM:
        """Return the implicit SSM, in complex128; its inputs are element numbers ``[B, L]``.

        With ε = 2⁻⁵³, each factor is within 15 ε of its root of unity and each complex product within √5
        ε (Brent, Percival and Zimmermann 2007), so after t tokens an entry is off by less than 20 t ε.
        Decoding is right while that is below 1/2: the sum for the true coordinate then exceeds all
        others. So up to 10¹⁴ tokens.
        """
        characters = self._characters

        def decay(latents: Tensor, tokens: Tensor) -> Tensor:
            shifts = self.shifts(self.coordinates(latents), tokens)
            blocks = [table[shift] for table, shift in zip(characters, shifts, strict=True)]
            return torch.cat(blocks, dim=-1)

        size = sum(self.factor_orders)
        return ImplicitSSM(
            decay=decay,
            drive=lambda latents, tokens: torch.zeros_like(latents),  # noqa: ARG005
            initial=torch.ones(size, dtype=torch.complex128),
            check_inputs=require_numbers("tokens", self.group.order),
        )

    def coordinates(self, states: Tensor) -> list[Tensor]:
        """Return the nearest coordinates in A_0, …, A_{d-1} of states ``[..., n]``, each int64 ``[...]``.

        For the state of a, Σ_χ χ(b)* h_χ is |A| if b = a and 0 otherwise.
        """
        blocks = states.split(self.factor_orders, dim=-1)
        return [
            (block @ table.conj().T).real.argmax(dim=-1)
            for block, table in zip(blocks, self._characters, strict=True)
        ]

    def shifts(self, coordinates: Sequence[Tensor], tokens: Tensor) -> list[Tensor]:
        """Return by which class of A_i a token translates coordinate i, each int64 ``[...]``."""
        table, inverses = self._product
        factor, shifts = tokens, []
        for coordinate, (transversal, classes) in zip(coordinates, self._cosets, strict=True):
            shifts.append(classes[factor])
            representative = transversal[coordinate]
            product = table[representative, factor]
            factor = table[product, inverses[transversal[classes[product]]]]
        return shifts

    def decode(self, states: Tensor) -> Tensor:
        """Return the group elements τ_{d-1} ⋯ τ₁ τ₀ that states ``[..., n]`` stand for, int64 ``[...]``."""
        table, _ = self._product
        product = torch.full(states.shape[:-1], self.group.identity)
        for coordinate, (transversal, _) in zip(self.coordinates(states), self._cosets, strict=True):
            product = table[transversal[coordinate], product]
        return product

    @cached_property
    def _product(self) -> tuple[Tensor, Tensor]:
        """The Cayley table and the inverses."""
        return torch.tensor(self.group.table), torch.tensor(self.group.inverses)

    @cached_property
    def _cosets(self) -> list[tuple[Tensor, Tensor]]:
        """For every factor the representatives, and the class of every element; -1 outside G_i."""
        cosets = []
        for outer, inner in pairwise(self.group.derived_series()):
            classes = np.full(self.group.order, -1)
            representatives: list[int] = []
            for element in (self.group.identity, *outer):  # the identity first: it represents its coset
                if classes[element] < 0:
                    classes[self.group.table[list(inner), element]] = len(representatives)
                    representatives.append(element)
            cosets.append((torch.tensor(representatives), torch.from_numpy(classes)))
        return cosets

    @cached_property
    def _characters(self) -> list[Tensor]:
        """For every factor χ(a), complex128, shape ``[elements, characters]``."""
        table, _ = self._product
        tables = []
        for representatives, classes in self._cosets:
            factor = Monoid(classes[table[representatives][:, representatives]].numpy())
            turns = np.angle(irreducible_characters(factor)) * factor.order / (2 * np.pi)
            turns = turns.round() % factor.order  # whole, as χ(a) is a root of unity of this order
            for element in factor.generators:
                product = (turns + turns[:, [element]]) % factor.order
                assert (turns[:, factor.table[:, element]] == product).all(), "χ(ab) = χ(a) χ(b)"
            phases = torch.from_numpy(turns / factor.order)
            tables.append(torch.polar(torch.ones_like(phases), 2 * torch.pi * phases).T.contiguous())
        return tables
