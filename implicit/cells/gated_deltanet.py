"""The gated DeltaNet cell: DeltaNet with a decay of the memory and a gate on the output."""

from implicit.cells.delta_rule_cell import DeltaRuleCell
from implicit.cells.deltanet import DeltaNetSizes


class GatedDeltaNetSizes(DeltaNetSizes):
    """The sizes of a gated DeltaNet cell.

    Example:
        >>> GatedDeltaNetSizes(negative_eigenvalues=True).heads
        4
    """


class GatedDeltaNetCell(DeltaRuleCell):
    """S_t = α_t (I − β_t k_t k_tᵀ) S_{t-1} + β_t k_t v_tᵀ, read with q_t, normalised and gated.

    Args:
        d_model: features of the input and the output.
        heads: memories side by side.
        key_size: features of a query and a key.
        value_size: features of a value.
        d_conv: width of the short convolution; 1 for none.
        negative_eigenvalues: β in (0, 2) instead of (0, 1), so that the transition has an eigenvalue in
            (−1, 1) instead of (0, 1).
        backend: form of the delta rule, ``"chunked"`` or ``"reference"``.

    Raises:
        InputError: for sizes below 1.

    Source:
        Yang et al. 2024, arXiv 2412.06464; the layers of Qwen3-Next and Olmo Hybrid.

    Example:
        >>> import torch
        >>> cell = GatedDeltaNetCell(8, heads=2, key_size=4, value_size=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["memory"].shape
        (torch.Size([3, 5, 8]), torch.Size([3, 2, 4, 4]))
    """

    sizes_class = GatedDeltaNetSizes

    def __init__(
        self,
        d_model: int,
        heads: int = 4,
        key_size: int = 16,
        value_size: int = 16,
        d_conv: int = 4,
        negative_eigenvalues: bool = False,
        backend: str = "chunked",
    ) -> None:
        super().__init__(
            d_model, heads, key_size, value_size, d_conv, negative_eigenvalues, gated=True, backend=backend
        )
