"""Who runs the ops around the scan: what their kernels take, and what is said of it."""

import pytest
import torch

from implicit.ops import explain_around_scan
from implicit.ops.gated_norm import dispatch as gated_norm

FLOAT32 = (torch.float32,)


@pytest.mark.triton
def test_the_norm_on_a_gpu_takes_mixed_dtypes_and_up_to_8192_features() -> None:
    for features, chosen in ((8192, "triton"), (8193, "torch")):
        request = gated_norm.Request("cuda", (torch.float32, torch.bfloat16), features=features)
        assert gated_norm.BACKENDS.choose(request) == chosen


def test_on_a_cpu_the_mixer_has_kernels_for_float32_and_float64() -> None:
    pytest.importorskip("numba")
    for dtype, chosen in ((torch.float32, "numba"), (torch.float64, "numba"), (torch.bfloat16, "ops")):
        assert explain_around_scan("cpu", dtype)["mamba2_mixer"].chosen == chosen
