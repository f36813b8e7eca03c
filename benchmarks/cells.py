"""The cells beside Mamba-2, on a CPU: chunked form, readable loop, and the layer of `transformers`.

One thread, as in every benchmark here; the layers run their PyTorch fallback, the only one that a CPU has.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.frame import Benchmark, Case, Contender, Headline, require_close
from implicit.cells import AttentionCell, DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell
from implicit.cells.delta_rule import DeltaRuleCell
from implicit.cells.interface import Cell
from implicit.ops.delta_rule import delta_rule_reference

SIZES: tuple[dict[str, int], ...] = (
    {"batch": 64, "length": 32, "d_model": 32, "heads": 4, "head_size": 16},
    {"batch": 8, "length": 256, "d_model": 256, "heads": 8, "head_size": 32},
)
"""A layer of a recipe for state tracking, and that of a small language model."""
DELTA_CELLS: dict[str, type[DeltaRuleCell]] = {
    "deltanet": DeltaNetCell,
    "gated-deltanet": GatedDeltaNetCell,
    "gated-deltaproduct": GatedDeltaProductCell,
}
PASSES = ("forward", "forward+backward")
TOLERANCE = 1e-4
"""Error of float32 outputs and gradients over their largest entry: the forms sum in another order."""

Run = Callable[[Tensor], Tensor]  # maps inputs to outputs, from the state before the first token


def cases() -> Iterator[Case]:
    for sizes in SIZES:
        inputs = torch.randn(sizes["batch"], sizes["length"], sizes["d_model"])
        for name, forms in cells(sizes).items():
            for passes in PASSES:
                work = forward if passes == "forward" else forward_backward
                yield Case(
                    parameters={"cell": name, "passes": passes, **sizes},
                    check=partial(check, forms, inputs),
                    contenders=tuple(
                        Contender(form, partial(work, layer, run, inputs))
                        for form, (layer, run) in forms.items()
                    ),
                    turns=10,
                )


def cells(sizes: dict[str, int]) -> dict[str, dict[str, tuple[nn.Module, Run]]]:
    """Return the forms of every cell, with equal weights: the module that holds them, and how it is run."""
    d_model, heads, size = sizes["d_model"], sizes["heads"], sizes["head_size"]
    torch.manual_seed(0)
    forms: dict[str, dict[str, tuple[nn.Module, Run]]] = {}
    for name, cell_class in DELTA_CELLS.items():
        arguments: dict[str, Any] = {"heads": heads, "key_size": size, "value_size": size}
        cell = cell_class(d_model, **arguments, negative_eigenvalues=True)
        loop = cell_class(d_model, **arguments, negative_eigenvalues=True)
        loop.scan = delta_rule_reference
        loop.load_state_dict(cell.state_dict())
        forms[name] = {"chunked": (cell, from_rest(cell)), "reference": (loop, from_rest(loop))}
        if isinstance(cell, GatedDeltaNetCell):
            layer, _ = olmo_hybrid_layer(cell)
            forms[name]["transformers"] = (layer, layer)
    attention = AttentionCell(d_model, heads, heads // 2, size)
    forms["attention"] = {
        "ours": (attention, from_rest(attention)),
        "transformers": llama_attention(attention),
    }
    return forms


def from_rest(cell: Cell) -> Run:
    return lambda inputs: cell(inputs, cell.init_state(len(inputs)))[0]


def olmo_hybrid_layer(cell: DeltaRuleCell) -> tuple[nn.Module, Any]:
    """The gated DeltaNet layer of Olmo Hybrid with a copy of the weights of a cell, and its configuration."""
    # Imported where it is used: it takes seconds, and the other benchmarks do without.
    from transformers import OlmoHybridConfig
    from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet

    assert cell.decay is not None
    assert cell.convolution.weight is not None
    config = OlmoHybridConfig(
        hidden_size=cell.in_proj.in_features,
        linear_num_key_heads=cell.heads,
        linear_num_value_heads=cell.heads,
        linear_key_head_dim=cell.key_size,
        linear_value_head_dim=cell.value_size,
        linear_conv_kernel_dim=cell.convolution.width,
        linear_allow_neg_eigval=cell.largest_beta == 2,
        num_hidden_layers=2,  # it refuses to be a hybrid without attention
        layer_types=["linear_attention", "full_attention"],
    )
    layer = OlmoHybridGatedDeltaNet(config, 0).eval()
    keys, values = cell.heads * cell.key_size, cell.heads * cell.value_size
    names = ("g_proj", "q_proj", "k_proj", "v_proj", "b_proj", "a_proj")
    parts = cell.in_proj.weight.detach().split([values, keys, keys, values, cell.heads, cell.heads])
    layer.load_state_dict(
        {
            **{f"{name}.weight": part for name, part in zip(names, parts, strict=True)},
            "conv1d.weight": cell.convolution.weight.detach()[:, None],
            "A_log": cell.decay.A_log.detach(),
            "dt_bias": cell.decay.step_bias.detach(),
            "o_norm.weight": cell.norm.weight.detach(),
            "o_proj.weight": cell.out_proj.weight.detach(),
        }
    )
    return layer, config


def llama_attention(cell: AttentionCell) -> tuple[nn.Module, Run]:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=cell.in_proj.in_features,
        num_attention_heads=cell.heads,
        num_key_value_heads=cell.key_value_heads,
        head_dim=cell.head_size,
        rope_parameters={"rope_type": "default", "rope_theta": cell.rope_base},
    )
    config._attn_implementation = "sdpa"
    layer, rotary = LlamaAttention(config, 0).eval(), LlamaRotaryEmbedding(config)
    heads = [cell.heads, cell.key_value_heads, cell.key_value_heads]
    parts = cell.in_proj.weight.detach().split([n * cell.head_size for n in heads])
    weights = dict(zip(("q_proj", "k_proj", "v_proj"), parts, strict=True))
    weights["o_proj"] = cell.out_proj.weight.detach()
    layer.load_state_dict({f"{name}.weight": weight for name, weight in weights.items()})

    def run(inputs: Tensor) -> Tensor:
        positions = torch.arange(inputs.shape[1])[None]
        return layer(inputs, position_embeddings=rotary(inputs, positions), attention_mask=None)[0]

    return layer, run


@torch.no_grad()
def forward(layer: nn.Module, run: Run, inputs: Tensor) -> Tensor:
    del layer
    return run(inputs)


def forward_backward(layer: nn.Module, run: Run, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs, and the gradient in the inputs; those in the parameters are computed too."""
    inputs = inputs.detach().requires_grad_()
    outputs = run(inputs)
    gradient, *_ = torch.autograd.grad((outputs**2).sum(), [inputs, *layer.parameters()])
    return outputs.detach(), gradient


