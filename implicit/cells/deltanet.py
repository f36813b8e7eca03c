"""The DeltaNet cell: a memory that replaces what it holds at a key.

With unit keys a token's transition is I − β k kᵀ: the eigenvalue 1 − β along the key, and 1 elsewhere. With
β = 2 it is a reflection, of which the exchange of two entries is one.
"""

from pydantic import Field

from implicit.cells.delta_rule_cell import DeltaRuleCell
from implicit.cells.interface import CellSizes


class DeltaNetSizes(CellSizes):
    """The sizes of a DeltaNet cell."""

    heads: int = Field(4, ge=1, description="memories side by side")
    key_size: int = Field(16, ge=1, description="features of a query and a key")
    value_size: int = Field(16, ge=1, description="features of a value")
    d_conv: int = Field(4, ge=1, description="width of the short convolution; 1 for none")
    negative_eigenvalues: bool = Field(
        False, description="eigenvalues of a token's transition in [-1, 1] instead of [0, 1]"
    )


class DeltaNetCell(DeltaRuleCell):
    """S_t = (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, read with q_t and normalised.

    Takes the arguments of `DeltaRuleCell`; with several householder_steps it is DeltaProduct without gates.

    Sources:
        Yang et al. 2024, arXiv 2406.06484; negative eigenvalues, Grazzi et al. 2024, arXiv 2411.12537.

    Example:
        Both forms give the same outputs.

        >>> import torch
        >>> cell = DeltaNetCell(8, heads=2, key_size=4, value_size=4)
        >>> inputs = torch.randn(1, 5, 8, generator=torch.Generator().manual_seed(0))
        >>> outputs, _ = cell(inputs, cell.init_state(1))
        >>> state, steps = cell.init_state(1), []
        >>> for t in range(5):
        ...     output, state = cell.step(inputs[:, t], state)
        ...     steps.append(output)
        >>> torch.allclose(outputs, torch.stack(steps, 1), atol=1e-5)
        True
    """

    sizes_class = DeltaNetSizes
