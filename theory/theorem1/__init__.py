"""Theorem 1 checked at visited states: its conditions, its conclusions, the transition's kind, the report."""

from theory.theorem1.check import check as check, check_theorem1 as check_theorem1
from theory.theorem1.conditions import (
    Condition as Condition,
    LayerConclusion as LayerConclusion,
    Verdict as Verdict,
)
from theory.theorem1.kinds import LayerKind as LayerKind, TransitionKind as TransitionKind
from theory.theorem1.report import StateCheck as StateCheck, Theorem1Report as Theorem1Report
