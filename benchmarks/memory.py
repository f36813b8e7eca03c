"""Peak memory of a piece of work, as the allocator of its tensors counts it.

Resident memory would not do: it holds what caches and allocators keep, and never falls. Here every allocation
and every release between begin and end is counted, so that a closed form can be met to the byte. Earlier
allocations do not count, nor does their release; the work's result does.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

import torch
from torch.autograd.profiler import profile


def peak_bytes(work: Callable[[], object]) -> int:
    """Do the work once and return the most bytes of tensors on the CPU that it held at a time."""
    with _without_notes_of_the_profiler(), profile(use_cpu=True, profile_memory=True) as profiled:
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
