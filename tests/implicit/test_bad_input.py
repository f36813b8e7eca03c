"""Bad input to training and to run folders: one sentence each, exit code 2, nothing written."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from implicit.runs.loading import load_run
from implicit.train import main, train
from tests.conftest import Refuses
from tests.implicit.tampering import (
    Prepare,
    edit_config,
    edit_weights,
    link,
    make_unfinished,
    nothing,
    pipe,
    remove,
    swap,
    write,
)

NEW = "--task parity --model lstm --out new"

NEW_MODEL = "--model lstm --out new"

FLAGS = {
    f"{NEW} --task partiy": "task 'partiy' is unknown; did you mean 'parity'?",
    f"{NEW} --model mamab2": "model 'mamab2' is unknown; did you mean 'mamba2'?",
    f"{NEW} --task no_such_module:task": "task no_such_module:task cannot be imported",
    f"{NEW} --model no_such_module:Model": "model is 'no_such_module:Model', which cannot be imported",
    f"{NEW} --task repl-3-reveals --length 20": "length is 20: task 'repl-3-reveals' asks nothing in",
    f"{NEW} --regex a*": "argument --regex: not allowed with argument --task; --help shows all flags",
    f"{NEW_MODEL} --regex (ab": "(ab",
    f"{NEW_MODEL} --task-file task.json": "task.json cannot be read",
    "--task parity --out new": "model is missing; give one with --model",
    "--task parity --model lstm": "out is missing",
    "--task parity --model lstm --out=": "out is missing",
    f"{NEW} --steps {'9' * 5000}": "steps is '999",
    f"{NEW} --device hpu": "device is 'hpu', which is not to be had here",
    f"{NEW} --evaluation-max-iterations {10**20}": f"evaluation_max_iterations is {10**20}",
    "--model lstm --out new": "task is missing; give one with --task",
    f"{NEW} --batch-size 1048576 --length 1048576": "a batch of 1048576 sequences of length 1048576 with 2",
    f"{NEW} --betas 0.9 1": "betas[1] is 1; it should be less than 1",
    f"{NEW} --steps 10 --warmup-steps 100": "warmup_steps is 100; give at most steps, 10",
    f"{NEW} --model mamba2 --d-model 10": "head_size is 16; it must divide",
    f"{NEW} --out /proc/new": "/proc/new: no such file or directory",
    "--resume --out new": "out is new, which holds no run to resume",
    "--resume --out run --seed 7": "out is run, where a finished run has seed 0 (here 7); give another",
    "--resume --out run --steps 9": "(here 9); give another folder; --initial-weights run begins that with",
    f"{NEW} --out run": "size d_model 4 (here 32)",
}

WEIGHTS, CONFIG, METRICS = "run/model.safetensors", "run/config.json", "run/metrics.jsonl"


def unhashed_metrics(text: bytes) -> Prepare:
    def prepare(folder: Path) -> None:
        remove("run/sha256.json")(folder)
        write(METRICS, text)(folder)

    return prepare


PREPARED: dict[str, tuple[Prepare, str, str]] = {
    "out is a file": (write("new", b""), NEW, "out is new, which is a file; give a folder"),
    "out holds other files": (write("new/notes", b""), NEW, "which holds other files (notes)"),
    "out below a file": (write("file", b""), f"{NEW} --out file/new", "file/new: not a directory"),
    "resume from a bad checkpoint": (
        make_unfinished,
        "--resume --out run",
        "run/checkpoint/state.safetensors was written by another version of implicit-ssm (format 1",
    ),
    "environment that is a list": (
        write("run/environment.json", b"[]"),
        "--resume --out run",
        "run/environment.json does not hold a JSON object",
    ),
    **{
        f"finished, with the metrics {text!r}": (
            unhashed_metrics(text),
            "--resume --out run",
            "run/metrics.jsonl does not end with loss, seconds and validation",
        )
        for text in (b"", b'{"step": 1}', b'{"step": 1, "loss": 1, "seconds": 1, "validation": {}}')
    },
}


CASES = {argv: (nothing, argv, sentence) for argv, sentence in FLAGS.items()} | PREPARED


@pytest.mark.parametrize(("prepare", "argv", "sentence"), CASES.values(), ids=CASES)
def test_command(prepare: Prepare, argv: str, sentence: str, run_folder: Path, refuses: Refuses) -> None:
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


def widen_with_a_hole(folder: Path) -> None:
    """Ask for 16 MiB of weights from a file that is as large by a hole, which takes no space."""
    edit_config(sizes={"d_model": 700})(folder)
    os.truncate(folder / "run" / "model.safetensors", 2**26)


def widen_with_a_hole_and_a_header(folder: Path) -> None:
    """Ask for 0.8 GiB of weights from a file whose header stands for its size, of another tensor."""
    edit_config(sizes={"d_model": 5000})(folder)
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**28], "data_offsets": [0, 2**30]}}).encode()
    weights = folder / "run" / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(weights, 8 + len(header) + 2**30)


NO_TENSORS = f"{WEIGHTS} is not valid safetensors"
NEGATIVE = b'{"w":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}'
RUNS: dict[str, tuple[Prepare, str]] = {
    "no weights": (remove(WEIGHTS), f"{WEIGHTS} is missing"),
    "no metrics": (remove(METRICS), f"{METRICS} is missing"),
    "unfinished": (make_unfinished, "run run is not finished; finish it with python -m implicit.train"),
    "config is not JSON": (write(CONFIG, b"{'task'"), f"{CONFIG} is not valid JSON"),
    "config is nested too deep": (write(CONFIG, b"[" * 100_000), f"{CONFIG} is nested more"),
    "config is a list": (write(CONFIG, b"[]"), "does not hold a JSON object"),
    "config with an unknown field": (edit_config(stepz=3), f"{CONFIG}: field 'stepz' is unknown; did"),
    "config with a bad value": (edit_config(length=-1), f"{CONFIG}: length is -1"),
    "config of another task": (edit_config(task="S3"), "tensor 'embedding.weight' has shape (2, 4) where"),
    "weights are not safetensors": (write(WEIGHTS, b"not a header"), WEIGHTS),
    "weights are cut off": (lambda folder: os.truncate(folder / WEIGHTS, 500), NO_TENSORS),
    "config is a device": (link(CONFIG, "/dev/zero"), f"{CONFIG} is not a regular file"),
    "config of a billion lists": (
        write(CONFIG, b"[" + b"[],"[:3] * 2 * 10**7 + b"[]]"),
        f"{CONFIG} holds more than",
    ),
    "metrics are a pipe": (pipe(METRICS), f"{METRICS} is not a regular file"),
    "weights are endless": (lambda folder: os.truncate(folder / WEIGHTS, 2**25), NO_TENSORS),
    "weights are larger than a model of their sizes": (
        edit_weights(lambda weights: weights.update(extra=torch.zeros(2**23))),
        "tensor 'extra' is unexpected",
    ),
    "header with a number as metadata": (
        write(WEIGHTS, (24).to_bytes(8, "little") + b'{"__metadata__":{"a":3}}'),
        NO_TENSORS,
    ),
    "header of no tensors": (write(WEIGHTS, (15).to_bytes(8, "little") + b'{"head.bias":1}'), NO_TENSORS),
    "a hole lets a model be larger than its weights": (widen_with_a_hole, f"{WEIGHTS} is not"),
    "header of a negative shape": (
        write(WEIGHTS, len(NEGATIVE).to_bytes(8, "little") + NEGATIVE + bytes(4)),
        NO_TENSORS,
    ),
    "task file is a device": (edit_config(task={"file": "/dev/zero"}), "/dev/zero is not a regular"),
    "too many layers": (edit_config(sizes={"layers": 10**5}), "layers is 100000"),
    "too wide for its weights": (edit_config(sizes={"d_model": 10**4}), "where the configuration asks for"),
    "a width beyond 64 bits": (edit_config(sizes={"d_model": 2**63}), "more weights than a file"),
    "too wide for 64 bits": (edit_config(sizes={"d_model": 10**10}), "more weights than a file"),
    "too long": (edit_config(length=10**12), "length is 1000000000000"),
    "too many iterations": (
        edit_config(model="implicit-mamba2", sizes={"max_iterations": 10**12}),
        "max_iterations is 1000000000000",
    ),
    "one bit of the configuration": (
        swap(CONFIG, b'"steps": 4', b'"steps": 5'),
        f"{CONFIG} is not as it was written",
    ),
    "one bit of the metrics": (
        swap(METRICS, b'"step": 2', b'"step": 3'),
        f"{METRICS} is not as it was written",
    ),
    "metrics are not text": (write(METRICS, b"\xff"), f"{METRICS} is not text"),
}


def load(argv: Sequence[str] | None) -> None:
    load_run((argv or [])[0])


def test_no_memory_is_taken_for_weights_that_are_not_in_the_file(
    run_folder: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    widen_with_a_hole_and_a_header(run_folder.parent)

    def built(*_: object) -> None:
        pytest.fail("the model was built")

    monkeypatch.setattr("implicit.runs.loading.build_model", built)
    monkeypatch.setattr("implicit.runs.loading.read_tensors", built)
    assert "tensor 'embedding.weight' is missing" in refuses(load, [str(run_folder)])


@pytest.mark.parametrize(("prepare", "sentence"), RUNS.values(), ids=RUNS)
def test_load_run(prepare: Prepare, sentence: str, run_folder: Path, refuses: Refuses) -> None:
    prepare(run_folder.parent)
    assert sentence in refuses(load, ["run"])


def test_what_is_no_run_folder(run_folder: Path, refuses: Refuses) -> None:
    (run_folder.parent / "new").mkdir()
    for path, sentence in (
        (".", "run . is a folder that holds runs; give one, such as run"),
        ("no/run", "run no/run does not exist; make one with python -m implicit.train"),
        ("run/config.json", "run/config.json is a file; give the folder that holds it"),
        ("new", "new/config.json is missing"),
    ):
        assert sentence in refuses(load, [path])
