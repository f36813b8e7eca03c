"""Run folders: what is in them and what comes back."""

import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import implicit
from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS, build_shapes
from implicit.runs.folder import RunFolder
from implicit.runs.loading import initial_model, load_run
from implicit.seeded import Seeded
from implicit.train import train
from implicit.training.train import begin_from
from tests.interrupting import train_until
from tests.small_models import small_config, small_sizes
from tests.solving import solved


def logits(model: SequenceModel, tokens: torch.Tensor) -> torch.Tensor:
    """The answers of a model; those of an implicit one at its fourth iterate, wherever its fixed point is."""
    if isinstance(model, ImplicitModel):
        return solved(model, tokens, stopping=Stopping(rtol=0, max_iterations=4)).logits
    return model(tokens)


def small(model: str, **overrides: object) -> TrainConfig:
    settings: dict[str, object] = {"d_model": 8, "steps": 3, "warmup_steps": 1, "batch_size": 2, "length": 5}
    settings |= {"evaluate_every": 2, "evaluation_sequences": 2, "evaluation_max_iterations": 4}
    settings |= {"free_gradient": "phantom"}  # after three steps, an exact one may not be had
    return recipe("parity", model, **settings | overrides)


@pytest.mark.parametrize("model", MODELS)
def test_loaded_run_answers_as_the_trained_model_does(model: str, tmp_path: Path) -> None:
    head = small_sizes(model)
    trained = train(small(model, hard_fraction=0.5, **head), tmp_path / "run", progress=False)
    loaded: Any = load_run(str(tmp_path / "run"))
    assert loaded.config == trained.config
    assert loaded.task.hard_fraction == 0.5
    assert loaded.metrics == trained.metrics
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    assert torch.equal(logits(loaded.model, tokens), logits(trained.model, tokens))
    assert all(parameter.dtype == torch.float32 for parameter in loaded.model.parameters())


@pytest.fixture
def default_dtype() -> Iterator[Callable[[torch.dtype], None]]:
    yield torch.set_default_dtype
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", ["parity", "parity-deltanet"])
def test_a_stored_run_answers_alike_under_any_default_dtype(
    name: str, default_dtype: Callable[[torch.dtype], None]
) -> None:
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    expected = load_run(name).model(tokens)
    for dtype in (torch.float64, torch.bfloat16):
        default_dtype(dtype)
        assert torch.equal(load_run(name).model(tokens), expected)


@pytest.mark.parametrize("name", ["parity", "parity-deltanet"])
def test_a_stored_run_answers_alike_where_tensors_are_made_elsewhere(name: str) -> None:
    model, tokens = load_run(name).model, torch.tensor([[0, 1, 1, 0, 1]])
    with torch.device("meta"):
        answers = model(tokens)
        answers.sum().backward()
    assert torch.equal(answers, model(tokens))


def test_a_run_that_was_trained_under_another_default_dtype_loads(
    tmp_path: Path, default_dtype: Callable[[torch.dtype], None]
) -> None:
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    default_dtype(torch.float64)
    expected = train(small("lstm", d_model=4), tmp_path / "run", progress=False).model(tokens)
    default_dtype(torch.float32)
    assert torch.equal(load_run(tmp_path / "run").model(tokens), expected)
    begun = begin_from(small("lstm"), tmp_path / "run", noise=0.1)
    assert next(train(begun, tmp_path / "begun", progress=False).model.parameters()).dtype == torch.float32


def test_a_run_goes_on_in_its_own_dtype(tmp_path: Path, default_dtype: Callable[[torch.dtype], None]) -> None:
    tokens = torch.tensor([[0, 1, 1, 0, 1]])
    config = small("implicit-mamba2", checkpoint_every=1, carried_share=0.5, **small_sizes("implicit-mamba2"))
    expected = train(config, tmp_path / "whole", progress=False).model(tokens)
    train_until(2, config, tmp_path / "run")
    default_dtype(torch.float64)
    assert torch.equal(train(config, tmp_path / "run", progress=False).model(tokens), expected)


