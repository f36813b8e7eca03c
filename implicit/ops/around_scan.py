"""Explanations of the choice of backends for the ops around the scan of a Mamba-2 cell."""

import torch

from implicit.ops.backends import Explanation, default_device
from implicit.ops.gated_norm import dispatch as gated_norm
from implicit.ops.mamba2_mixer import dispatch as mamba2_mixer
from implicit.ops.short_convolution import dispatch as short_convolution


def explain_around_scan(
    device: str | None = None, dtype: torch.dtype = torch.float32, *, features: int = 1536, width: int = 4
) -> dict[str, Explanation]:
    """Say which backend ``"auto"`` takes for each op around the scan, why, and what the other lacks.

    A cell asks for the ``mamba2_mixer``; where that is not run by kernels of its own, for the two others. The
    device is ``"cuda"`` if there is one, else ``"cpu"``, for None; the features are those of a group of the
    norm, the width that of the convolution. The choices are by the name of the op; print one to read it.

    Example:
        >>> print(explain_around_scan("cpu")["gated_norm"])
        auto chooses torch: the tensors are on cpu, for which its passes are written
          torch      available
          triton     ...
    """
    device, dtypes = device or default_device(), (dtype,)
    return {
        "mamba2_mixer": mamba2_mixer.BACKENDS.explain(mamba2_mixer.Request(device, dtypes)),
        "gated_norm": gated_norm.BACKENDS.explain(gated_norm.Request(device, dtypes, features=features)),
        "short_convolution": short_convolution.BACKENDS.explain(
            short_convolution.Request(device, dtypes, width=width)
        ),
    }
