"""The self-map of stacked Mamba-2 layers as plain tensors: what the fused sequential solve reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.backends import check_shapes


class Walk(NamedTuple):
    """The result of a sequential solve, in `Solution`'s order, with windows and states after the last token.

    These are ``[layers, batch, channels, d_conv − 1]`` and ``[layers, batch, heads, head_size, d_state]``.
    """

    value: Tensor
    iterations: Tensor
    residual: Tensor
    status: Tensor
    windows: Tensor
    states: Tensor


def check_tensors(
    expected: Mapping[str, tuple[Tensor, Sequence[int], torch.dtype]], given: str, out_proj: Tensor
) -> None:
    """Refuse tensors, by name, of another shape or dtype than expected, or on another device."""
    for name, (tensor, shape, dtype) in expected.items():
        check_shapes({name: (tensor, shape)}, given)
        if tensor.dtype != dtype:
            raise InputError(f"{name} is {tensor.dtype}; cast it to {dtype}, which goes with out_proj")
        if tensor.device != out_proj.device:
            raise InputError(
                f"{name} is on {tensor.device} and out_proj on {out_proj.device}; move both to one device"
            )


@dataclass(frozen=True)
class SelfMap:
    """Φ as weights: z ← norm(z + mixer(norm(z), injection)), through all layers.

    Every tensor but the last has a leading axis of layers. The names are those of `Mamba2Cell`, whose sizes
    are read off the shapes. InputError for shapes that do not fit, tensors of several dtypes or on several
    devices.

    Attributes:
        mixer_norm: weights of the norms before the mixers, ``[layers, d_model]``.
        in_proj: ``[layers, d_in_proj, d_model]``.
        conv_weight: ``[layers, channels, d_conv]``.
        conv_bias: ``[layers, channels]``.
        dt_bias: ``[layers, heads]``.
        A_log: log(−A), ``[layers, heads]``.
        D: ``[layers, heads]``.
        gate_norm: weights of the gated norms, ``[layers, d_inner]``.
        out_proj: ``[layers, d_model, d_inner]``.
        latent_norm: weights of the last norm, ``[d_model]``.
        groups: groups that share B and C, and are normalised by themselves.
        residual: whether a layer adds its input.
        epsilon: ε of every norm.
    """

    mixer_norm: Tensor
    in_proj: Tensor
    conv_weight: Tensor
    conv_bias: Tensor
    dt_bias: Tensor
    A_log: Tensor
    D: Tensor
    gate_norm: Tensor
    out_proj: Tensor
    latent_norm: Tensor
    groups: int = 1
    residual: bool = True
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("in_proj", "out_proj", "conv_weight"):
            if getattr(self, name).ndim != 3:
                shape = tuple(getattr(self, name).shape)
                raise InputError(f"{name} has shape {shape}; give three axes, the first that of the layers")
        if self.D.ndim != 2:
            raise InputError(f"D has shape {tuple(self.D.shape)}; give [layers, heads]")
        if self.heads == 0 or self.groups < 1 or self.heads % self.groups or self.d_inner % self.heads:
            raise InputError(
                f"D has {self.heads} heads for d_inner {self.d_inner} and {self.groups} groups; "
                "heads must divide d_inner, and groups the heads"
            )
        layers, channels, d_in_proj = self.layers, self.channels, self.d_in_proj
        expected = {
            "mixer_norm": (layers, self.d_model),
            "in_proj": (layers, d_in_proj, self.d_model),
            "conv_weight": (layers, channels, self.d_conv),
            "conv_bias": (layers, channels),
            "dt_bias": (layers, self.heads),
            "A_log": (layers, self.heads),
            "D": (layers, self.heads),
            "gate_norm": (layers, self.d_inner),
            "out_proj": (layers, self.d_model, self.d_inner),
            "latent_norm": (self.d_model,),
        }
        given = {name: (getattr(self, name), shape, self.dtype) for name, shape in expected.items()}
        check_tensors(given, "out_proj and D", self.out_proj)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    @property
    def dtype(self) -> torch.dtype:
        """The element type of the weights."""
        return self.out_proj.dtype

    @property
    def layers(self) -> int:
        """Layers inside the fixed point."""
        return self.out_proj.shape[0]

    @property
    def d_model(self) -> int:
        """Features of the latent."""
        return self.out_proj.shape[1]

    @property
    def d_inner(self) -> int:
        """Channels of all heads."""
        return self.out_proj.shape[2]

    @property
    def heads(self) -> int:
        """Heads per layer."""
        return self.D.shape[1]

    @property
    def head_size(self) -> int:
        """Channels per head."""
        return self.d_inner // self.heads

    @property
    def channels(self) -> int:
        """Channels of the convolution: x, B and C."""
        return self.conv_weight.shape[1]

    @property
    def d_state(self) -> int:
        """State size per channel."""
        return (self.channels - self.d_inner) // (2 * self.groups)

    @property
    def d_conv(self) -> int:
        """Width of the convolution."""
        return self.conv_weight.shape[2]

    @property
    def d_in_proj(self) -> int:
        """Outputs of the input projection: gate, channels and Δ."""
        return self.d_inner + self.d_inner + 2 * self.groups * self.d_state + self.heads