def test_run_by_name(stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(stored_run, tmp_path / "package" / "parity")
    monkeypatch.setattr("implicit.runs.loading.STORED_RUNS", tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    assert implicit.load_run("parity").path == tmp_path / "package" / "parity"
    shutil.copytree(stored_run, tmp_path / "parity")
    assert implicit.load_run("parity").path == Path("parity")


def test_a_run_decides_neither_how_long_it_is_iterated_nor_how_long_the_sequences_are(tmp_path: Path) -> None:
    config = small("implicit-mamba2", max_iterations=10**6, length=10**6)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config)
    folder.finish(initial_model(config, config.build_task()))
    with pytest.warns(UserWarning, match="^max_iterations of run run is 1000000; 10000 per token are made"):
        run = load_run(tmp_path / "run")
    assert run.model.implicit is not None
    assert (run.model.implicit.stopping.max_iterations, run.reading_length) == (10**4, 2**12)
    assert run.config == config


def test_other_configuration_is_refused_by_field(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin(small("lstm"))
    folder.check_same(small("lstm"))
    changes: dict[str, object] = {"seed": 4, "d_model": 16, "bounded_steps": 7, "betas": (0.9, 0.99)}
    for field, value in (changes | {"carried_always": True, "gradient_clip": None}).items():
        with pytest.raises(
            InputError, match=rf"^out is {tmp_path}, where an unfinished run has (size )?{field} "
        ):
            folder.check_same(small("lstm", **{field: value}))


def test_initial_models_of_threads_are_those_of_their_seeds() -> None:
    """While another thread draws from the global generator, which is left alone."""
    task, name = make_task("parity"), "mamba2"
    configs = [small(name, seed=seed, **small_sizes(name)) for seed in range(40)]
    expected = [initial_model(config, task).state_dict() for config in configs]
    assert len({tuple(weights["embedding.weight"].flatten().tolist()) for weights in expected}) == 40
    torch.manual_seed(0)
    drawn = [torch.rand(1) for _ in range(2000)]
    torch.manual_seed(0)
    with ThreadPoolExecutor(8) as threads:
        other = threads.submit(lambda: [torch.rand(1) for _ in range(2000)])
        models = list(threads.map(lambda config: initial_model(config, task), configs))
    assert drawn == other.result()
    for model, weights in zip(models, expected, strict=True):
        assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_models_and_draws_in_the_context_are_those_of_the_seed() -> None:
    def draws() -> list[torch.Tensor]:
        ones = torch.ones(40)
        drawn = [torch.rand(2), torch.rand_like(ones), torch.randint(9, (3,)), torch.randperm(9)]
        drawn += [ones.clone().normal_(), ones.clone().uniform_(1, 16), torch.randn(3)]
        drawn += [torch.nn.init.orthogonal_(torch.empty(3, 3)), torch.nn.functional.dropout(ones, 0.5)]
        for model in MODELS.values():
            drawn += model(model.config_class(vocabulary_size=2, output_size=2)).state_dict().values()
        return drawn

    torch.manual_seed(3)
    expected = draws()
    state = torch.manual_seed(5).get_state()
    with Seeded(3):
        assert all(map(torch.equal, draws(), expected))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("sizes", [{"d_model": 10**8}, {"expand": 10**9}])
def test_shapes_of_large_models_take_no_memory(sizes: dict[str, int]) -> None:
    """Norms begin with ones: of 10⁹ features they filled 4 GB, before the weights file was looked at."""
    assert all(
        one.is_meta for one in build_shapes("implicit-mamba2", sizes, make_task("parity")).parameters()
    )


CONFIG = small_config(model="tests.drawing_model:Drawing", sizes={}, steps=4, checkpoint_every=2)


def weights(model: SequenceModel) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in model.state_dict().items()}


def test_a_users_model_is_that_of_its_seed() -> None:
    def made(config: TrainConfig = CONFIG) -> dict[str, list[float]]:
        return weights(initial_model(config, make_task("parity")))

    first = made()
    for draw in (torch.rand, np.random.rand):
        draw(3)

    def states() -> list[object]:
        return [torch.get_rng_state().tolist(), random.getstate(), repr(np.random.get_state())]  # noqa: NPY002

    before = states()
    assert made() == first
    assert states() == before
    other = made(CONFIG.updated(seed=1))
    assert all(other[name] != first[name] for name in first)


def test_training_with_dropout_is_that_of_its_seed(tmp_path: Path) -> None:
    first = weights(train(CONFIG, tmp_path / "one", progress=False).model)
    torch.rand(3)
    assert weights(train(CONFIG, tmp_path / "two", progress=False).model) == first
    train_until(3, CONFIG, tmp_path / "three")
    torch.rand(3)
    assert weights(train(CONFIG, tmp_path / "three", progress=False).model) == first
