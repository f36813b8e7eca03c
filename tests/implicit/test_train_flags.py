"""Flags of training that other programs have, and all values that would be used."""

import json
from pathlib import Path
from typing import Any

import pytest

from automata.errors import InputError
from implicit import LSTM, recipe
from implicit.train import main

NEW = ["--task", "parity", "--model", "lstm"]


def test_every_value_that_would_be_used_is_shown_and_nothing_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main([*NEW, "--lr", "0.5", "--steps", "20", "--d-model", "8", "--show-config"])
    shown = dict(line.split(" = ", 1) for line in capsys.readouterr().out.splitlines())
    config = recipe("parity", "lstm", learning_rate=0.5, steps=20, d_model=8)
    assert {name: json.loads(value) for name, value in shown.items()} == json.loads(json.dumps(config.flat()))
    assert (shown["learning_rate"], shown["warmup_steps"]) == ("0.5", "5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flag", "ours"),
    [
        ("--epochs", "--steps"),
        ("--hidden-size", "--d-model"),
        ("--bs", "--batch-size"),
        ("--wd", "--weight-decay"),
    ],
)
def test_a_usual_name_is_told_its_name_here(flag: str, ours: str) -> None:
    with pytest.raises(InputError, match=f"^flag {flag} is unknown; the nearest is {ours}, "):
        main([*NEW, flag, "3"])


def test_a_model_is_made_from_its_sizes_by_name() -> None:
    by_name: Any = LSTM
    model = by_name(vocabulary_size=2, output_size=3, d_model=8)
    assert (model.config.d_model, model.config.layers, model.config.output_size) == (8, 1, 3)
    for sizes, message in (
        ({"d_modle": 8}, "size 'd_modle' is unknown; did you mean 'd_model'"),
        ({"d_model": 0}, "d_model is 0; it should be greater than 0"),
        ({"output_size": None}, "output_size is None"),
    ):
        with pytest.raises(InputError, match=message):
            by_name(**{"vocabulary_size": 2, "output_size": 3, **sizes})
    with pytest.raises(InputError, match="output_size is missing"):
        by_name(vocabulary_size=2)
