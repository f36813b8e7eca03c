"""The definition of the mixer, the part of a Mamba-2 cell between its projections."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.gated_norm import gated_norm
from implicit.ops.gated_norm.dispatch import definition as gated_norm_definition
from implicit.ops.hand_written_passes import Op
from implicit.ops.short_convolution import short_convolution
from implicit.ops.short_convolution.dispatch import definition as convolution_definition
from implicit.ops.ssd import ssd
from implicit.ops.ssd.chunked import CHUNK_SIZE, composition

Convolve = Callable[[Tensor, Tensor, Tensor], Tensor]
Scan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]
Normalise = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


class MixerTensors(NamedTuple):
    """The tensors that an op of the mixer takes, in this order; `mamba2_mixer` says what each is.

    ``real`` is 1 at real tokens and 0 at padding, of the dtype of the others; None if all are real.
    """

    projected: Tensor
    window: Tensor
    taps: Tensor
    bias: Tensor
    dt_bias: Tensor
    A: Tensor
    D: Tensor
    weight: Tensor
    state: Tensor
    real: Tensor | None = None


def definition(norm_groups: int, epsilon: float) -> Op:
    """Return the mixer as a plain composition of differentiable ops; arguments as of `mamba2_mixer`."""
    normalise = gated_norm_definition(norm_groups, epsilon)
    return _composed(
        lambda padded, taps, bias: convolution_definition(padded, taps, bias)[0],
        composition(CHUNK_SIZE),
        lambda *tensors: normalise(*tensors)[0],
    )


def one_by_one(norm_groups: int, epsilon: float) -> Op:
    """Return the mixer as three ops, each run by its own backend; arguments as of `definition`."""
    return _composed(
        short_convolution,
        ssd,
        lambda y, x, D, gate, weight: gated_norm(y, x, D, gate, weight, norm_groups, epsilon),
    )


def _composed(convolve: Convolve, scan: Scan, normalise: Normalise) -> Op:
    def mixer(*tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        given = MixerTensors(*tensors)  # type: ignore[arg-type]  # only the last one may be absent
        weight, bias, (heads, size, width) = given.weight, given.bias, given.state.shape[-3:]
        gate, channels, before = given.projected.split([len(weight), len(bias), heads], dim=-1)
        dt = functional.softplus(before + given.dt_bias)
        if given.real is not None:
            dt = dt.masked_fill((given.real == 0)[..., None], 0)
        convolved = convolve(torch.cat([given.window.mT, channels], dim=1), given.taps, bias)
        shared = (len(bias) - len(weight)) // 2
        x, B, C = convolved.split([len(weight), shared, shared], dim=-1)
        x, B, C = x.unflatten(-1, (heads, size)), B.unflatten(-1, (-1, width)), C.unflatten(-1, (-1, width))
        y, after = scan(x, dt, given.A, B, C, given.state)
        return normalise(y, x, given.D, gate, weight), after

    return mixer
