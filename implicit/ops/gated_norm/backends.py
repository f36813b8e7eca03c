"""The backends of the gated norm.

Importing this module does not import Triton: that happens when the kernels are asked about or used.
"""

from collections.abc import Callable
from dataclasses import dataclass

from implicit.ops.backends import Backend, Backends, Preference
from implicit.ops.gated_norm.passes import torch_op
from implicit.ops.hand_written_passes import Op
from implicit.ops.needs import TRITON, at_most, element_types, entries, on_gpu_or_interpreted
from implicit.ops.request import TensorsRequest

LARGEST = 8192
"""Largest group of features of the kernels: they hold one in registers."""


@dataclass(frozen=True)
class Request(TensorsRequest):
    """What decides whether a kernel can run the op.

    Attributes:
        features: of a group.

    Example:
        >>> import torch
        >>> BACKENDS.choose(Request.of({"x": torch.ones(4)}, features=4))
        'torch'
    """

    features: int = 1


def _triton_op(groups: int, epsilon: float) -> Op:
    from implicit.ops.gated_norm.triton_op import triton_op

    return triton_op(groups, epsilon)


BACKENDS: Backends[Request, Callable[[int, float], Op]] = Backends(
    {
        "torch": Backend(torch_op),
        "triton": Backend(
            _triton_op,
            (TRITON, element_types(), at_most(LARGEST, "features"), entries, on_gpu_or_interpreted()),
        ),
    },
    on_gpu=Preference("triton", "where every pass over memory counts"),
    elsewhere=Preference("torch", "for which its passes are written"),
)
