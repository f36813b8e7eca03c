"""The formulas of memory against the weights themselves, what autograd saves, and what is alive at once."""

from typing import Any
from weakref import finalize

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from implicit.language import LanguageModel, published_config
from implicit.language.configuration import Mamba2Layers
from implicit.language.cost import Activations, WeightMemory, state_bytes
from implicit.language.sizes import injection_size
from tests.implicit.language.cost.small_steps import PHANTOM_STEPS, small_training
from tests.implicit.language.small_language_models import IMPLICIT, MODELS, tokens_of

BATCH, LENGTH = 2, 70


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


@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize("name", MODELS)
def test_activations_are_what_autograd_saves(name: str, precision: Any) -> None:
    """Equal to the byte, but for what is listed here."""
    model = small_training(name)
    config, implicit, tokens = model.config, name in IMPLICIT, BATCH * LENGTH
    found = Activations.of(config, LENGTH, phantom_steps=PHANTOM_STEPS, precision=precision)
    sweeps = PHANTOM_STEPS if implicit else 1
    evaluations = sweeps * config.num_hidden_layers
    low = 2 if precision == "bf16" else 4

    # The formula counts what autograd does not save: two of three copies of the logits, the states (that of a
    # scan before the first token it does), the injection, and what enters the first layer of the first step,
    # which is computed without gradient.
    more = BATCH * (found.logits * 2 // 3 + state_bytes(config, LENGTH))
    if implicit:
        more += tokens * injection_size(config) * low
        more += 4 * tokens * (config.hidden_size + 1)
    # It leaves out the tokens, the targets, the divisor of the mean, and the decay rate of each head.
    less = 8 * tokens + 8 * tokens + 4
    if isinstance(config, Mamba2Layers):
        inner = config.expand * config.hidden_size
        heads, shared = inner // config.head_dim, config.n_groups * config.state_size
        more -= BATCH * config.num_hidden_layers * 4 * inner * config.state_size
        less += 2 * 4 * heads * evaluations
        if precision == "bf16":
            # On a CPU, autocast convolves in bfloat16, and the scan keeps float32 copies of its inputs and
            # hands on bfloat16; on a GPU all three are float32, and there are no copies.
            channels = inner + 2 * shared
            more += tokens * evaluations * (2 * channels + 2 * inner - 4 * channels)
    else:
        more += (BATCH - 1) * LENGTH**2 * evaluations  # one mask serves all sequences
        if precision == "bf16":  # on a CPU, autocast leaves the softmax in bfloat16
            more += 4 * tokens * config.num_attention_heads * LENGTH * evaluations
    assert saved_bytes(model, BATCH, LENGTH, precision) == BATCH * found.total - more + less


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_more_takes_as_much_memory_as_the_formula_says(name: str, checkpointing: bool) -> None:
    """All that is alive at once, saved or not: what one layer writes and drops cancels in the difference."""
    alive, expected, sweeps = [], [], PHANTOM_STEPS if name in IMPLICIT else 1
    options: Any = {"phantom_steps": PHANTOM_STEPS, "gradient_checkpointing": checkpointing}
    for layers in (2, 5):
        model = small_training(name, checkpointing, num_hidden_layers=layers)
        alive.append(most_alive(model, 1, LENGTH))
        expected.append(Activations.of(model.config, LENGTH, precision="no", **options).total)
    left_out = 0
    if "Llama" in name:
        left_out += 3 * (LENGTH + 8 + 8)  # which tokens are real, and the positions before and behind
        # one sequence's keys and values are state and activations in one, counted twice
        left_out -= 0 if checkpointing else 3 * LENGTH * 2 * 8 * 4
    elif not checkpointing:
        left_out += 3 * sweeps * 2 * 4 * 4  # the decay rates of four heads
    assert alive[1] - alive[0] == expected[1] - expected[0] + left_out


@pytest.mark.parametrize("name", MODELS)
def test_weights_gradients_and_moments_have_the_bytes_of_the_tensors(name: str) -> None:
    model = small_training(name)
    optimizer = torch.optim.AdamW(model.parameters())
    tokens = torch.ones(1, 4, dtype=torch.int64)
    model(tokens, labels=tokens).loss.backward()
    optimizer.step()

    def size(tensors: Any) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    found = WeightMemory.of(model.config, 1, sharded=False, precision="no")
    assert found.weights == size(model.parameters())
    assert found.gradients == size(parameter.grad for parameter in model.parameters())
    moments = [
        value
        for state in optimizer.state.values()
        for key, value in state.items()
        if isinstance(value, Tensor) and key != "step"
    ]
    assert found.moments == size(moments)
    assert found.passing == 0


def test_shares_and_what_is_passing() -> None:
    config = published_config("llama", "130m")
    weights = WeightMemory.of(config, 1, sharded=False, precision="no").weights

    def shares(processes: int, sharded: bool, precision: Any) -> list[float]:
        found = WeightMemory.of(config, processes, sharded=sharded, precision=precision)
        return [
            part / weights
            for part in (found.weights, found.gradients, found.moments, found.passing, found.total)
        ]

    assert shares(8, False, "no") == [1, 1, 2, 1, 5]
    assert shares(8, False, "bf16") == [1, 1, 2, 1.5, 5.5]
    assert shares(8, True, "no") == [1 / 8, 1 / 8, 1 / 4, 2, 2.5]
    assert shares(64, True, "bf16") == [1 / 64, 1 / 64, 1 / 32, 1, 1 + 1 / 16]
