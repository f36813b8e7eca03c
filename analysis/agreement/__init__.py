"""Do both modes of evaluation reach the same fixed points? ``python -m analysis.agreement RUN``."""

from analysis.agreement.command import ANALYSIS, main
from analysis.agreement.drawing import draw
from analysis.agreement.measurement import AgreementAnalysis, AgreementSettings, analyse
from analysis.agreement.reporting import tables

__all__ = ["ANALYSIS", "AgreementAnalysis", "AgreementSettings", "analyse", "draw", "main", "tables"]
