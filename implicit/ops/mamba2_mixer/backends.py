"""The backends of the mixer.

Importing this module does not import numba: that happens when the kernels are asked about or used.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from implicit.ops.backends import Backend, Backends, Preference
from implicit.ops.hand_written_passes import Op
from implicit.ops.mamba2_mixer.definition import one_by_one
from implicit.ops.needs import NUMBA, element_types, on_cpu, one_element_type
from implicit.ops.request import TensorsRequest


@dataclass(frozen=True)
class Request(TensorsRequest):
    """What decides whether the kernels can run the op.

    Example:
        >>> import torch
        >>> BACKENDS.choose(Request.of({"projected": torch.ones(4).half()}))
        'ops'
    """


def _numba_op(norm_groups: int, epsilon: float) -> Op:
    from implicit.ops.mamba2_mixer.numba_op import numba_op

    return numba_op(norm_groups, epsilon)


BACKENDS: Backends[Request, Callable[[int, float], Op]] = Backends(
    {
        "ops": Backend(one_by_one),
        "numba": Backend(
            _numba_op,
            (NUMBA, on_cpu(), one_element_type(), element_types((torch.float32, torch.float64))),
        ),
    },
    on_gpu=Preference("ops", "for which each of the ops has kernels"),
    on_cpu=Preference("numba", "where all of a sequence stays in the cache"),
    elsewhere=Preference("ops", "where they run as they are"),
)
