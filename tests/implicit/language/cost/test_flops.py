"""The formulas of operations against PyTorch's own count of what a training step runs.

`FlopCounterMode` counts matrix products and convolutions and nothing else, which is what the formulas count.
It does not know two operations that are products as well, attention without gradient on a CPU and the
product that adds to its output; they are told to it here. It does not see the gradient of the taps of a
convolution, which is written as products of elements and their sum.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from implicit.language.configuration import Mamba2Layers
from implicit.language.cost import Evaluation, TrainingCost
from tests.implicit.language.cost.small_steps import EVALUATIONS, PHANTOM_STEPS, PHASE, small_training
from tests.implicit.language.small_language_models import IMPLICIT, MODELS, tokens_of

BATCH = 2


def attention(queries: Sequence[int], keys: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * 2 * math.prod(queries) * keys[-2]


def adding_product(_: Any, left: Sequence[int], right: Sequence[int], *__: Any, **___: Any) -> int:
    return 2 * math.prod(left) * right[-1]


class WithoutHooks(nullcontext[None]):
    """In place of hooks on all modules, which keep cells from reading weights."""

    parents: ClassVar = {"Global"}


UNKNOWN_TO_IT = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention,
    torch.ops.aten.baddbmm_: adding_product,
}


def counted(name: str, length: int, checkpointing: bool, **changes: Any) -> tuple[Any, int, int]:
    model = small_training(name, checkpointing, **changes)
    tokens = tokens_of(BATCH, length)
    counter = FlopCounterMode(display=False, custom_mapping=UNKNOWN_TO_IT)
    counter.mod_tracker = WithoutHooks()  # type: ignore[assignment]
    with counter:
        model(tokens, labels=tokens).loss.backward()
    found = dict(counter.get_flop_counts()["Global"])
    convolutions = found.pop(torch.ops.aten.convolution, 0)
    return model.config, sum(found.values()), convolutions


OTHER_SIZES: list[dict[str, Any]] = [
    {"n_groups": 2, "expand": 3, "num_hidden_layers": 1, "state_size": 5},
    {"num_key_value_heads": 1, "intermediate_size": 20},
    {"head_dim": 16, "conv_kernel": 2, "vocab_size": 40},
    {"num_key_value_heads": 4, "hidden_size": 24, "num_hidden_layers": 3},
]


# One chunk of the scan, one that is cut short, chunks that fit, and two with a rest: every model at two of
# these lengths, with checkpointing at one and other sizes at the other.
@pytest.mark.parametrize(
    ("name", "checkpointing", "length", "changes"),
    [
        case
        for name, (plain, other), sizes in zip(
            MODELS, ((70, 130), (5, 70), (64, 130), (5, 64)), OTHER_SIZES, strict=True
        )
        for case in ((name, False, plain, sizes), (name, True, other, {}))
    ],
    ids=str,
)
def test_products_of_a_step_are_counted_exactly(
    name: str, checkpointing: bool, length: int, changes: dict[str, Any]
) -> None:
    config, products, convolutions = counted(name, length, checkpointing, **changes)
    cost = TrainingCost(config, length, checkpointing)
    expected = BATCH * length * cost.per_token(PHASE if name in IMPLICIT else None)
    convolution = Evaluation.of(config, length).convolution
    forward, steps = (EVALUATIONS + PHANTOM_STEPS, PHANTOM_STEPS) if name in IMPLICIT else (1, 1)
    back = convolution.backward + (convolution.again if checkpointing else 0)
    expected -= BATCH * (forward * convolution.forward + steps * back)
    assert products == pytest.approx(expected, rel=1e-12)
    if isinstance(config, Mamba2Layers):
        # The gradient in the convolution's input is a convolution over the tokens and those before them.
        taps, before = convolution.forward, config.conv_kernel - 1
        unseen, edge = taps, taps * before // length
        assert convolutions == BATCH * (forward * taps + steps * (back - unseen + edge))
    else:
        assert convolutions == 0
