"""Peak memory of a piece of work, as the allocator of its tensors counts it.

Resident memory would not do: it holds what caches and allocators keep, and never falls. Here every allocation
and every release between begin and end is counted, so that a closed form can be met to the byte. Earlier
allocations do not count, nor does their release; the work's result does.
"""

from collections.abc import Callable
from itertools import accumulate

import torch
from torch.autograd.profiler import profile


def peak_bytes(work: Callable[[], object]) -> int:
    """Do the work once and return the most bytes of tensors on the CPU that it held at a time."""
    with profile(use_cpu=True, profile_memory=True) as profiled:
        work()
    recorded = profiled.kineto_results
    assert recorded is not None
    changes = [
        (event.start_ns(), event.nbytes()) for event in recorded.events() if event.name() == "[memory]"
    ]
    changes.sort(key=lambda change: change[0])
    return max(accumulate((size for _, size in changes), initial=0))


def cuda_peak_bytes(work: Callable[[], object]) -> int:
    """Do the work once and return the most bytes on the GPU that it held at a time."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
