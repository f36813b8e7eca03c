"""Mamba-2: the explicit control, and its implicit twin."""

from implicit.cells import Mamba2Cell
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model

Mamba2 = explicit_model("mamba2", Mamba2Cell, "the explicit control: the same layers, run once")
ImplicitMamba2 = implicit_model(
    "implicit-mamba2", Mamba2Cell, "Mamba-2 layers iterated to a fixed point at every token"
)

Mamba2Config = Mamba2.config_class
ImplicitMamba2Config = ImplicitMamba2.config_class
