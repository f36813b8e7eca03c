"""Ops with a hand-written forward and backward pass beside the definition of what they compute.

The passes compute values and first derivatives. The definition, a plain composition of differentiable ops,
serves higher derivatives, forward mode and every transform of ``torch.func``.

A sequence with a number that is not finite is computed token by token: products over several tokens would
carry 0 · NaN to earlier ones.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

Tensors = tuple[Tensor, ...]
Arguments = Sequence[Any]
"""Tensors, or None where one is absent."""
Op = Callable[..., Tensors]
Backward = Callable[[Arguments, Arguments], Arguments]


def op_with_passes(definition: Op, forward: Op, backward: Backward) -> Op:
    """Make an op out of its definition, its forward and its backward pass.

    The definition maps the inputs, tensors or None for an absent one, to a tuple of outputs. The passes run
    without gradient tracking; ``backward`` takes the inputs and the gradients of the outputs, None for one
    that was not used.
    """

    class HandWritten(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Tensor | None) -> Tensors:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor | None) -> Any:
            inputs = ctx.saved_tensors
            if all(gradient is None for gradient in gradients):  # an undefined gradient is passed on
                return (None,) * len(inputs)
            if torch.is_grad_enabled() or is_transformed(gradients):
                return _pull_back(definition, inputs, gradients)
            device = next(tensor.device.type for tensor in (*gradients, *inputs) if tensor is not None)
            with torch.autocast(device, enabled=False):  # the types are those that the forward pass chose
                return tuple(backward(inputs, gradients))

    def op(*inputs: Tensor | None) -> Tensors:
        if is_transformed(inputs):
            return definition(*inputs)
        if not torch.is_grad_enabled():
            return forward(*inputs)
        return HandWritten.apply(*inputs)

    return op


def is_transformed(tensors: Arguments) -> bool:
    """Return whether torch.func, forward-mode differentiation, export or tracing watches the tensors."""
    # PyTorch asks itself the same way; it has no public name for it.
    if torch._C._are_functorch_transforms_active() or is_recorded():
        return True
    return any(
        tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors
    )


def is_recorded() -> bool:
    """Return whether a graph is recorded that other numbers will go through, or tensors are fake."""
    if torch.compiler.is_exporting() or torch.jit.is_tracing():  # type: ignore[attr-defined]
        return True
    if not is_in_torch_dispatch_mode():
        return False
    from torch._guards import detect_fake_mode
    from torch.fx.experimental.proxy_tensor import get_proxy_mode  # which may load SymPy

    return get_proxy_mode() is not None or detect_fake_mode() is not None


def _pull_back(definition: Op, inputs: Arguments, gradients: Arguments) -> Arguments:
    """The backward pass that follows from the definition, differentiable in inputs and gradients."""

    def of_present(*tensors: Tensor) -> Tensors:
        remaining = iter(tensors)
        return definition(*(None if tensor is None else next(remaining) for tensor in inputs))

    outputs, pull_back, *_ = torch.func.vjp(of_present, *(tensor for tensor in inputs if tensor is not None))
    found = iter(
        pull_back(
            tuple(
                torch.zeros_like(output) if gradient is None else gradient
                for output, gradient in zip(outputs, gradients, strict=True)
            )
        )
    )
    return tuple(None if tensor is None else next(found) for tensor in inputs)


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def uncompiled(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Return the function as one that runs in plain PyTorch within a compiled one, with the same answer.

    Counts of iterations depend on data, and kernels read memory, which a compiler does not give them.
    `torch.compiler.disable` as a decorator would load the compiler for everybody.
    """

    @functools.wraps(function)
    def called(*args: Parameters.args, **options: Parameters.kwargs) -> Returned:
        if torch.compiler.is_dynamo_compiling():
            return torch.compiler.disable(function)(*args, **options)
        return function(*args, **options)

    return called


def not_finite_sequences(outputs: Tensor) -> Tensor | None:
    """Return which sequences of ``[batch, tokens, …]`` end in what is not finite, or None.

    No state forgets what is not finite. Transformed and compiled code cannot look at numbers, and gets None.
    """
    if outputs.is_meta or torch.compiler.is_compiling() or is_transformed(()):
        return None
    last = outputs[:, -1].detach()
    if math.isfinite(last.sum()):  # the sum of finite numbers may overflow, which only costs time
        return None
    rows = (~last[..., None].isfinite()).flatten(1).any(1).nonzero()[:, 0]
    return rows if len(rows) and outputs.shape[1] > 1 else None
