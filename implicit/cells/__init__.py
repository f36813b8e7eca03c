"""Recurrent cells, each in two forms: over a whole sequence, and one token with a carried state."""

from implicit.cells.deltanet import DeltaNetCell
from implicit.cells.gated_deltanet import GatedDeltaNetCell
from implicit.cells.gated_deltaproduct import GatedDeltaProductCell
from implicit.cells.mamba2 import CellState, Mamba2Cell
from implicit.cells.norm import GatedRMSNorm, RMSNorm

__all__ = [
    "CellState",
    "DeltaNetCell",
    "GatedDeltaNetCell",
    "GatedDeltaProductCell",
    "GatedRMSNorm",
    "Mamba2Cell",
    "RMSNorm",
]
