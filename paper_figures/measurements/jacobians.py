"""Theorem 1 at the visited states of a run, and one Jacobian in pixels."""

from typing import Any

import numpy as np

from analysis.framework.arrays import FloatArray
from analysis.jacobian import JacobianSettings, analyse
from analysis.jacobian.block_structure import averaged
from implicit.runs.loading import Run

CELLS = 128  # cells along a side of the whole block
ZOOM = 24  # entries along a side of the enlarged corner


def jacobians(run: Run, settings: JacobianSettings) -> dict[str, Any]:
    """Check Theorem 1 at visited states of a run, and keep one Jacobian."""
    found = analyse(run, settings)
    layers = [layer for check in found.report.checks for layer in check.layers]
    shown: dict[str, Any] | None = None
    if found.shown is not None:
        block = found.shown.state_block.numpy()
        shown = {
            "state": next(iter(found.spectra)),
            "size": len(block),
            "heads": [entry.start for entry in found.shown.blocks if entry.kind == "state"],
            "whole": logarithms(averaged(block, CELLS)[0]),
            "corner": logarithms(np.abs(block[:ZOOM, :ZOOM])),
        }
    return {
        "theorem1": found.theorem1(),
        "off_diagonal_mass": [layer.off_diagonal_mass for layer in layers],
        "off_diagonal_error": [layer.off_diagonal_error for layer in layers],
        "nonlinearity": [layer.nonlinearity for layer in layers],
        "nonlinearity_error": [layer.nonlinearity_error for layer in layers],
        "shown": shown,
    }


def logarithms(magnitudes: FloatArray) -> FloatArray:
    """Return decimal logarithms to two digits, all that colours can show; minus infinity for a zero.

    Example:
        >>> logarithms(np.array([1000.0, 2.0, 0.0])).tolist()
        [3.0, 0.3, -inf]
    """
    with np.errstate(divide="ignore"):
        rounded: FloatArray = np.log10(magnitudes).round(2)
    return rounded
