"""A user's own tasks and models: by name, from a file, as objects; loaded again by other processes."""

import json
import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import implicit
from automata.errors import InputError
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.command_line import run_command
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.runs.loading import load_run
from implicit.train import main
from tests.processes import ROOT, run_python

OWN_CODE = '''
import numpy as np
import torch
from pydantic import PositiveInt

from automata.tasks.interface import Batch, Task
from automata.tasks.word_problem import WordProblem
from implicit import LSTM, LSTMConfig

clock = WordProblem([[0, 1], [1, 2], [2, 0]], 0, ["stay", "on"], ["0", "1", "2"], name="clock")


class Repetition(Task):
    """A task: does a token equal the one before it? Nothing is asked after the first."""

    name = "repetition"
    description = "whether a token equals the one before it"
    token_names = ("a", "b", "c")
    target_names = ("other", "same")

    def batch(self, batch_size, length, rng, start=None):
        tokens = rng.integers(0, 3, (batch_size, length))
        targets, weights = np.zeros_like(tokens), np.ones(tokens.shape, np.float32)
        targets[:, 1:] = tokens[:, 1:] == tokens[:, :-1]
        weights[:, 0] = 0
        return Batch(tokens, targets, weights)


class WiderConfig(LSTMConfig):
    """That of an LSTM with a size of its own."""

    factor: PositiveInt = 2


class Wider(LSTM):
    """An LSTM that is wider than it says."""

    name = "wider"
    config_class = WiderConfig

    def __init__(self, config):
        super().__init__(LSTMConfig(
            vocabulary_size=config.vocabulary_size,
            output_size=config.output_size,
            d_model=config.d_model * config.factor,
        ))
        self.register_buffer("order", torch.arange(2))


class Nested:
    class Model(Wider):
        """One that no name at the top level leads to."""
'''

SMALL: dict[str, Any] = {"steps": 2, "warmup_steps": 1, "batch_size": 2, "length": 4}
SMALL |= {"evaluation_sequences": 2, "d_model": 4}
FLAGS = [part for name, value in SMALL.items() for part in ("--" + name.replace("_", "-"), str(value))]


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of the user's, in a folder that is on the path; each test has another name."""
    name = f"own_code_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(OWN_CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return name


