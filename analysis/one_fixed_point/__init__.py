"""Has every word just one fixed point? A proof: ``python -m analysis.one_fixed_point RUN``."""

from analysis.one_fixed_point.command import ANALYSIS, main, tables
from analysis.one_fixed_point.kept_parts import KeptParts
from analysis.one_fixed_point.proof import (
    OneFixedPointAnalysis,
    OneFixedPointSettings,
    analyse,
    group_alike,
)

__all__ = [
    "ANALYSIS",
    "KeptParts",
    "OneFixedPointAnalysis",
    "OneFixedPointSettings",
    "analyse",
    "group_alike",
    "main",
    "tables",
]
