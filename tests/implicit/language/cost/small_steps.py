"""Training steps of small models, by PyTorch's own operations, for the oracles of the formulas."""

from typing import Any

import torch

from implicit.cells import Mamba2Cell
from implicit.language import LanguageModel
from implicit.language.pretrain import Phase
from implicit.language.pretrain.config import enter
from tests.implicit.language.small_language_models import MODELS, config_of

EVALUATIONS, PHANTOM_STEPS = 5, 2
# the last evaluation measures the residual and is no iteration
PHASE = Phase(share=1, iterations=EVALUATIONS - PHANTOM_STEPS - 1, phantom_steps=PHANTOM_STEPS, rtol=0)


def small_training(name: str, checkpointing: bool = False, **changes: Any) -> LanguageModel:
    """A model in training mode, in the phase above, whose scans are matrix products and no kernels."""
    torch.manual_seed(0)
    model = MODELS[name](config_of(name, **changes)).train()
    for cell in model.model.cells:
        if isinstance(cell, Mamba2Cell):
            cell.backend = "chunked"
    if checkpointing:
        model.activation_checkpointing_enable()
    enter(model.config, PHASE)
    return model
