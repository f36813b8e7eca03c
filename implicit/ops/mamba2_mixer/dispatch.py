"""The mixer of a Mamba-2 cell, between its projections: its definition, and the choice of a backend."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.backends import (
    AUTO,
    NUMBA,
    ON_CPU,
    Backend,
    Backends,
    Preference,
    TensorsRequest,
    check_shapes,
    element_types,
    later,
    one_element_type,
)
from implicit.ops.gated_norm import gated_norm
from implicit.ops.gated_norm.dispatch import definition as gated_norm_definition
from implicit.ops.hand_written_passes import Op, uncompiled
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


BACKENDS: Backends[TensorsRequest, Callable[[int, float], Op]] = Backends(
    {
        "ops": Backend(one_by_one),
        "numba": Backend(
            later("implicit.ops.mamba2_mixer.numba_kernels.launch", "numba_op"),
            (NUMBA, ON_CPU, one_element_type(), element_types((torch.float32, torch.float64))),
        ),
    },
    on_gpu=Preference("ops", "for which each of the ops has kernels"),
    on_cpu=Preference("numba", "where all of a sequence stays in the cache"),
    elsewhere=Preference("ops", "where they run as they are"),
)


@uncompiled
def mamba2_mixer(
    projected: Tensor,
    window: Tensor,
    taps: Tensor,
    bias: Tensor,
    dt_bias: Tensor,
    A: Tensor,
    D: Tensor,
    weight: Tensor,
    state: Tensor,
    mask: Tensor | None = None,
    *,
    norm_groups: int = 1,
    epsilon: float = 1e-5,
    backend: str = AUTO,
) -> tuple[Tensor, Tensor]:
    """Compute short convolution, SSD scan and gated norm of a Mamba-2 cell.

    InputError for shapes that do not fit, tensors on several devices, an unknown backend or one that cannot
    run these tensors.

    Args:
        projected: gate, convolution channels (x, B and C) and pre-activations of Δ, ``[batch, length,
            features + channels + heads]``.
        window: channels of the tokens before the sequence, ``[batch, channels, width − 1]``.
        taps: of the convolution, ``[channels, width]``; the last one is that of the token itself.
        bias: of the convolution, ``[channels]``.
        dt_bias: Δ = softplus(pre-activation + dt_bias), ``[heads]``.
        A: negative decay rates, ``[heads]``.
        D: of the skip connection, ``[heads]``.
        weight: of the norm, ``[features]``.
        state: of the scan before the first token, ``[batch, heads, head_size, state_size]``.
        mask: which tokens are real, ``[batch, length]``, bool; Δ is 0 at the others. All if None.
        norm_groups: groups of neighbouring features, each normalised by itself.
        epsilon: ε in the norm's factor (mean square + ε)^(−1/2).
        backend: ``"ops"`` (`short_convolution`, `ssd` and `gated_norm`, each with a backend of its own),
            ``"numba"`` (all of a sequence by our kernels for CPUs) or ``"auto"``, the kernels on a CPU.

    Returns:
        The outputs, ``[batch, length, features]``, and the state after the last token; differentiable to any
        order.

    Source: Dao & Gu 2024, arXiv 2405.21060; ``mamba_split_conv1d_scan_combined`` of mamba_ssm.

    Example:
        >>> import torch
        >>> projected, window = torch.ones(1, 3, 4 + 8 + 2), torch.zeros(1, 8, 3)
        >>> of_channels, of_heads = (torch.ones(8, 4), torch.zeros(8)), 3 * (torch.ones(2),)
        >>> state = torch.zeros(1, 2, 2, 2)
        >>> out, state = mamba2_mixer(projected, window, *of_channels, *of_heads, torch.ones(4), state)
        >>> out.shape, state.shape
        (torch.Size([1, 3, 4]), torch.Size([1, 2, 2, 2]))
    """
    given = MixerTensors(projected, window, taps, bias, dt_bias, A, D, weight, state, mask)
    _check_shapes(given)
    tensors = {name: tensor for name, tensor in given._asdict().items() if name != "real"}
    op = BACKENDS[BACKENDS.choose(TensorsRequest.of(tensors), backend)].run(norm_groups, epsilon)
    outputs, after = op(*given._replace(real=None if mask is None else mask.to(projected.dtype)))
    return outputs, after


def _check_shapes(given: MixerTensors) -> None:
    projected, taps, state = given.projected, given.taps, given.state
    if projected.ndim != 3 or state.ndim != 4 or taps.ndim != 2 or 0 in projected.shape:
        raise InputError(
            f"projected, state and taps have shapes {tuple(projected.shape)}, {tuple(state.shape)} and "
            f"{tuple(taps.shape)}; give [batch, length, …], [batch, heads, head_size, state_size] and "
            "[channels, width], and at least one sequence and one token"
        )
    (batch, length, _), (channels, width), (_, heads, size, columns) = (
        projected.shape,
        taps.shape,
        state.shape,
    )
    features = heads * size
    if not width or not columns or channels <= features or (channels - features) % (2 * columns):
        raise InputError(
            f"taps has shape {tuple(taps.shape)}; with a state of shape {tuple(state.shape)} give it "
            f"{features} + 2 * {columns} channels per group, and at least one tap"
        )
    expected = {
        "projected": (batch, length, features + channels + heads),
        "window": (batch, channels, width - 1),
        "bias": (channels,),
        "dt_bias": (heads,),
        "A": (heads,),
        "D": (heads,),
        "weight": (features,),
        "state": (batch, heads, size, columns),
        "mask": (batch, length),
    }
    tensors = {**given._asdict(), "mask": given.real}
    check_shapes({name: (tensors[name], shape) for name, shape in expected.items()}, "state and taps")
