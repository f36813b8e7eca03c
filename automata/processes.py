"""Worker processes that end with the process that started them, however it ends."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process
from typing import Any


def spawned_workers(
    processes: int, begin: Callable[..., object], arguments: tuple[Any, ...] = ()
) -> ProcessPoolExecutor:
    """Return a pool of fresh processes; they end if this one is killed, too."""
    return ProcessPoolExecutor(processes, get_context("spawn"), _begin, (begin, arguments))


def _begin(begin: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin(*arguments)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
