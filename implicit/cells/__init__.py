"""Recurrent cells, each in two forms: over a whole sequence, and one token with a carried state."""

from implicit.cells.attention import AttentionCell as AttentionCell
from implicit.cells.delta_rule import (
    DeltaNetCell as DeltaNetCell,
    GatedDeltaNetCell as GatedDeltaNetCell,
    GatedDeltaProductCell as GatedDeltaProductCell,
)
from implicit.cells.interface import Cell as Cell, CellSizes as CellSizes, keep_where as keep_where
from implicit.cells.mamba2 import Mamba2Cell as Mamba2Cell
from implicit.cells.mamba3 import Mamba3Cell as Mamba3Cell
from implicit.cells.parts import SwiGLU as SwiGLU
from implicit.cells.parts import GatedRMSNorm as GatedRMSNorm, RMSNorm as RMSNorm
from implicit.cells.pd_ssm import PDSSMCell as PDSSMCell
