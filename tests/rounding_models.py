"""Models on which bounds of rounding are tried."""

import torch

from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.runs.loading import load_run


def rounding_model(kind: str) -> ImplicitMamba2:
    """A stored model, or one with several groups and a longer window, with a residual or without."""
    if kind == "stored":
        model = load_run("parity-small").model
        assert isinstance(model, ImplicitMamba2)
        return model
    torch.manual_seed(0)
    sizes = {"d_model": 6, "head_size": 3, "groups": 2, "d_state": 3, "d_conv": 4}
    residual = kind != "plain"
    config = ImplicitMamba2Config(vocabulary_size=2, output_size=3, residual=residual, **sizes)
    return ImplicitMamba2(config)
