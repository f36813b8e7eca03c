"""The one place that decides where a module's weights may be read in place of calling it.

Kernels, single-token forms and written-out derivatives read weights. Adapters, hooks and pruning forbid that.
"""

import copy
from typing import TypeVar, cast

import torch
from torch import Tensor, nn

from implicit.cells.interface import Cell, has_hooks
from implicit.ops.linear import linear

Own = TypeVar("Own", bound=nn.Module)


def is_plain(*modules: nn.Module) -> bool:
    """Return whether modules, and those inside, are of known classes and have no hooks.

    Example:
        >>> layer = nn.Linear(2, 2, bias=False)
        >>> is_plain(layer), is_plain(nn.utils.parametrizations.weight_norm(layer))
        (True, False)
    """
    for module in modules:  # single tokens wait for this: no generators
        inside = module._modules and not is_plain(*module.children())
        if inside or has_hooks(module) or not _is_known(module):
            return False
    return True


def project(module: nn.Module, x: Tensor, injection: Tensor | None = None) -> Tensor:
    """Apply a projection, by `linear` where it is a plain one, else by calling it, and add the injection."""
    plain = isinstance(module, nn.Linear) and is_plain(module)
    projected: Tensor = linear(x, cast("nn.Linear", module).weight) if plain else module(x)
    return projected if injection is None else projected + injection


def like(*modules: nn.Module) -> Tensor:
    """Return a parameter of the dtype and the device of what modules compute: their first floating one.

    Quantised modules have no parameters, or packed ones; a CPU and the default dtype if there is none.
    """
    usual = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    parameters = (parameter for module in modules for parameter in module.parameters())
    return next((parameter for parameter in parameters if parameter.dtype in usual), torch.empty(0))


def in_double_precision(module: Own) -> Own:
    """Return a copy with weights in float64 or complex128, in evaluation mode.

    Example:
        >>> [part.dtype for part in in_double_precision(nn.ParameterList([torch.ones(1) * 1j]))]
        [torch.complex128]
    """
    return copy.deepcopy(module)._apply(widened).eval()


def widened(part: Tensor) -> Tensor:
    """Return a tensor in float64 or complex128; one of integers as it is."""
    return part.to(torch.promote_types(part.dtype, torch.float64)) if varies(part) else part


def varies(part: Tensor) -> bool:
    """Return whether a tensor has a derivative and may be off by a little; counters and flags may not."""
    return part.is_floating_point() or part.is_complex()


def _is_known(module: nn.Module) -> bool:
    """Return whether code that reads weights knows this class, and this form of it."""
    kind: type[nn.Module] = type(module)
    has_bias = module._parameters.get("bias") is not None
    if kind is nn.Linear:  # a quantised weight is a subclass of Tensor
        return not has_bias and type(module.weight) in (Tensor, nn.Parameter)
    if isinstance(module, nn.Conv1d) and kind is nn.Conv1d:
        form = *module.stride, *module.padding, *module.dilation, module.groups
        return has_bias and form == (1, 0, 1, module.out_channels)
    return kind is nn.ModuleList or kind.__module__.startswith(f"{__package__}.") or isinstance(module, Cell)
