"""The short convolution of Mamba-2: its definition, passes of PyTorch, kernels, and who runs it."""

from implicit.ops.short_convolution.dispatch import short_convolution as short_convolution
