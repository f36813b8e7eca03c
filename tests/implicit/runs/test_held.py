"""One process at a time trains in a run folder; a process that is killed leaves no lock behind."""

import errno
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from automata.errors import InputError
from implicit.runs.folder import RunFolder
from implicit.train import main, train
from tests.small_models import small_config

Refuses = Callable[[Callable[..., None], list[str]], str]

HOLD = """
import sys, time
from filelock import FileLock
lock = FileLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
time.sleep(60)
"""
CONFIG = small_config(batch_size=4, length=6, steps=2)
ARGUMENTS = "--task parity --model lstm --d-model 4 --length 6 --steps 2 --warmup-steps 1 --out"


@pytest.fixture
def holder(tmp_path: Path) -> subprocess.Popen[str]:
    """Another process that holds the folder ``run`` as one that trains does."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder.lock_file)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_the_second_process_is_told_and_may_go_on_when_the_first_is_killed(
    holder: subprocess.Popen[str], tmp_path: Path, refuses: Refuses
) -> None:
    try:
        sentence = refuses(main, [*ARGUMENTS.split(), str(tmp_path / "run")])
        assert "where another process trains at this moment; wait until it ends, or give another" in sentence
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    assert (tmp_path / "run" / "lock").exists()  # a file that nobody holds
    run = train(CONFIG, tmp_path / "run", progress=False)
    assert not (run.path / "lock").exists()


def test_a_folder_is_held_while_the_context_lasts_and_left_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "parent" / "run")
    with folder.held():
        with (
            pytest.raises(InputError, match=r"parent/run, where another process trains"),
            RunFolder(folder.path).held(),
        ):
            pass
        assert folder.lock_file.exists()
    assert not list(tmp_path.iterdir())


def test_training_holds_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While steps are taken, and not before the arguments are checked or after the run is finished."""
    from implicit.training import train as training

    def second(*_: object) -> None:
        with pytest.raises(InputError, match="another process trains"):
            train(CONFIG, tmp_path / "run", progress=False)

    monkeypatch.setattr(training, "take_steps", second)
    run = train(CONFIG, tmp_path / "run", progress=False)
    assert not (run.path / "lock").exists()
    assert train(CONFIG, tmp_path / "run", progress=False).path == run.path  # finished: nothing to hold


@pytest.mark.parametrize("missing", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_used_without(
    missing: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(missing, os.strerror(missing))

    monkeypatch.setattr("fcntl.flock", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = train(CONFIG, tmp_path / "run", progress=False)
    assert not (run.path / "lock").exists()


def test_a_lock_that_is_a_looping_link_is_told(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "lock")
    with pytest.raises(InputError, match="lock is a link; remove it"), RunFolder(tmp_path).held():
        pass
