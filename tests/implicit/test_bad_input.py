"""Bad input to training and to run folders: one sentence each, exit code 2, nothing written.

A case of a command names what is done beforehand in a folder that holds the finished run ``run``, the
arguments, and what the sentence must say. The commands of analysis have their cases in tests/analysis.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from automata.errors import InputError
from implicit.runs.loading import load_run
from implicit.train import main, train
from tests.implicit.tampering import Prepare, make_unfinished, write

Refuses = Callable[[Callable[..., None], list[str]], str]


NEW = "--task parity --model lstm --out new"

NEW_MODEL = "--model lstm --out new"

FLAGS = {
    f"{NEW} --task partiy": "task 'partiy' is unknown; did you mean 'parity'?",
    f"{NEW} --model mamab2": "model 'mamab2' is unknown; did you mean 'mamba2'?",
    f"{NEW} --stepz 3": "flag --stepz is unknown; the nearest is --steps",
    f"{NEW} --task no_such_module:task": "task no_such_module:task cannot be imported",
    f"{NEW} --model no_such_module:Model": "model is 'no_such_module:Model', which cannot be imported",
    f"{NEW} --task repl-3-reveals --length 20": "length is 20: task 'repl-3-reveals' asks nothing in",
    f"{NEW} --regex a*": "argument --regex: not allowed with argument --task; --help shows all flags",
    f"{NEW_MODEL} --regex (ab": "(ab",
    f"{NEW_MODEL} --task-file task.json": "task.json cannot be read",
    "--task parity --out new": "model is missing; give one with --model",
    "--task parity --model lstm": "out is missing",
    f"{NEW} --steps 0": "steps is 0; it should be greater than 0",
    f"{NEW} --target-accuracy 1.5": "target_accuracy is 1.5",
    "--model lstm --out new": "task is missing; give one with --task",
    f"{NEW} --length 0": "length is 0; it should be greater than 0",
    f"{NEW} --length ten": "length is ten; it should be a valid integer",
    f"{NEW} --batch-size 1.5": "batch_size is 1.5",
    f"{NEW} --batch-size 999999999999": "a batch of 999999999999 sequences of length 32 with 2 answers",
    f"{NEW} --learning-rate -0.1": "learning_rate is -0.1",
    f"{NEW} --betas 0.9 1": "betas holds 1.0; give two numbers",
    f"{NEW} --hard-fraction 2": "hard_fraction is 2; it should be less than",
    f"{NEW} --task S5-transpositions --hard-fraction 0.5": "'S5-transpositions' has no identity",
    f"{NEW} --seed -1": "seed is -1; it should be greater than or equal to 0",
    f"{NEW} --steps 10 --warmup-steps 100": "warmup_steps is 100; give at most steps, 10",
    f"{NEW} --device gpu": "device is 'gpu', which is not to be had here; choose",
    f"{NEW} --d-model 0": "d_model is 0; it should be greater than 0",
    f"{NEW} --d-state 8": "size of lstm 'd_state' is unknown",
    f"{NEW} --model mamba2 --d-model 10": "head_size is 16; it must divide",
    f"{NEW} --model implicit-mamba2 --damping 2": "damping is 2; it should be less",
    f"{NEW} --out /proc/new": "/proc/new: no such file or directory",
    "--resume --out new": "out is new, which holds no run to resume",
    "--resume --out run --seed 7": "seed is 7, but run holds a finished run with 0; give another folder",
    f"{NEW} --out run": "d_model is 32, but run holds a finished run with 4",
}

PREPARED: dict[str, tuple[Prepare, str, str]] = {
    "task file that is not JSON": (
        write("task.json", b"{"),
        f"{NEW_MODEL} --task-file task.json",
        "task.json is not valid JSON",
    ),
    "task file that is a list": (
        write("task.json", b"[1]"),
        f"{NEW_MODEL} --task-file task.json",
        "task.json holds a list; give an object that describes an automaton",
    ),
    "task file that is no automaton": (
        write("task.json", b'{"states": "many"}'),
        f"{NEW_MODEL} --task-file task.json",
        "task.json is no automaton: it has none of the fields transitions, table, ",
    ),
    "out is a file": (write("new", b""), NEW, "out is new, which is a file; give a folder"),
    "out holds other files": (write("new/notes", b""), NEW, "which holds other files (notes)"),
    "out below a file": (write("file", b""), f"{NEW} --out file/new", "file/new: not a directory"),
    "resume from a bad checkpoint": (
        make_unfinished,
        "--resume --out run",
        "run/checkpoint/state.safetensors was written by another version of implicit-ssm (format 1",
    ),
}


@pytest.mark.parametrize("argv", FLAGS)
def test_flags(argv: str, run_folder: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run_folder.parent)
    assert FLAGS[argv] in refuses(main, argv.split())


@pytest.mark.parametrize(("prepare", "argv", "sentence"), PREPARED.values(), ids=PREPARED)
def test_command(
    prepare: Prepare,
    argv: str,
    sentence: str,
    run_folder: Path,
    refuses: Refuses,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(run_folder.parent)
    prepare(run_folder.parent)
    assert sentence in refuses(main, argv.split())


def test_full_disk(tmp_path: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    assert "new/environment.json: no space left on device; free some space" in refuses(main, NEW.split())


# Two calls per file: the first and the last before the configuration is in place, and some of those after.
@pytest.mark.parametrize("call", [1, 4, 6, 7, 9, 12, 15, 16])
def test_disk_that_fills_up_leaves_nothing_half_written(
    call: int, stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever file meets the full disk: the run ends with its name, and goes on once there is room."""
    config = load_run(stored_run).config
    calls = 0
    fsync = os.fsync

    def fill(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill)
    with pytest.raises(OSError, match="No space left on device") as caught:
        train(config, tmp_path / "parent" / "run", progress=False)
    assert str(caught.value.filename).startswith(str(tmp_path / "parent" / "run"))
    assert not list(tmp_path.rglob("*.tmp"))
    if call <= 6:  # until the configuration is in place there is no run
        assert not (tmp_path / "parent").exists()
    monkeypatch.setattr(os, "fsync", fsync)
    run = train(config, tmp_path / "parent" / "run", progress=False)
    finished = (stored_run / "model.safetensors").read_bytes()
    assert (run.path / "model.safetensors").read_bytes() == finished
    assert [entry["step"] for entry in run.metrics] == [2, 4]


def test_loss_that_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step throws the weights to 1e6, and exp of them is no longer finite."""
    monkeypatch.chdir(tmp_path)
    argv = f"{NEW} --model mamba2 --steps 3 --warmup-steps 0 --learning-rate 1e6".split()
    with pytest.raises(InputError, match=r"^loss is .* at step [23] .*; lower learning_rate"):
        main(argv)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_real_process(tmp_path: Path) -> None:
    """What the table checks in this process holds for the command itself."""
    finished = subprocess.run(
        [sys.executable, "-m", "implicit.train", *NEW.split(), "--length", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 2
    assert finished.stderr == "error: length is 0; it should be greater than 0\n"
    assert finished.stdout == ""
    assert not list(tmp_path.iterdir())
