"""Recurrent cells, each in two forms: over a whole sequence, and one token with a carried state."""

from implicit.cells.attention import AttentionCell
from implicit.cells.delta_rule import DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell
from implicit.cells.interface import Cell, CellSizes, keep_where
from implicit.cells.mamba2 import Mamba2Cell
from implicit.cells.mamba3 import Mamba3Cell
from implicit.cells.mlp import SwiGLU
from implicit.cells.norm import GatedRMSNorm, RMSNorm
from implicit.cells.pd_ssm import PDSSMCell

__all__ = [
    "AttentionCell",
    "Cell",
    "CellSizes",
    "DeltaNetCell",
    "GatedDeltaNetCell",
    "GatedDeltaProductCell",
    "GatedRMSNorm",
    "Mamba2Cell",
    "Mamba3Cell",
    "PDSSMCell",
    "RMSNorm",
    "SwiGLU",
    "keep_where",
]
