"""Recurrent cells, each in two forms: over a whole sequence, and one token with a carried state."""

from implicit.cells.mamba2 import CellState, Mamba2Cell
from implicit.cells.norm import GatedRMSNorm, RMSNorm

__all__ = ["CellState", "GatedRMSNorm", "Mamba2Cell", "RMSNorm"]
