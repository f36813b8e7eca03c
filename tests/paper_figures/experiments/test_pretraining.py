"""Pretraining runs as points of an experiment: trained, kept, gone on with, and known by all they are."""

import hashlib
import importlib
import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from automata.errors import InputError
from implicit.language.pretrain import FinishedRun, make_accelerator, pretrain
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.runner import carry_out
from paper_figures.experiments.store import Store
from paper_figures.wikitext import WikiTextPoint
from tests.conftest import Refuses
from tests.implicit.language.pretrain.small_runs import write_texts
from tests.paper_figures.experiments.tiny import ROOT


class SmallPoint(WikiTextPoint):
    """A small Llama; ``folder`` is where its texts are, and other settings are fields."""

    @property
    def fields(self) -> dict[str, Any]:
        chosen = self.all_settings
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
        bounded = {"share": 1.0, "iterations": 3, "phantom_steps": 1, "rtol": 0.0}
        own = {name: chosen[name] for name in chosen if name not in ("task", "model", "folder")}
        return {
            "model": {"family": "llama", "implicit": chosen["model"] == "implicit", "fields": sizes},
            "tokenizer": "bytes",
            "train": {"files": [f"{chosen['folder']}/train.txt"]},
            "validation": {"files": [f"{chosen['folder']}/valid.txt"]},
            "length": 16,
            "sequences": 4,
            "steps": 6,
            "phases": [bounded],
            "optimizer": {"learning_rate": 0.01, "warmup_steps": 2},
            "evaluation": {"every": 3, "tokens": 100, "sequences": 4},
            "checkpoint_every": 2,
            "log_every": 1,
            **own,
        }


def loss(run: FinishedRun, settings: None) -> float:
    return float(run.result["validation_loss"])


def experiment(folder: Path, *models: str, data: tuple[str, ...] = (), **settings: Any) -> Experiment:
    base = {"task": "sums", "folder": str(folder), **settings}
    grid = Grid({"model": models or ("explicit", "implicit"), "seed": [0]}, base, SmallPoint)
    return Experiment("sums", (grid,), (Measurement("loss", loss),), data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_texts(tmp_path / "texts")
    return tmp_path / "texts"


@pytest.fixture(autouse=True)
def _no_precision_is_left_behind() -> Iterator[None]:
    yield
    AcceleratorState._reset_state()


def test_trains_and_measures_every_point(folder: Path, tmp_path: Path) -> None:
    """Against pretraining by hand."""
    store = Store(tmp_path / "store")
    outcomes = carry_out(experiment(folder), store)
    assert len(outcomes) == 2
    for outcome in outcomes:
        config, run = outcome.point.config, store.run_folder(outcome.point)
        by_hand = tmp_path / str(outcome.point.settings["model"])
        result = pretrain(config, by_hand, make_accelerator(config, cpu=True))
        file, other = (folder / "model" / "model.safetensors" for folder in (run, by_hand))
        weights, expected = load_file(file), load_file(other)
        assert weights.keys() == expected.keys()
        assert all(torch.equal(weights[name], expected[name]) for name in weights)
        assert outcome.values == {"loss": result["validation_loss"]}
        assert outcome.run["parameters"] == sum(map(torch.numel, weights.values()))  # head is tied
        told = {"task": "sums", "model": outcome.point.settings["model"], "training_length": 16, "seed": 0}
        assert told.items() <= outcome.run.items()
        assert outcome.run["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert outcome.records["loss"]["run"] == outcome.records["training"]["run"]
        stored = json.loads((run / "result.json").read_text())
        assert outcome.records["training"]["seconds"] == round(stored["seconds"], 3) > 0


def test_a_missing_text_begins_nothing_and_is_not_needed_by_what_is_done(
    folder: Path, tmp_path: Path, refuses: Refuses
) -> None:
    texts = tuple(str(folder / f"{name}.txt") for name in ("train", "valid"))
    done = experiment(folder, "explicit", data=texts)
    outcomes = carry_out(done, Store(tmp_path / "done"))
    (folder / "valid.txt").rename(folder / "elsewhere.txt")

    def begin(argv: Sequence[str] | None) -> None:
        carry_out(done, Store(tmp_path / "store"))

    assert refuses(begin, []) == f"error: sums reads {texts[1]}, which is not there; put it there\n"
    assert carry_out(done, Store(tmp_path / "done")) == outcomes


ODD: dict[str, Any] = {
    "optimizer": {"learning_rate": 1e-5, "gradient_clip": None, "betas": [0.9, 0.95]},
    "tokenizer": 300,
    "precision": "no",
    "gradient_checkpointing": True,
    "evaluation": {"every": 3, "tokens": None},
}


@pytest.mark.parametrize("settings", [{}, ODD], ids=["plain", "words that YAML may take for others"])
@pytest.mark.parametrize("name", ["texts", 'it\'s é $HOME # a: "b"'])
def test_the_command_trains_the_point(
    name: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command, split by a shell, gives the configuration of the point."""
    (point,) = experiment(Path(name), "implicit", **settings).points
    found = []

    def capture(*given: Any, **options: Any) -> None:
        found.append(given[:2])
        raise KeyboardInterrupt

    command = importlib.import_module("implicit.language.pretrain.__main__")
    monkeypatch.setattr(command, "pretrain", capture)
    monkeypatch.setattr(command, "make_accelerator", Mock())  # it would look for devices
    monkeypatch.chdir(ROOT)
    words = shlex.split(point.command)
    assert words[:3] == ["python", "-m", "implicit.language.pretrain"]
    with pytest.raises(KeyboardInterrupt):
        command.main(words[3:])
    assert found == [(point.config, Path("RUN"))]


def test_without_the_packages_of_pretraining_it_is_said_which_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "implicit.language.pretrain", None)
    sentence = r"sums needs a package that is missing \(.*\); install implicit-ssm\[pretraining\]"
    with pytest.raises(InputError, match=sentence):
        _ = experiment(folder, "explicit").points
