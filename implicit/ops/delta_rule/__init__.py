"""The gated delta rule of DeltaNet and its relatives: the reference, the chunked form, and the choice."""

from implicit.ops.delta_rule.chunked import delta_rule_chunked, delta_rule_states
from implicit.ops.delta_rule.dispatch import delta_rule
from implicit.ops.delta_rule.reference import delta_rule_reference, delta_rule_step

__all__ = ["delta_rule", "delta_rule_chunked", "delta_rule_reference", "delta_rule_states", "delta_rule_step"]
