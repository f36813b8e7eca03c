"""Mamba-3: the explicit model, and its implicit twin."""

from implicit.cells import Mamba3Cell
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model

Mamba3 = explicit_model("mamba3", Mamba3Cell, "Mamba-2 whose state is also turned, in pairs of entries")
ImplicitMamba3 = implicit_model(
    "implicit-mamba3", Mamba3Cell, "Mamba-3 layers iterated to a fixed point at every token"
)
