"""The gated norm of Mamba-2: its definition, passes of PyTorch, kernels, and who runs it."""

from implicit.ops.gated_norm.dispatch import gated_norm as gated_norm
