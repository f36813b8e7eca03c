"""A run folder goes from one whole state to the next: what is removed is what nothing needs any more."""

from pathlib import Path

import pytest
import torch

from automata.data_files import TEMPORARY_SUFFIX
from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.models.registry import build_model
from implicit.runs import folder as folder_module
from implicit.runs.files import write_tensors
from implicit.runs.folder import RunFolder
from tests.small_models import small_config

CONFIG = small_config()


@pytest.fixture
def begun(tmp_path: Path) -> RunFolder:
    """A run with a checkpoint and what an interrupted write leaves."""
    run = RunFolder(tmp_path / "run")
    run.begin(CONFIG)
    run.checkpoint_file.parent.mkdir()
    run.checkpoint_file.write_bytes(b"all steps so far")
    (run.path / f".metrics.jsonl.{'0' * 16}{TEMPORARY_SUFFIX}").write_bytes(b"half a line")
    return run


def test_a_run_may_lie_in_folders_that_are_not_there_yet(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "study" / "parity" / "seed-0")
    run.begin(CONFIG)
    assert run.read_config() == CONFIG


def test_the_checkpoint_is_there_until_the_weights_are(
    begun: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the weights are written costs no step of training."""
    model = build_model("lstm", {"d_model": 4}, make_task("parity"))

    def full(path: Path, tensors: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "write_tensors", full)
        with pytest.raises(OSError, match="No space left"):
            begun.finish(model)
    assert begun.checkpoint_file.read_bytes() == b"all steps so far"
    assert not begun.finished

    order: list[str] = []
    write = write_tensors

    def watched(path: Path, tensors: dict[str, torch.Tensor]) -> None:
        assert begun.checkpoint_file.is_file()
        order.append(path.name)
        write(path, tensors)

    monkeypatch.setattr(folder_module, "write_tensors", watched)
    begun.finish(model)
    assert order == [begun.weights_file.name]
    assert begun.finished


def test_a_finished_run_has_nothing_left_over(begun: RunFolder) -> None:
    begun.finish(build_model("lstm", {"d_model": 4}, make_task("parity")))
    names = sorted(path.name for path in begun.path.iterdir())
    assert names == ["config.json", "environment.json", "metrics.jsonl", "model.safetensors", "sha256.json"]
    begun.clear()  # again: nothing to remove
    assert sorted(path.name for path in begun.path.iterdir()) == names


@pytest.mark.parametrize("line", ['{"loss": 1.0}', '{"step": "3"}', "[3]", "3", '{"step": 3'])
def test_a_line_without_a_step_is_named(line: str, begun: RunFolder) -> None:
    begun.metrics_file.write_text('{"step": 1}\n' + line + "\n")
    with pytest.raises(InputError, match=r"metrics.jsonl: line 2 is not a JSON object with a step; "):
        begun.read_metrics()


def test_no_checkpoint_is_written_through_a_link_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "scratch")
    run = RunFolder(tmp_path / "run")  # itself a link, as to a disk with more space
    run.begin(CONFIG)
    with run.held():
        run.checkpoint_file.parent.mkdir()
    run.clear()
    mine = tmp_path / "mine"
    mine.mkdir()
    run.checkpoint_file.parent.symlink_to(mine)
    with pytest.raises(InputError, match=r"run/checkpoint is a link to .*/mine; remove it"), run.held():
        pass
