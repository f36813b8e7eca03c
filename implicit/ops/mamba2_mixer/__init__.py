"""What a Mamba-2 cell does between its projections, as one op: its definition, kernels, and who runs it."""

from implicit.ops.mamba2_mixer.dispatch import mamba2_mixer

__all__ = ["mamba2_mixer"]
