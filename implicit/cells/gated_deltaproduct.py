"""The gated DeltaProduct cell: several writes to the memory for each token.

A token's transition is a product of n factors I − β k kᵀ. Two of them with β > 1 turn a plane: the product of
two reflections is a rotation, with complex eigenvalues.
"""

from pydantic import Field

from implicit.cells.delta_rule_cell import DeltaRuleCell
from implicit.cells.deltanet import DeltaNetSizes


class GatedDeltaProductSizes(DeltaNetSizes):
    """The sizes of a gated DeltaProduct cell."""

    householder_steps: int = Field(2, ge=1, description="writes to the memory per token")


class GatedDeltaProductCell(DeltaRuleCell):
    """For each token α, then n times S ← (I − β k kᵀ) S + β k vᵀ, then the reading with q.

    Takes the arguments of `DeltaRuleCell`, with two steps unless told otherwise.

    Source:
        Siems et al. 2025, arXiv 2502.10297.

    Example:
        >>> import torch
        >>> cell = GatedDeltaProductCell(8, heads=2, key_size=4, value_size=4, householder_steps=3)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["memory"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    sizes_class = GatedDeltaProductSizes
    gated = True

    def __init__(
        self,
        d_model: int,
        heads: int = 4,
        key_size: int = 16,
        value_size: int = 16,
        d_conv: int = 4,
        negative_eigenvalues: bool = False,
        householder_steps: int = 2,
        backend: str = "chunked",
    ) -> None:
        super().__init__(
            d_model, heads, key_size, value_size, d_conv, negative_eigenvalues, householder_steps, backend
        )
