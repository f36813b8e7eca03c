"""Python in a process of its own."""

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess, run
from typing import Any

import torch

ROOT = Path(__file__).parents[1]


def environment(**changes: str) -> dict[str, str]:
    """That of this process with this repository on the path, and as many threads."""
    threads = str(torch.get_num_threads())
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": threads, **changes}


def run_python(
    *arguments: str | Path, code: int = 0, cwd: Path | None = None, **changes: str
) -> CompletedProcess[str]:
    """Run Python, which has to end with the code; changes are those of the environment."""
    command = [sys.executable, *map(str, arguments)]
    taken = environment(**changes)
    done = run(command, cwd=cwd, env=taken, capture_output=True, text=True, timeout=600)
    assert done.returncode == code, done.stderr
    return done


def forked(function: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """Start a function in a fork of this process, which has imported everything; Ctrl-C interrupts it."""

    def call() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # perhaps the suite ignores it
        os.environ.update(environment())
        function(*arguments)

    process = get_context("fork").Process(target=call, daemon=True)
    process.start()
    return process
