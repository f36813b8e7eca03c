"""The backends of the SSD scan.

Importing this module imports neither numba, Triton nor mamba_ssm: a backend does when it is asked about or
used.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from implicit.ops.backends import Backend, Backends, Preference
from implicit.ops.needs import NUMBA, element_types, on_cpu, on_cuda, one_element_type, package
from implicit.ops.ssd.chunked import ssd_chunked
from implicit.ops.ssd.mamba_ssm_scan import ssd_mamba_ssm
from implicit.ops.ssd.reference import ssd_reference
from implicit.ops.ssd.request import TRITON_NEEDS, TYPED, Request

Scan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]
MAMBA_SSM_NEEDS = (
    on_cuda(),
    # Version 2.3 needs no CUDA extension.
    package("mamba_ssm", "pip install 'implicit-ssm[cuda]'", module="mamba_ssm.ops.triton.ssd_combined"),
    one_element_type(TYPED),
    element_types((torch.float32, torch.bfloat16, torch.float16), TYPED),
)


NUMBA_NEEDS = (NUMBA, on_cpu(), one_element_type(TYPED), element_types((torch.float32, torch.float64), TYPED))


def _numba_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    from implicit.ops.ssd.numba_scan import ssd_numba

    return ssd_numba(x, dt, A, B, C, initial_state)


def _triton_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    from implicit.ops.ssd.triton_kernels import ssd_triton

    return ssd_triton(x, dt, A, B, C, initial_state)


# On a GPU our kernels come before mamba_ssm's: in float32 theirs may round products to TF32, and over their
# chunks of 256 tokens a reset costs the digits of the decays that follow, which state tracking lives on.
BACKENDS: Backends[Request, Scan] = Backends(
    {
        "reference": Backend(ssd_reference),
        "chunked": Backend(ssd_chunked, (one_element_type(TYPED),)),
        "numba": Backend(_numba_scan, NUMBA_NEEDS),
        "triton": Backend(_triton_scan, TRITON_NEEDS),
        "mamba_ssm": Backend(ssd_mamba_ssm, MAMBA_SSM_NEEDS),
    },
    on_gpu=Preference("triton", "and it keeps IEEE products and exact resets there"),
    on_cpu=Preference("numba", "where it is the fastest"),
    elsewhere=Preference("chunked", "where it is the fastest that runs"),
)
