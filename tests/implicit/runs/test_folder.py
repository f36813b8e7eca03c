"""A run folder goes from one whole state to the next, and one process at a time trains in it."""

import errno
import os
import warnings
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
from implicit.train import train
from tests.small_models import small_config

CONFIG = small_config(batch_size=4, length=6, steps=2)


@pytest.fixture
def begun(tmp_path: Path) -> RunFolder:
    """A run with a checkpoint and what an interrupted write leaves."""
    run = RunFolder(tmp_path / "run")
    run.begin(CONFIG)
    run.checkpoint_file.parent.mkdir()
    run.checkpoint_file.write_bytes(b"all steps so far")
    (run.path / f".metrics.jsonl.{'0' * 16}{TEMPORARY_SUFFIX}").write_bytes(b"half a line")
    return run


@pytest.mark.parametrize(("bound", "most"), [("MOST_ENTRIES", 1), ("MOST_VALUES", 5)])
def test_metrics_are_bounded_before_they_are_read(
    bound: str, most: int, begun: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun.write_metrics([{"step": 1, "seconds": 1.0}, {"step": 2, "text": "a\u2028b"}])
    monkeypatch.setattr(folder_module, bound, most + 1)
    assert [entry["step"] for entry in begun.read_metrics()] == [1, 2]
    monkeypatch.setattr(folder_module, bound, most if bound == "MOST_ENTRIES" else 3)
    with pytest.raises(InputError, match=r"metrics\.jsonl has more than .* restore it or train again"):
        begun.read_metrics()


def test_the_checkpoint_stays_until_the_weights_are(
    begun: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the weights are written costs no step of training."""
    model = build_model("lstm", {"d_model": 4}, make_task("parity"))

    def full(path: Path, tensors: object, **_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "write_tensors", full)
        with pytest.raises(OSError, match="No space left"):
            begun.finish(model)
    assert begun.checkpoint_file.read_bytes() == b"all steps so far"
    assert not begun.finished

    def watched(path: Path, tensors: dict[str, torch.Tensor], **_: object) -> None:
        assert (path, begun.checkpoint_file.is_file()) == (begun.weights_file, True)
        write_tensors(path, tensors)

    monkeypatch.setattr(folder_module, "write_tensors", watched)
    begun.finish(model)
    assert begun.finished


def test_a_finished_run_has_nothing_left_over(begun: RunFolder) -> None:
    begun.finish(build_model("lstm", {"d_model": 4}, make_task("parity")))
    names = sorted(path.name for path in begun.path.iterdir())
    assert names == ["config.json", "environment.json", "metrics.jsonl", "model.safetensors", "sha256.json"]
    begun.path.joinpath(".x.0123456789abcdef.tmp").mkdir()  # the user's
    begun.clear()  # again: nothing to remove
    begun.path.joinpath(".x.0123456789abcdef.tmp").rmdir()
    assert sorted(path.name for path in begun.path.iterdir()) == names


MEASURED = [
    f'{{"step": 3, "validation": {entry}}}'
    for entry in (
        "null",
        '{"8": [1]}',
        '{"8": {"accuracy": 7}}',
        '{"8": {"accuracy": 1, "majority_baseline": "x"}}',
        '{"x": {"accuracy": 1}}',
    )
]


@pytest.mark.parametrize(
    "line",
    [
        *MEASURED,
        '{"loss": 1.0}',
        '{"step": "3"}',
        '{"step": -3}',
        "3",
        '{"step": 3',
        '{"step": 3, "length": "x"}',
    ],
)
def test_a_line_without_a_step_is_named(line: str, begun: RunFolder) -> None:
    begun.metrics_file.write_text('{"step": 1}\n' + line + "\n")
    with pytest.raises(InputError, match=r"metrics.jsonl: line 2 is not a JSON object with a step"):
        begun.read_metrics()


def test_no_checkpoint_is_written_through_a_link_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "scratch")
    run = RunFolder(tmp_path / "run")  # itself a link, as to a disk with more space
    run.begin(CONFIG)
    with run.held():
        run.checkpoint_file.parent.mkdir()
    (copy := run.checkpoint_file.with_name("copy")).touch()
    run.checkpoint_file.touch()
    run.clear()
    assert [*copy.parent.iterdir()] == [copy]
    copy.unlink()
    run.clear()
    mine = tmp_path / "mine"
    mine.mkdir()
    run.checkpoint_file.parent.symlink_to(mine)
    with pytest.raises(InputError, match=r"run/checkpoint is a link to .*/mine; remove it"), run.held():
        pass


@pytest.mark.parametrize("planted", ["metrics.jsonl", "model.safetensors", "sha256.json"])
def test_a_folder_in_the_place_of_a_file_is_told_before_the_training(planted: str, tmp_path: Path) -> None:
    (tmp_path / planted).mkdir()
    with pytest.raises(InputError, match=f"{planted} is a folder; move it away"), RunFolder(tmp_path).held():
        pass


@pytest.mark.parametrize("name", ["metrics.jsonl", "environment.json", "implicit-ssm.lock"])
def test_files_of_the_user_by_the_names_of_a_run_stay(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text('{"step": 1}\n')
    with pytest.raises(InputError, match=name):
        train(CONFIG, tmp_path, progress=False)
    assert [file.read_text() for file in tmp_path.iterdir()] == ['{"step": 1}\n']


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
    from implicit.training import train as training

    def second(*_: object) -> None:
        with pytest.raises(InputError, match="another process trains"):
            train(CONFIG, tmp_path / "run", progress=False)
        (tmp_path / "run" / "lock").write_text("1\nhost\n")  # of another program

    monkeypatch.setattr(training, "take_steps", second)
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.lock_file.touch()  # as of a process that was killed: it stops nobody
    run = train(CONFIG, tmp_path / "run", progress=False)
    assert [path.name for path in run.path.glob("*lock")] == ["lock"]
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
    assert not list(run.path.glob("*lock"))


def test_a_lock_that_is_a_looping_link_is_told(tmp_path: Path) -> None:
    RunFolder(tmp_path).lock_file.symlink_to(RunFolder(tmp_path).lock_file)
    with pytest.raises(InputError, match="lock is a link; remove it"), RunFolder(tmp_path).held():
        pass
