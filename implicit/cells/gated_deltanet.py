"""The gated DeltaNet cell: DeltaNet with a decay of the memory and a gate on the output."""

from implicit.cells.delta_rule_cell import DeltaRuleCell
from implicit.cells.deltanet import DeltaNetSizes


class GatedDeltaNetCell(DeltaRuleCell):
    """S_t = α_t (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, read with q_t, normalised and gated.

    Takes the arguments of `DeltaRuleCell`.

    Source:
        Yang et al. 2024, arXiv 2412.06464; the layers of Qwen3-Next and Olmo Hybrid.

    Example:
        >>> import torch
        >>> cell = GatedDeltaNetCell(8, heads=2, key_size=4, value_size=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["memory"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    sizes_class = DeltaNetSizes
    gated = True
