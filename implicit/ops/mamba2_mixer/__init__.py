"""The part of a Mamba-2 cell between its projections as one op: definition, kernels and their choice."""

from implicit.ops.mamba2_mixer.dispatch import mamba2_mixer as mamba2_mixer
