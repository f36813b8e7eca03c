"""Interrupt training after a step, or kill work with SIGKILL at every instant at which files change."""

import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from implicit.config.run import TrainConfig
from implicit.runs import environment
from implicit.train import train
from implicit.training.progress import TrainingStep


def train_until(step: int, config: TrainConfig, out: Path, **parts: Any) -> None:
    """Train up to a step, which Ctrl-C interrupts."""

    def interrupt(taken: TrainingStep) -> None:
        if taken.step == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, out, progress=False, callback=interrupt, **parts)


def kill_at_every_instant(folder: Path, work: Callable[[Path], Any], first: int = 1) -> int:
    """Do work into ``folder/uninterrupted``, and killed at its n-th instant and done again into ``folder/n``.

    To be called in a process of its own: it forks, which a process with threads cannot do. Instants before
    the first are left out.

    Returns:
        How many instants there are: calls of fsync and replace.
    """
    torch.set_num_threads(1)
    environment._commit = cache(environment._commit)  # git takes longer than the work

    def in_child(out: Path, kill_at: int) -> int:
        """Work in a child that kills itself at its kill_at-th call; return its status."""
        pid = os.fork()
        if pid == 0:
            calls = 0

            def killing(function: Callable[..., Any]) -> Callable[..., Any]:
                def call(*arguments: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls == kill_at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return function(*arguments)

                return call

            os.fsync, os.replace = killing(os.fsync), killing(os.replace)
            work(out)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    work(folder / "uninterrupted")
    kill_at = first
    while (status := in_child(folder / str(kill_at), kill_at)) == -signal.SIGKILL:
        assert in_child(folder / str(kill_at), 0) == 0
        kill_at += 1
    assert status == 0
    return kill_at - 1
