"""Models of delta-rule cells: memories that replace what they hold at a key."""

from implicit.cells import DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model

DeltaNet = explicit_model("deltanet", DeltaNetCell, "linear, not diagonal: one Householder step per token")
GatedDeltaNet = explicit_model("gated-deltanet", GatedDeltaNetCell, "DeltaNet whose memory also decays")
GatedDeltaProduct = explicit_model(
    "gated-deltaproduct", GatedDeltaProductCell, "several Householder steps per token, with decay"
)
ImplicitDeltaNet = implicit_model(
    "implicit-deltanet", DeltaNetCell, "DeltaNet layers iterated to a fixed point at every token"
)
ImplicitGatedDeltaNet = implicit_model(
    "implicit-gated-deltanet", GatedDeltaNetCell, "gated DeltaNet layers iterated to a fixed point"
)
ImplicitGatedDeltaProduct = implicit_model(
    "implicit-gated-deltaproduct",
    GatedDeltaProductCell,
    "gated DeltaProduct layers iterated to a fixed point",
)