def check(forms: dict[str, tuple[nn.Module, Run]], inputs: Tensor) -> None:
    (first, expected), *others = (
        (form, (forward(layer, run, inputs), *forward_backward(layer, run, inputs)))
        for form, (layer, run) in forms.items()
    )
    for form, results in others:
        for what, result, reference in zip(
            ("outputs", "outputs under gradients", "gradient"), results, expected, strict=True
        ):
            require_close(f"{what} of {form} differ from {first}", result, reference, TOLERANCE)


BENCHMARK = Benchmark(
    "cells",
    "Cells beside Mamba-2: chunked form, readable loop, and the layer of transformers with the weights",
    cases,
    checked="outputs and gradient in the inputs equal to 1e-4",
    headlines=tuple(
        Headline(
            f"{name}, forward+backward, {sizes['batch']} x {sizes['length']} tokens, d = {sizes['d_model']}",
            more,
            less,
            {"cell": name, "passes": "forward+backward", **sizes},
            aim=aim,
        )
        for name, more, less, aim in (
            ("deltanet", "reference", "chunked", "at least 2"),
            ("gated-deltaproduct", "reference", "chunked", "at least 2"),
            ("gated-deltanet", "transformers", "chunked", "at least 1"),
            ("attention", "ours", "transformers", ""),
        )
        for sizes in SIZES
    ),
)
