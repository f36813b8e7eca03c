"""Interrupt training after a step, or kill work with SIGKILL at every instant at which files change."""

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from implicit.config.run import TrainConfig
from implicit.train import train
from implicit.training.progress import TrainingStep
from tests.processes import forked


def train_until(step: int, config: TrainConfig, out: Path, **parts: Any) -> None:
    """Train up to a step, which Ctrl-C interrupts."""

    def interrupt(taken: TrainingStep) -> None:
        if taken.step == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, out, progress=False, callback=interrupt, **parts)


def kill_at_every_instant(folder: Path, work: Callable[[Path], Any], first: int = 1) -> int:
    """Do work into ``folder/uninterrupted``, and killed at its n-th instant and done again into ``folder/n``.

    Instants before the first are left out.

    Returns:
        How many instants there are: before and after every file that takes its place. What SIGKILL leaves
        does not depend on which fsync was reached.
    """

    def killed(out: Path, kill_at: int) -> None:
        """Work, up to the kill_at-th instant."""
        replace, instants = os.replace, count(1)

        def instant() -> None:
            if next(instants) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        def killing(*arguments: Any) -> None:
            instant()
            replace(*arguments)
            instant()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", killing)
            work(out)

    def status(out: Path, kill_at: int) -> int | None:
        process = forked(killed, out, kill_at)
        process.join()
        return process.exitcode

    work(folder / "uninterrupted")
    kill_at = first
    while (ended := status(folder / str(kill_at), kill_at)) == -signal.SIGKILL:
        work(folder / str(kill_at))
        kill_at += 1
    assert ended == 0
    return kill_at - 1
