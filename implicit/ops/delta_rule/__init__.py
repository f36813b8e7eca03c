"""The gated delta rule of DeltaNet and its relatives: the op, and the reference that it is tested against."""

from implicit.ops.delta_rule.chunked import delta_rule, delta_rule_states
from implicit.ops.delta_rule.reference import delta_rule_reference, delta_rule_step

__all__ = ["delta_rule", "delta_rule_reference", "delta_rule_states", "delta_rule_step"]
