"""Models whose state is a linear recurrence that is not diagonal: Mamba-3, delta-rule cells and PD-SSM.

PD-SSM has no implicit twin: its self-map would jump where the latent changes the choice of P, and there need
not be a fixed point.
"""

from implicit.cells import DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell, Mamba3Cell, PDSSMCell
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model

Mamba3 = explicit_model("mamba3", Mamba3Cell, "Mamba-2 whose state is also turned, in pairs of entries")
ImplicitMamba3 = implicit_model(
    "implicit-mamba3", Mamba3Cell, "Mamba-3 layers iterated to a fixed point at every token"
)
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
PDSSM = explicit_model(
    "pd-ssm",
    PDSSMCell,
    "linear, not diagonal: entries of the state are moved, as the token says, and multiplied",
)
