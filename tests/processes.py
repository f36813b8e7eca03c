"""Python in a process of its own."""

import os
import sys
from pathlib import Path
from subprocess import CompletedProcess, run

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
