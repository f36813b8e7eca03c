"""The training command from its flags to what it prints."""

import json
import os
import re
import shutil
from pathlib import Path
from types import FunctionType

import pytest

import implicit
from automata.errors import InputError
from implicit import recipe
from implicit.command_line import run_command
from implicit.runs.loading import STORED_RUNS, load_run
from implicit.train import main
from tests.processes import run_python

SMALL = "--d-model 4 --steps 2 --warmup-steps 1 --batch-size 2 --length 4 --evaluation-sequences 2"


def test_flags_overrule_the_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs" / "parity"
    argv = f"--task parity --model lstm --out {out} --gradient-clip none {SMALL}".split()
    assert run_command(main, argv) == 0
    captured = capsys.readouterr()
    # after any number of random bits, their parity is even with probability 1/2
    said = rf"{out} is finished: step 2, .* at length 4 \(the most frequent answer: 0.5000\)\n"
    assert re.fullmatch(said, captured.out)
    assert captured.err == ""
    sizes = {"d_model": 4, "steps": 2, "warmup_steps": 1, "batch_size": 2, "length": 4}
    expected = recipe("parity", "lstm", **sizes, gradient_clip=None, evaluation_sequences=2)
    assert load_run(out).config == expected


def test_a_file_of_settings_stands_for_flags_which_win(tmp_path: Path) -> None:
    file, sizes = tmp_path / "settings.json", {"lstm": {"d_model": 6, "layers": 2}, "gru": {"d_model": 9}}
    fields = {"task": "S3", "steps": 3, "warmup_steps": 1, "batch_size": 2, "length": 4}
    file.write_text(json.dumps({**fields, "sizes": sizes}))
    argv = ["--settings", str(file), "--model", "lstm", "--steps", "2", "--layers", "1"]
    assert run_command(main, [*argv, "--out", str(tmp_path / "run")]) == 0
    config = load_run(tmp_path / "run").config
    assert (config.task, config.steps, config.batch_size) == ("S3", 2, 2)
    assert (config.sizes["d_model"], config.sizes["layers"]) == (6, 1)


@pytest.mark.parametrize(
    "given", [["--initial-weights", "{odd}"], ["--regex", "({odd}|b)*", "--model", "lstm"]]
)
def test_what_no_json_can_hold_is_told_and_nothing_is_left(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"tr\xff")
    shutil.copytree(STORED_RUNS / "parity-small", odd)
    task = [] if "--regex" in given else ["--task", "parity"]
    argv = [*task, *(part.format(odd=odd) for part in given), "--out", "out"]
    assert run_command(main, argv) == 2
    told = capsys.readouterr().err
    assert re.match(r"error: out/config.json cannot hold '.*tr\\udcff.*', which is not UTF-8; rename", told)
    assert not Path("out").exists()


def test_tensorboard_events_hold_the_metrics(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    argv = f"--task parity --model lstm --tensorboard --out {tmp_path / 'run'} {SMALL}".split()
    assert run_command(main, argv) == 0
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    entry = json.loads((tmp_path / "run" / "metrics.jsonl").read_text())
    (loss,) = events.Scalars("loss")
    assert loss.step == 2
    assert loss.value == pytest.approx(entry["loss"], rel=1e-6)  # event files hold float32
    assert [scalar.step for scalar in events.Scalars("validation/4/accuracy")] == [2]


FUNCTION_FIRST = """
import sys, implicit; assert "torch" not in sys.modules; first = implicit.train
from implicit.train import main, train as second
for train in (first, second, implicit.train):
    try:
        train(implicit.recipe("parity", "lstm"), None)
    except ValueError as refused:
        print(str(refused)[:11])
"""


def test_train_can_be_called_in_whatever_order_it_is_imported() -> None:
    """The package's name is the function until the command's module is imported, then that module."""
    done = run_python("-W", "error", "-c", FUNCTION_FIRST)
    assert (done.stdout, done.stderr) == (3 * "out is None\n", "")
    assert type(vars(implicit)["train"]) is not FunctionType
    with pytest.raises(InputError, match="out is None"):
        vars(implicit)["train"](recipe("parity", "lstm"), None)


@pytest.mark.filterwarnings("always::implicit.training.ShortCurriculumWarning")
def test_short_curriculum_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = (
        "--steps 9 --warmup-steps 1 --start-length 4 --length-growth 4 --length-growth-every 4 "
        "--growth-accuracy none --batch-size 2 --evaluation-sequences 2"
    )
    argv = ["--task", "S3", "--model", "lstm", "--quiet", "--out", str(tmp_path / "run"), *flags.split()]
    told = "the curriculum ends at length 12 of 32; raise steps to at least 29, "
    assert run_command(main, argv) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"warning: {told}")
    assert captured.err.count("\n") == captured.out.count("\n") == 1
    (entry,) = load_run(tmp_path / "run").metrics
    assert (entry["length"], entry["training_length"]) == (12, 32)


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
