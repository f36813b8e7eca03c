"""The cells against the layers of `transformers`, with their weights, in float32.

`transformers` is imported where it is used: it takes seconds, and every process collects all tests.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.cells import olmo_hybrid_layer
from implicit.cells import AttentionCell, GatedDeltaNetCell, RMSNorm, SwiGLU
from tests.implicit.cells.conftest import random_tensor, with_random_weights

D_MODEL, HEADS, KEY_SIZE, VALUE_SIZE, D_CONV = 12, 3, 4, 6, 4
LENGTH = 70  # more than a chunk of 64


def cell_of_qwen(layer: nn.Module) -> GatedDeltaNetCell:
    """Its input projection goes head by head through q, k, v and gate, and through β and decay."""
    qkvz = layer.get_parameter("in_proj_qkvz.weight").unflatten(0, (HEADS, -1))
    q, k, v, gate = qkvz.split([KEY_SIZE, KEY_SIZE, VALUE_SIZE, VALUE_SIZE], dim=1)
    b, a = layer.get_parameter("in_proj_ba.weight").unflatten(0, (HEADS, 2)).split(1, dim=1)
    cell = GatedDeltaNetCell(D_MODEL, HEADS, KEY_SIZE, VALUE_SIZE, d_conv=D_CONV)
    cell.load_state_dict(
        {
            "in_proj.weight": torch.cat([part.flatten(0, 1) for part in (gate, q, k, v, b, a)]),
            "convolution.weight": layer.get_parameter("conv1d.weight")[:, 0],
            "decay.A_log": layer.get_parameter("A_log"),
            "decay.step_bias": layer.get_parameter("dt_bias"),
            "norm.weight": layer.get_parameter("norm.weight"),
            "out_proj.weight": layer.get_parameter("out_proj.weight"),
        }
    )
    return cell


def olmo(negative: bool) -> tuple[GatedDeltaNetCell, nn.Module, Any]:
    cell = GatedDeltaNetCell(
        D_MODEL, HEADS, KEY_SIZE, VALUE_SIZE, d_conv=D_CONV, negative_eigenvalues=negative
    )
    with_random_weights(cell)
    return cell, *olmo_hybrid_layer(cell)


def qwen() -> tuple[GatedDeltaNetCell, nn.Module, Any]:
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    config = Qwen3NextConfig(
        hidden_size=D_MODEL,
        linear_num_key_heads=HEADS,
        linear_num_value_heads=HEADS,
        linear_key_head_dim=KEY_SIZE,
        linear_value_head_dim=VALUE_SIZE,
        linear_conv_kernel_dim=D_CONV,
        num_hidden_layers=1,
        layer_types=["linear_attention"],
        rms_norm_eps=1e-5,
    )
    layer = Qwen3NextGatedDeltaNet(config, 0).eval()
    with_random_weights(layer)
    return cell_of_qwen(layer), layer, config


GATED = {
    "olmo-hybrid": lambda: olmo(negative=False),
    "olmo-hybrid-negative": lambda: olmo(negative=True),
    "qwen3-next": qwen,
}


def close(result: Tensor, expected: Tensor) -> None:
    # float32, in which the layers compute whatever their dtype: 80 roundings of the largest entry, since the
    # terms of a sum are as large; 26 were seen, in the gradient, over a chunk of 64 tokens and 12 channels
    atol = 80 * torch.finfo(torch.float32).eps * float(expected.detach().abs().max())
    torch.testing.assert_close(result, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("name", GATED)
def test_gated_deltanet_equals_the_layer_in_outputs_and_gradients(name: str) -> None:
    cell, layer, _ = GATED[name]()
    inputs = random_tensor(2, LENGTH, D_MODEL, dtype=torch.float32)
    weights = random_tensor(2, LENGTH, D_MODEL, seed=2, dtype=torch.float32) / LENGTH
    gradients = []
    outputs = []
    for run in (lambda x: cell(x, cell.init_state(2))[0], layer):
        leaf = inputs.clone().requires_grad_()
        outputs.append(run(leaf))
        gradients.append(torch.autograd.grad((outputs[-1] * weights).sum(), leaf)[0])
    assert outputs[0].abs().max() > 0.5
    close(*outputs)
    close(*gradients)


class Block(nn.Module):
    """A Llama block of our parts: norm, attention, residual; norm, SwiGLU, residual."""

    def __init__(self, layer: nn.Module, config: Any) -> None:
        super().__init__()
        self.cell = AttentionCell(
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
            config.head_dim,
            rope_base=config.rope_parameters["rope_theta"],
        )
        self.norm, self.mlp_norm = RMSNorm(config.hidden_size), RMSNorm(config.hidden_size)
        self.mlp = SwiGLU(config.hidden_size, config.intermediate_size)
        theirs = layer.state_dict()

        def together(part: str, *names: str) -> Tensor:
            return torch.cat([theirs[f"{part}.{name}_proj.weight"] for name in names])

        self.load_state_dict(
            {
                "cell.in_proj.weight": together("self_attn", "q", "k", "v"),
                "cell.out_proj.weight": together("self_attn", "o"),
                "norm.weight": theirs["input_layernorm.weight"],
                "mlp_norm.weight": theirs["post_attention_layernorm.weight"],
                "mlp.in_proj.weight": together("mlp", "gate", "up"),
                "mlp.out_proj.weight": together("mlp", "down"),
            }
        )

    def forward(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        mixed, state = self.cell(self.norm(x), state)
        x = x + mixed
        return x + self.mlp(self.mlp_norm(x)), state


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("key_value_heads", [1, 2, 4])
@torch.no_grad()
def test_attention_and_swiglu_equal_the_block_of_llama(key_value_heads: int, implementation: str) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=D_MODEL,
        intermediate_size=20,
        num_attention_heads=4,
        num_key_value_heads=key_value_heads,
        head_dim=6,
        rms_norm_eps=1e-5,
        num_hidden_layers=1,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
    )
    config._attn_implementation = implementation
    layer, rotary = LlamaDecoderLayer(config, 0).eval(), LlamaRotaryEmbedding(config)
    with_random_weights(layer)
    block = Block(layer, config)
    inputs = random_tensor(2, LENGTH, D_MODEL, dtype=torch.float32)
    positions = torch.arange(LENGTH)[None].expand(2, -1)
    causal = torch.full((LENGTH, LENGTH), -torch.inf).triu(1)[None, None]
    expected = layer(inputs, attention_mask=causal, position_embeddings=rotary(inputs, positions))
    outputs, _ = block(inputs, block.cell.init_state(2))
    close(outputs, expected)
    first, state = block(inputs[:, :50], block.cell.init_state(2))
    second, _ = block(inputs[:, 50:], state)
    close(torch.cat([first, second], dim=1), expected)
    with torch.enable_grad():  # the form that is differentiable to any order
        outputs, _ = block(inputs, block.cell.init_state(2))
    close(outputs, expected)