def test_objects_are_trained_and_loaded_elsewhere(
    own_code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = __import__(own_code)
    config = recipe("parity", "lstm", **SMALL)
    own = {"task": f"{own_code}:clock", "model": module.Wider}
    run = implicit.train(config, tmp_path / "run", progress=False, **own)
    assert run.config.task == {"object": f"{own_code}:clock"}
    assert (run.config.model, run.config.sizes["factor"]) == (f"{own_code}:Wider", 2)
    assert type(run.model) is module.Wider
    tokens = torch.tensor([[0, 1, 1]])
    with monkeypatch.context() as elsewhere:
        elsewhere.delitem(sys.modules, own_code)
        loaded = load_run(run.path, allow_code=True)
    assert type(loaded.model) is not module.Wider
    assert loaded.task.name == "clock"
    assert torch.equal(loaded.model(tokens), run.model(tokens))
    changed = lambda taken: taken.model.head.register_forward_hook(lambda *given: 2 * given[2])  # noqa: E731
    with pytest.warns(UserWarning, match="answers otherwise than when its training ended"):
        implicit.train(config, tmp_path / "changed", progress=False, callback=changed, **own)
    with pytest.raises(ZeroDivisionError):
        implicit.train(config, tmp_path / "stopped", progress=False, callback=lambda _: 1 / 0, **own)
    environment = tmp_path / "stopped" / "environment.json"
    stored = json.loads(environment.read_text())
    stored["answers"]["began"][0] += 1  # as of other code
    environment.write_text(json.dumps(stored))
    with pytest.warns(UserWarning, match="answers otherwise than when its training began"):
        implicit.train(config, tmp_path / "stopped", progress=False, **own)
    module.clock = WordProblem([[0, 1], [1, 0], [2, 0]], 0, ["stay", "on"], ["0", "1", "2"], name="clock")
    for again in (partial(load_run, allow_code=True), partial(implicit.train, run.config)):
        with pytest.raises(InputError, match="draws other batches than when"):
            again(run.path)


def test_names_on_the_command_line_and_the_same_command_again(own_code: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = f"--task {own_code}:clock --model {own_code}:Wider --out {out} --quiet".split() + FLAGS
    for _ in range(2):
        assert run_command(main, [*argv, "--factor", "3"]) == 0
    run = load_run(out, allow_code=True)
    assert (run.task.name, run.task.vocabulary_size, run.task.output_size) == ("clock", 2, 3)
    assert run.config.sizes["factor"] == 3
    assert dict(run.model.named_parameters())["embedding.weight"].shape == (2, 12)
    assert run_command(main, ["--resume", "--out", str(out), "--allow-code"]) == 0
    begun = ["--initial-weights", str(out), "--allow-code", "--out", str(tmp_path / "next")]
    assert run_command(main, [*argv[:2], "--quiet", *FLAGS[:-2], *begun]) == 0


@pytest.mark.parametrize("missing", ["task", "model"])
def test_run_with_code_that_is_gone_says_what_to_import(
    missing: str, own_code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"{own_code}:clock" if missing == "task" else f"{own_code}:Wider"
    named: dict[str, Any] = {"task": "parity", "model": "lstm", missing: own}
    implicit.train(recipe(**named, **SMALL), tmp_path / "run", progress=False)
    (tmp_path / f"{own_code}.py").unlink()
    monkeypatch.delitem(sys.modules, own_code)
    with pytest.raises(InputError, match=rf"\A.*run.config\.json: .*{own}.*cannot be imported.*\Z"):
        load_run(tmp_path / "run", allow_code=True)


@pytest.fixture
def run_with_code(tmp_path: Path) -> Path:
    """A run of weights whose configuration a test changes."""
    return implicit.train(recipe("parity", "lstm", **SMALL), tmp_path / "run", progress=False).path


def name_in_config(run: Path, **values: object) -> None:
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, **values}))
    (run / "sha256.json").unlink()


NAMES: dict[str, dict[str, Any]] = {
    "task": {"task": "CODE:clock"},
    "task as an object": {"task": {"object": "CODE:clock"}},
    "task as JSON in a text": {"task": ' {"object": "CODE:clock"}'},
    "task by a short form": {"task": "object:CODE:clock"},
    "model": {"model": "CODE:Wider"},
    "first format": {"format_version": 1, "task": "CODE:clock"},
}


