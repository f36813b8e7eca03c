"""Training steps of small models, by PyTorch's own operations, for the oracles of the formulas."""

from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from implicit.cells import Mamba2Cell
from implicit.language import LanguageModel
from implicit.language.pretrain import Phase
from implicit.language.pretrain.config import enter
from tests.implicit.language.small_language_models import MODELS, config_of, tokens_of

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


def saved_bytes(model: LanguageModel, batch: int, length: int, precision: str) -> int:
    """Bytes of all storages that autograd saves in a forward pass, each once, weights left out."""
    tokens = tokens_of(batch, length)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    shapes = {tuple(parameter.shape) for parameter in model.parameters()}
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        rounded = tensor.dtype == torch.bfloat16 and {tuple(tensor.shape), tuple(tensor.shape[::-1])} & shapes
        place = tensor.untyped_storage().data_ptr()
        if place not in weights and not rounded:
            kept[place] = tensor
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"),
    ):
        model(tokens, labels=tokens)
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


class Living(TorchDispatchMode):
    """Counts the bytes of all storages that are alive, and the most at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {id(one.untyped_storage()) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                place, size = storage._cdata, storage.nbytes()
                if id(storage) not in given and place not in self._known:
                    self._known.add(place)
                    self.now += size
                    self.most = max(self.most, self.now)
                    finalize(storage, self._freed, place, size)
        return result

    def _freed(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.now -= size


def most_alive(model: LanguageModel, batch: int, length: int) -> int:
    tokens = tokens_of(batch, length)
    with Living() as living:
        model(tokens, labels=tokens)
    return living.most
