"""The folder of a pretraining run: one process at a time, files of the user stay, faults in a sentence."""

import contextlib
import json
import os
import resource
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from automata.errors import InputError
from implicit.language.pretrain.folder import PretrainFolder
from implicit.language.stored_models import load_model
from implicit.runs.files import write_hashes
from tests.implicit.language.pretrain.small_runs import small_run, stop_at, train


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts and ``run``, which was stopped behind its first checkpoint."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(KeyboardInterrupt):
        train(small_run(folder), folder / "run", watch=stop_at(4))
    return folder


def test_one_process_at_a_time_trains_in_a_folder(tmp_path: Path) -> None:
    config = small_run(tmp_path, steps=2)

    def second(line: dict[str, Any]) -> None:
        with pytest.raises(InputError, match="where another process trains at this moment"):
            train(config, tmp_path / "run")

    train(config, tmp_path / "run", watch=second)
    assert not (tmp_path / "run" / "implicit-ssm.lock").exists()


def test_folders_of_the_user_stay(tmp_path: Path) -> None:
    config, run = small_run(tmp_path), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(config, run, watch=stop_at(2))
    theirs = ["checkpoint-3", "checkpoint-5", "checkpoint-best"]
    for name in theirs:
        (run / name).mkdir()
        (run / name / "notes.txt").write_text("mine")
    (run / "notes.tmp").write_text("mine")
    with pytest.raises(InputError, match="checkpoint-3 is no checkpoint of this run"):
        train(config, run)
    assert (run / theirs.pop(0)).rename(tmp_path / "moved").is_dir()
    train(config, run)
    assert sorted(path.name for path in run.glob("checkpoint*")) == sorted(theirs)
    assert all((run / name / "notes.txt").read_text() == "mine" for name in theirs)
    assert (run / "notes.tmp").read_text() == "mine"


DAMAGED = [
    "config.json",
    "metrics.jsonl",
    "tokenizer/tokenizer.json",
    "tokenizer/tokenizer_config.json",
    "checkpoint-3/model.safetensors",
    "checkpoint-3/optimizer.bin",
    "checkpoint-3/random_states_0.pkl",
    "checkpoint-3/times.json",
    "checkpoint-3/sha256.json",
]


# Every file, lost or damaged, in a folder with hashes or without, as older versions wrote them, in turn.
@pytest.mark.parametrize(
    ("name", "lost", "hashed"), [(name, k % 2 == 1, k // 2 % 2 == 1) for k, name in enumerate(DAMAGED)]
)
def test_damaged_files_are_told_in_a_sentence_or_do_no_harm(
    name: str, lost: bool, hashed: bool, stopped: Path, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "run" / name
    if not hashed:
        (tmp_path / "run" / "checkpoint-3" / "sha256.json").unlink()
    if lost:
        file.unlink(missing_ok=True)
    else:
        file.write_bytes(b'{"step": "no')
    with contextlib.suppress(InputError):
        train(small_run(stopped), tmp_path / "run")


def test_a_copy_of_a_checkpoint_under_another_number_is_not_taken_for_progress(
    stopped: Path, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    shutil.copytree(tmp_path / "run" / "checkpoint-3", tmp_path / "run" / "checkpoint-4000")
    with pytest.raises(InputError, match="checkpoint-4000 holds step 3; move this copy away"):
        train(small_run(stopped), tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint-4000").is_dir()
    shutil.rmtree(tmp_path / "run" / "checkpoint-4000")
    times = tmp_path / "run" / "checkpoint-3" / "times.json"
    times.write_text(json.dumps({**json.loads(times.read_text()), "run": "another"}))
    write_hashes(times.parent)
    with pytest.raises(InputError, match="checkpoint-3 is the checkpoint of another run; move it away"):
        train(small_run(stopped), tmp_path / "run")


def test_a_flipped_bit_of_a_checkpoint_or_a_model_is_told(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    for name in ("model.safetensors", "optimizer.bin"):
        file = tmp_path / "run" / "checkpoint-3" / name
        content = file.read_bytes()
        file.write_bytes(content[:-1000] + bytes([content[-1000] ^ 1]) + content[-999:])
        with pytest.raises(InputError, match=f"checkpoint-3/{name} is not as it was written"):
            train(small_run(stopped), tmp_path / "run")
        file.write_bytes(content)
    train(small_run(stopped), tmp_path / "run")
    weights = tmp_path / "run" / "model" / "model.safetensors"
    load_model(weights.parent)
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=r"model.safetensors is not as it was written"):
        load_model(weights.parent)


@pytest.mark.parametrize("bytes_at_most", [100, 1_000, 5_000, 20_000])
def test_a_full_disk_is_told_in_a_sentence(bytes_at_most: int, tmp_path: Path) -> None:
    """A limit of the size of files stands for the disk; with room again, the run goes on."""
    config = small_run(tmp_path, steps=2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_at_most, before[1]))
    try:
        with pytest.raises((InputError, OSError)):
            train(config, tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "run" / ".checkpoint.new").exists()
    assert train(config, tmp_path / "run")["steps"] == 2


def test_sigterm_stores_the_step_and_the_run_goes_on_to_the_same_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(line: dict[str, Any]) -> None:
        if line["step"] == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
        train(small_run(tmp_path, steps=4), tmp_path / "run", watch=stop)
    assert "stopped and stored at step 2; run the same command again" in capsys.readouterr().err
    assert PretrainFolder(tmp_path / "run").last_checkpoint() == 2
    for name in ("run", "whole"):
        train(small_run(tmp_path, steps=4), tmp_path / name)
    one, other = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("run", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in one)
