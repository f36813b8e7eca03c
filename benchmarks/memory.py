"""Peak memory of a piece of work, as the allocator itself counts it.

Resident memory would not do: it holds what caches and allocators keep, and never falls. Here every allocation
and every release between begin and end is counted, so that a closed form can be met to the byte:

| allocator  | counted by                          | what it sees                             |
|------------|-------------------------------------|------------------------------------------|
| ``torch``  | ``torch.autograd.profiler``         | tensors on the CPU                       |
| ``cuda``   | ``torch.cuda.max_memory_allocated`` | tensors on the GPU                       |
| ``python`` | ``tracemalloc``                     | Python objects and NumPy arrays          |

Earlier allocations do not count, nor does their release; the work's result does.
"""

import os
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import Literal

import torch
from torch.autograd.profiler import profile

Allocator = Literal["torch", "cuda", "python"]
Work = Callable[[], object]


def peak_bytes(work: Work, allocator: Allocator = "torch") -> int:
    """Do the work once and return the most bytes that it held at a time."""
    return _COUNTERS[allocator](work)


def _torch_peak(work: Work) -> int:
    """Sum up the record of allocations (positive) and releases (negative) of the CPU allocator."""
    with _without_notes_of_the_profiler(), profile(use_cpu=True, profile_memory=True) as profiled:
        work()
    recorded = profiled.kineto_results
    assert recorded is not None
    changes = [
        (event.start_ns(), event.nbytes()) for event in recorded.events() if event.name() == "[memory]"
    ]
    changes.sort(key=lambda change: change[0])
    return max(accumulate((size for _, size in changes), initial=0))


def _cuda_peak(work: Work) -> int:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _python_peak(work: Work) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = work()
        peak = tracemalloc.get_traced_memory()[1] - before
        del result
    finally:
        tracemalloc.stop()
    return peak


_COUNTERS: dict[Allocator, Callable[[Work], int]] = {
    "torch": _torch_peak,
    "cuda": _cuda_peak,
    "python": _python_peak,
}


@contextmanager
def _without_notes_of_the_profiler() -> Iterator[None]:
    """Leave out the lines in which the profiler notes that it starts and stops; all others are passed on.

    They are written to the file descriptor by the library itself, and no setting turns them off.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            caught.seek(0)
            for line in caught:
                if b"ActivityProfilerHandler" not in line:
                    os.write(kept, line)
            os.close(kept)
