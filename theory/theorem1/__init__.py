"""Theorem 1 checked at visited states: its conditions, its conclusions, and the report."""

from theory.theorem1.check import check_theorem1
from theory.theorem1.conditions import Condition, Verdict
from theory.theorem1.report import LayerConclusion, StateCheck, Theorem1Report

__all__ = ["Condition", "LayerConclusion", "StateCheck", "Theorem1Report", "Verdict", "check_theorem1"]
