"""Run folders that cannot be loaded, and runs that are asked what they cannot do: one sentence each."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from implicit.runs.loading import load_run
from tests.implicit.tampering import (
    Prepare,
    edit_config,
    edit_weights,
    link,
    make_unfinished,
    pipe,
    remove,
    write,
)

Refuses = Callable[[Callable[..., None], list[str]], str]


def widen_with_a_hole(folder: Path) -> None:
    """Ask for 16 MiB of weights from a file that is as large by a hole, which takes no space."""
    edit_config(sizes={"d_model": 700})(folder)
    os.truncate(folder / "run" / "model.safetensors", 2**26)


def widen_with_a_hole_and_a_header(folder: Path) -> None:
    """Ask for 64 MiB of weights from a file whose header stands for its size, of a tensor of another name."""
    edit_config(sizes={"d_model": 1400})(folder)
    header = json.dumps({"x": {"dtype": "F32", "shape": [2**25], "data_offsets": [0, 2**27]}}).encode()
    weights = folder / "run" / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(weights, 8 + len(header) + 2**27)


RUNS: dict[str, tuple[Prepare, str]] = {
    "no weights": (remove("run/model.safetensors"), "run/model.safetensors is missing"),
    "no metrics": (remove("run/metrics.jsonl"), "run/metrics.jsonl is missing"),
    "unfinished": (make_unfinished, "run run is not finished; finish it with python -m implicit.train"),
    "config is not JSON": (write("run/config.json", b"{'task'"), "run/config.json is not valid JSON"),
    "config is nested too deep": (write("run/config.json", b"[" * 100_000), "run/config.json is nested more"),
    "config is a list": (write("run/config.json", b"[]"), "does not hold a JSON object"),
    "config with an unknown field": (edit_config(stepz=3), "run/config.json: field 'stepz' is unknown; did"),
    "config with a bad value": (edit_config(length=-1), "run/config.json: length is -1"),
    "config with a bad format": (edit_config(format_version="new"), "format_version is 'new'; give"),
    "config with an unknown task": (edit_config(task="S9"), "run/config.json: task 'S9' is unknown"),
    "config with bad sizes": (edit_config(sizes={"width": 4}), "run/config.json: size of lstm 'width' is"),
    "config of another task": (edit_config(task="S3"), "tensor 'embedding.weight' has shape (2, 4) where"),
    "weights are not safetensors": (write("run/model.safetensors", b"not a header"), "run/model.safetensors"),
    "weights are cut off": (
        lambda folder: os.truncate(folder / "run" / "model.safetensors", 500),
        "is not valid safetensors",
    ),
    "config is a device": (link("run/config.json", "/dev/zero"), "run/config.json is not a regular file"),
    "config of a billion lists": (
        write("run/config.json", b"[" + b"[],"[:3] * 2 * 10**7 + b"[]]"),
        "run/config.json holds more than",
    ),
    "metrics are a pipe": (pipe("run/metrics.jsonl"), "run/metrics.jsonl is not a regular file"),
    "weights are endless": (
        lambda folder: os.truncate(folder / "run" / "model.safetensors", 2**25),
        "run/model.safetensors is not valid safetensors",
    ),
    "weights are larger than a model of their sizes": (
        edit_weights(lambda weights: weights.update(extra=torch.zeros(2**23))),
        "tensor 'extra' is unexpected",
    ),
    "header of no tensors": (
        write("run/model.safetensors", (15).to_bytes(8, "little") + b'{"head.bias":1}'),
        "run/model.safetensors is not valid safetensors",
    ),
    "a hole lets a model be larger than its weights": (widen_with_a_hole, "run/model.safetensors is not"),
    "header of a negative shape": (
        write(
            "run/model.safetensors",
            (58).to_bytes(8, "little")
            + b'{"w":{"dtype":"F32","shape":[-1,-1],"data_offsets":[0,4]}}'
            + bytes(4),
        ),
        "run/model.safetensors is not valid safetensors",
    ),
    "task file is a device": (edit_config(task={"file": "/dev/zero"}), "/dev/zero is not a regular"),
    "too many layers": (edit_config(sizes={"layers": 10**5}), "layers is 100000"),
    "too wide for its weights": (edit_config(sizes={"d_model": 10**4}), "where the configuration asks for"),
    "text is a device": (edit_config(task={"text": "/dev/zero"}), "/dev/zero is not a regular"),
    "a width beyond 64 bits": (edit_config(sizes={"d_model": 2**63}), "more weights than a file"),
    "too wide for 64 bits": (edit_config(sizes={"d_model": 10**10}), "more weights than a file"),
    "too long": (edit_config(length=10**12), "length is 1000000000000"),
    "too many iterations": (
        edit_config(model="implicit-mamba2", sizes={"max_iterations": 10**12}),
        "max_iterations is 1000000000000",
    ),
    "metrics are not text": (write("run/metrics.jsonl", b"\xff"), "run/metrics.jsonl is not text"),
}


def load(argv: list[str]) -> None:
    """Load the run as a command of analysis does."""
    load_run(argv[0])


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
def test_load_run(
    prepare: Prepare, sentence: str, run_folder: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run_folder.parent)
    prepare(run_folder.parent)
    assert sentence in refuses(load, ["run"])


def test_what_is_no_run_folder(run_folder: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run_folder.parent)
    (run_folder.parent / "new").mkdir()
    for path, sentence in (
        ("no/run", "run no/run does not exist; make one with python -m implicit.train"),
        ("run/config.json", "run/config.json is a file; give the folder that holds it"),
        ("new", "new/config.json is missing"),
    ):
        assert sentence in refuses(load, [path])
