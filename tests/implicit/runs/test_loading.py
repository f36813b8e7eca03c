"""Run folders: what is in them and what comes back."""

import json
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch

import implicit
from automata.errors import InputError
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.config.recipes import RECIPES, recipe
from implicit.config.run import TrainConfig
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS
from implicit.runs.folder import RunFolder
from implicit.runs.loading import initial_model, load_run
from implicit.train import train
from tests.small_models import small_sizes
from tests.solving import solved


def logits(model: SequenceModel, tokens: torch.Tensor) -> torch.Tensor:
    """The answers of a model; those of an implicit one at its fourth iterate, wherever its fixed point is."""
    if isinstance(model, ImplicitModel):
        return solved(model, tokens, stopping=Stopping(rtol=0, max_iterations=4)).logits
    return model(tokens)


def small(model: str, **overrides: object) -> TrainConfig:
    """Three steps of a small model."""
    settings = {
        "d_model": 8,
        "steps": 3,
        "warmup_steps": 1,
        "batch_size": 2,
        "length": 5,
        "evaluate_every": 2,
        "free_gradient": "phantom",  # after three steps, an exact one may not be had
    }
    validation = {"evaluation_sequences": 2, "evaluation_max_iterations": 4}
    return recipe("parity", model, **settings | validation | overrides)


@pytest.mark.parametrize("model", MODELS)
def test_loaded_run_answers_as_the_trained_model_does(model: str, tmp_path: Path) -> None:
    head = small_sizes(model)
    trained = train(small(model, hard_fraction=0.5, **head), tmp_path / "run", progress=False)
    loaded = load_run(str(tmp_path / "run"))
    assert loaded.config == trained.config
    assert isinstance(loaded.task, WordProblem)
    assert loaded.task.hard_fraction == 0.5
    assert loaded.metrics == trained.metrics
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    assert torch.equal(logits(loaded.model, tokens), logits(trained.model, tokens))
    assert all(parameter.dtype == torch.float32 for parameter in loaded.model.parameters())


def test_files_of_a_finished_run(stored_run: Path) -> None:
    names = ["config.json", "environment.json", "metrics.jsonl", "model.safetensors", "sha256.json"]
    assert sorted(path.name for path in stored_run.iterdir()) == names
    config = json.loads((stored_run / "config.json").read_text())
    assert config["sizes"] == {"d_model": 4, "layers": 1}
    environment = json.loads((stored_run / "environment.json").read_text())
    assert environment["seed"] == 0
    assert environment["torch"] == torch.__version__
    weights = safetensors.torch.load_file(stored_run / "model.safetensors")
    assert set(weights) == set(load_run(stored_run).model.state_dict())


def test_run_by_name(stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored run is found by its name, unless a folder of that name is nearer."""
    shutil.copytree(stored_run, tmp_path / "package" / "parity")
    monkeypatch.setattr("implicit.runs.loading.STORED_RUNS", tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    assert implicit.load_run("parity").path == tmp_path / "package" / "parity"
    shutil.copytree(stored_run, tmp_path / "parity")
    assert implicit.load_run("parity").path == Path("parity")


def test_initial_weights_follow_from_the_seed_alone() -> None:
    task = make_task("parity")
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = initial_model(small("mamba2"), task)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(5)
    second = initial_model(small("mamba2"), task)
    other = initial_model(small("mamba2", seed=1), task)
    for name, weight in first.state_dict().items():
        assert torch.equal(weight, second.state_dict()[name])
    assert not torch.equal(first.state_dict()["embedding.weight"], other.state_dict()["embedding.weight"])


def test_folder_of_a_killed_beginning_is_taken_over(tmp_path: Path) -> None:
    """What a process leaves that dies before the configuration is in place is no foreign file."""
    folder = RunFolder(tmp_path)
    folder.environment_file.write_text("{}")
    (tmp_path / "config.json.tmp").write_text('{"ta')
    run = train(small("lstm"), tmp_path, progress=False)
    assert run.metrics[-1]["step"] == 3
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize(
    ("changes", "field", "now", "before"),
    [
        ({"seed": 4}, "seed", "4", "0"),
        ({"d_model": 16}, "d_model", "16", "8"),
        ({"bounded_steps": 7}, "bounded_steps", "7", str(RECIPES["parity"]["bounded_steps"])),
        ({"gradient_clip": None}, "gradient_clip", "None", "0.25"),
        ({"betas": (0.9, 0.99)}, "betas", r"\[0.9, 0.99\]", r"\[0.9, 0.95\]"),
    ],
)
def test_other_configuration_is_refused_by_field(
    changes: dict[str, object], field: str, now: str, before: str, tmp_path: Path
) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small("lstm"))
    folder.check_same(small("lstm"))
    sentence = f"^{field} is {now}, but the run in {tmp_path} was begun with {before}; "
    with pytest.raises(InputError, match=sentence):
        folder.check_same(small("lstm", **changes))


def test_metrics_come_back(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    entries: list[dict[str, object]] = [{"step": 1, "loss": 0.1}, {"step": 2, "loss": 1e-17, "phase": "free"}]
    folder.write_metrics(entries)
    assert folder.read_metrics() == entries
    folder.write_metrics([])
    assert folder.read_metrics() == []


def test_a_package_without_stored_runs_still_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("implicit.runs.loading.STORED_RUNS", tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"^run parity does not exist; make one with python -m"):
        load_run("parity")
    monkeypatch.setattr("implicit.runs.loading.STORED_RUNS", tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match=r"run 'parity' is unknown; .*mine"):
        load_run("parity")
