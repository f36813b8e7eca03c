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


def flags_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[set[str], str]:
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    return {word.strip(",") for word in shown.split() if word.startswith("--")}, shown


def test_help_shows_what_a_model_and_a_task_use_with_the_values_of_their_recipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every, shown = flags_of(capsys)
    assert {"--free-rtol", "--carried-share", "--d-state", "--image-ball-weight", "--hard-fraction"} <= every
    assert "--algorithm AdamW|Muon of the matrices" in shown
    explicit, shown = flags_of(capsys, *NEW)
    assert not {"--free-rtol", "--contraction-weight", "--forgetting-weight", "--d-state"} & explicit
    assert {"--carried-share", "--hard-fraction", "--d-model", "--lr", "--initial-weights"} <= explicit
    config = recipe("parity", "lstm")
    assert f"--steps N training steps (default: {config.steps})" in shown
    assert f"(default: {config.optimizer.learning_rate})" in shown
    implicit, shown = flags_of(capsys, "--task", "S5-generators", "--model", "implicit-deltanet")
    assert {"--free-rtol", "--contraction-weight", "--forgetting-weight", "--key-size"} <= implicit
    assert not {"--image-ball-weight", "--d-state"} & implicit
    assert "--d-model N features of the residual stream or of the latent (default: 96)" in shown
    grows = flags_of(capsys, "--regex", ".*ab", "--model", "transformer")[0]
    assert not {"--carried-share", "--free-rtol", "--hard-fraction"} & grows
    with pytest.raises(InputError, match="model 'lsmt' is unknown; did you mean 'lstm'"):
        main(["--task", "parity", "--model", "lsmt", "--help"])