@pytest.mark.parametrize("names", NAMES)
def test_code_of_a_run_is_imported_only_if_allowed_and_never_from_its_folder(
    names: str, run_with_code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"planted_{run_with_code.parent.name}"
    (run_with_code / f"{module}.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(run_with_code)
    name_in_config(run_with_code, **json.loads(json.dumps(NAMES[names]).replace("CODE", module)))
    for allowed, told in ((False, "allow-code"), (True, "lies in the run folder")):
        with pytest.raises(InputError, match=told):
            load_run(run_with_code, allow_code=allowed)
    assert module not in sys.modules


@pytest.mark.parametrize(
    "command",
    [
        *(["analysis.jacobian", "RUN"], ["analysis.report", "RUN"], ["implicit.answer", "RUN", "0"]),
        ["implicit.train", "--resume", "--out", "RUN"],
        ["implicit.train", *("--task", "parity", "--initial-weights", "RUN", "--out", "NEW")],
        ["analysis.check_certificate", "no/such/certificate.json", "RUN"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_asks_before_it_calls_what_a_run_names(
    command: list[str], run_with_code: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 0 would be that of ``sys.exit``."""
    model = "implicit-mamba2" if "check_certificate" in command[0] else "lstm"
    name_in_config(run_with_code, task={"object": "sys:exit"}, model=model)
    places = {"RUN": str(run_with_code), "NEW": str(run_with_code.parent / "new")}
    module = import_module(command[0])
    run = module.main if command[0].startswith("analysis") else partial(run_command, module.main)
    assert run([places.get(part, part) for part in command[1:]]) == 2
    error = capsys.readouterr().err
    assert "sys:exit" in error
    assert "--task" in error if "check_certificate" in command[0] else "--allow-code" in error


@pytest.mark.parametrize("names", NAMES)
def test_code_of_a_settings_file_is_imported_only_if_allowed_or_replaced(
    names: str, own_code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"task": "parity", "model": "lstm", **NAMES[names]}
    settings.pop("format_version", None)
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings).replace("CODE", own_code))
    argv = ["--settings", str(file), "--show-config"]
    assert run_command(main, argv) == 2
    assert own_code not in sys.modules
    assert f"names code, {own_code}:" in capsys.readouterr().err
    assert run_command(main, [*argv, "--task", "S3", "--model", "gru"]) == 0
    assert own_code not in sys.modules
    assert run_command(main, [*argv, "--allow-code"]) == 0
    named = NAMES[names]
    typed = ["--model", f"{own_code}:Wider"] if "model" in named else ["--task", f"{own_code}:clock"]
    assert run_command(main, [*argv, *typed]) == 0


def plant(place: Path) -> None:
    """Put modules into a folder that nobody may import from there."""
    for name in ("tomllib", "lazy_loader", "torch", "pydantic", "opt_einsum"):
        (place / f"{name}.py").write_text("print('The certificate holds.'); raise SystemExit(0)")


def answers(*given: str, cwd: Path) -> list[str]:
    """Ask in a folder: Python's -m puts it on the path, before anything of ours runs."""
    return run_python("-m", "implicit.answer", *given, cwd=cwd, PYTHONPATH=f":.:{ROOT}").stdout.split()


def test_modules_in_the_current_folder_are_not_found_by_commands(run_with_code: Path) -> None:
    place = run_with_code / "analysis/certify_words"
    place.mkdir(parents=True)
    plant(place)
    assert len(answers("parity-small", "0", "1", cwd=place)) == 2


def test_code_in_the_current_folder_is_found_when_it_is_named(own_code: str, tmp_path: Path) -> None:
    """So is what it imports later, also where the folder has files of the names that others have."""
    own = {"task": f"{own_code}:clock", "model": f"{own_code}:Wider"}
    config = implicit.train(recipe(**own, **SMALL), tmp_path / "run", progress=False).path / "config.json"
    (tmp_path / f"{own_code}.py").rename(tmp_path / "mine.py")
    (tmp_path / "later.py").write_text("from mine import clock\n")
    (tmp_path / "test.py").write_text("def task():\n    from later import clock\n    return clock\n")
    (tmp_path / "config.json").write_text("{}")
    plant(tmp_path)
    named = config.read_text().replace(own["task"], "test:task").replace(own["model"], "mine:Wider")
    config.write_text(named)
    config.with_name("sha256.json").unlink()
    assert len(answers("run", "stay", "on", "--allow-code", cwd=tmp_path)) == 2


@pytest.mark.parametrize("model", ["lstm", "implicit-mamba2"])
def test_class_of_ones_own_is_learnt_from(model: str, own_code: str, tmp_path: Path) -> None:
    """A task that is no automaton, that does not go on, and that asks nothing after the first token."""
    sizes = {} if model == "lstm" else {"head_size": 4}
    config = recipe(f"{own_code}:Repetition", model, **SMALL, bounded_steps=1, carried_after=0, sizes=sizes)
    run = implicit.train(config, tmp_path / "run", progress=False)
    (measured,) = run.metrics[-1]["validation"].values()
    # The exact share of "other" is 2/3; 3 * 1024 answers give it to a standard error of 0.0085: 4 of them.
    assert measured["majority_baseline"] == pytest.approx(2 / 3, abs=0.034)
    assert run.task.name == "repetition"


def test_task_object_stands_in_the_folder(tmp_path: Path) -> None:
    task = WordProblem([[0, 1], [1, 1]], 0, ["a", "b"], ["no", "yes"], name="seen b")
    run = implicit.train(recipe(task, "lstm", **SMALL), tmp_path / "run", progress=False)
    assert run.task.specification() == task.specification()
    assert json.loads((run.path / "config.json").read_text())["task"] == task.specification()


def test_regular_expression_and_file_on_the_command_line(tmp_path: Path) -> None:
    argv = ["--model", "lstm", *FLAGS]
    assert run_command(main, ["--regex", "(ab|ba)*", "--out", str(tmp_path / "regex"), *argv]) == 0
    task: Any = load_run(tmp_path / "regex").task
    names = task.state_names
    rows = {name: dict(zip("ab", row, strict=True)) for name, row in zip(names, task.table, strict=True)}
    automaton = {
        "initial": names[task.initial_state],
        "avoid": [names[state] for state in task.avoid],
        "transitions": {name: {a: names[to] for a, to in row.items()} for name, row in rows.items()},
    }
    (tmp_path / "task.json").write_text(json.dumps(automaton))
    argv += ["--out", str(tmp_path / "file"), "--task-file", str(tmp_path / "task.json")]
    assert run_command(main, argv) == 0
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("regex", "file")]
    assert weights[0] == weights[1]
    (tmp_path / "task.json").unlink()  # what rebuilds the task stands in the folder
    assert load_run(tmp_path / "file").task.token_names == ("a", "b")
    assert run_command(main, ["--resume", "--out", str(tmp_path / "regex")]) == 0


def test_named_task_with_a_fraction_stands_as_its_name() -> None:
    config = TrainConfig.of(task=make_task("S5", hard_fraction=0.5), model="lstm")
    assert (config.task, config.hard_fraction) == ("S5", 0.5)
    assert config == TrainConfig.of(task="S5", model="lstm", hard_fraction=0.5)
    assert config == TrainConfig.of(task={"name": "S5", "hard_fraction": 0.5}, model="lstm")
    parity = TrainConfig.of(task="parity", model="lstm")
    assert parity.updated(task=make_task("S5", hard_fraction=0.5)).hard_fraction == 0.5
    with pytest.raises(InputError, match=r"hard_fraction is 0\.25, but the task says 0\.5; leave one"):
        config.updated(task=make_task("S5", hard_fraction=0.5), hard_fraction=0.25)


def test_objects_that_no_name_leads_to_are_refused(own_code: str) -> None:
    nested = __import__(own_code).Nested.Model
    with pytest.raises(InputError, match=r"^model is Nested\.Model, which stands in a function or a class; "):
        recipe("parity", nested)
    with pytest.raises(InputError, match=r"^model is <class 'int'>; give a name, module:name or a subclass"):
        recipe("parity", int)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^task is 3; give a Task, a DFA"):
        recipe(3, "lstm")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["class of a script", "name of a model", "name of a task", "rebound class"])
def test_code_that_no_other_process_finds_is_refused_before_training(
    given: str, own_code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = __import__(own_code)
    task: Any = {"object": "__main__:clock"} if given == "name of a task" else "parity"
    model = {"name of a model": "__main__:Wider", "name of a task": "lstm"}.get(given, module.Wider)
    if given == "class of a script":
        monkeypatch.setattr(module.Wider, "__module__", "__main__")
    if given == "rebound class":
        monkeypatch.setattr(module, "Wider", implicit.LSTM)
    with pytest.raises(InputError, match=r"no other process can import|another object stands"):
        recipe(task, model)
