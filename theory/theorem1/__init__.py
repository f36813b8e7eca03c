"""Theorem 1 checked at visited states: its conditions, its conclusions, the transition's kind, the report."""

from theory.theorem1.check import check, check_theorem1
from theory.theorem1.conditions import Condition, LayerConclusion, Verdict
from theory.theorem1.kinds import LayerKind, TransitionKind
from theory.theorem1.report import StateCheck, Theorem1Report

__all__ = [
    "Condition",
    "LayerConclusion",
    "LayerKind",
    "StateCheck",
    "Theorem1Report",
    "TransitionKind",
    "Verdict",
    "check",
    "check_theorem1",
]
