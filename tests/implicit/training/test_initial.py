"""Training from the weights of a run: they are what it begins with, and the configuration determines them."""

import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit import Run, load_run
from implicit.command_line import BAD_INPUT, run_command
from implicit.compiled import compile_run
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.runs.files import write_tensors
from implicit.runs.loading import initial_model
from implicit.train import main, train
from implicit.training import begin_from
from implicit.training.train import load_initial_weights
from tests.conftest import Refuses
from tests.interrupting import train_until
from tests.small_models import small_config


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("S3", tmp_path_factory.mktemp("runs") / "compiled-s3")


def config_of(run: Run | Path, noise: float = 0.0, **more: Any) -> TrainConfig:
    small = {"steps": 4, "bounded_steps": 1, "evaluation_sequences": 2, "checkpoint_every": 2}
    return begin_from(small_config(task="S3", **small | more), run, noise)


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(weight, other[name]) for name, weight in one.items())


def weights_of(config: TrainConfig) -> dict[str, torch.Tensor]:
    model = initial_model(config, config.build_task())
    load_initial_weights(config, model)
    return model.state_dict()


def test_without_noise_they_are_those_of_the_run(compiled: Run) -> None:
    config = config_of(compiled)
    assert (config.model, config.sizes) == ("implicit-mamba2", compiled.config.sizes)
    assert config.compiled is None
    assert equal(weights_of(config), compiled.model.state_dict())


def test_noise_has_its_share_of_the_norm_of_every_tensor(compiled: Run) -> None:
    noisy, again, other = (weights_of(config_of(compiled, 0.1, seed=seed)) for seed in (0, 0, 1))
    for name, weight in compiled.model.state_dict().items():
        noise = noisy[name] - weight
        assert torch.equal(noisy[name], again[name])
        if not weight.any():
            assert not noise.any()
            continue
        assert not torch.equal(noisy[name], other[name])
        # of n normal numbers, the norm is √n to within a share of about 1/√(2n); six times that
        share = float(noise.norm() / weight.norm())
        assert share == pytest.approx(0.1, rel=6 / math.sqrt(2 * weight.numel()))
        if weight.numel() > 100:
            assert bool((noise != 0).all()), "zeros get noise, too"


def test_training_begins_with_them(compiled: Run, tmp_path: Path) -> None:
    """With steps of next to no size nothing but the beginning is left."""
    config = config_of(compiled, 0.1, learning_rate=1e-30)
    run = train(config, tmp_path / "run", progress=False)
    begun = weights_of(config)
    for name, weight in run.model.state_dict().items():
        assert float((weight - begun[name]).abs().max()) < 1e-20  # a bias that is 0 moves by 1e-30
    assert run.config == config
    assert load_run(run.path).config.initial == config.initial
    assert run.config.compiled is None


def test_run_that_was_stopped_goes_on_without_its_source(compiled: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(compiled.path, source)
    config = config_of(source, 0.1)
    expected = train(config, tmp_path / "whole", progress=False)
    train_until(3, config, tmp_path / "stopped")
    shutil.rmtree(source)
    assert run_command(main, ["--resume", "--out", str(tmp_path / "stopped"), "--quiet"]) == 0
    assert equal(load_run(tmp_path / "stopped").model.state_dict(), expected.model.state_dict())
    with pytest.raises(InputError, match="source does not exist"):
        train(config, tmp_path / "new", progress=False)
    assert not (tmp_path / "new").exists()


def test_other_weights_under_the_same_path_are_refused(compiled: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(compiled.path, source)
    config = config_of(source)
    shutil.rmtree(source)
    compile_run("S3", source, damping=0.5)
    weights = load_run(source).model.state_dict()
    write_tensors(source / "model.safetensors", weights | {"head.bias": weights["head.bias"] + 1})
    with pytest.raises(InputError, match="are not those that the configuration begins with"):
        train(config, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_task_of_other_tokens_or_answers_is_refused(compiled: Run) -> None:
    with pytest.raises(InputError, match="the vocabulary_size of parity is 2, but that of run compiled-s3"):
        begin_from(recipe("parity", "lstm"), compiled)
    with pytest.raises(InputError, match=r"noise is -1.0; it should be greater than or equal to 0"):
        begin_from(recipe("S3", "lstm"), compiled, -1.0)


FLAGS = "--task S3 --batch-size 2 --length 4 --steps 2 --warmup-steps 1 --start-length none --bounded-steps 1"


def test_command(compiled: Run, tmp_path: Path) -> None:
    beginning = f"--initial-weights {compiled.path} --initial-noise 0.1 --out {tmp_path / 'run'} --quiet"
    argv = f"{FLAGS} --evaluation-sequences 2 {beginning}".split()
    assert run_command(main, argv) == 0
    run: Any = load_run(tmp_path / "run")
    assert (run.config.initial.run, run.config.initial.noise) == (str(compiled.path), 0.1)
    assert run.config.sizes == compiled.config.sizes
    assert run_command(main, argv) == 0, "a finished run is left as it is"
    assert run_command(main, [*argv, "--initial-noise", "0.2"]) == BAD_INPUT


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--model implicit-mamba2 --initial-noise 0.1", "initial_noise is given without initial_weights"),
        ("--initial-weights {run} --initial-noise much", "noise is much; it should be a valid number"),
        ("--initial-weights {run} --d-model 9", "d_model is 9, but that of {run} is 8; leave it out"),
        ("--initial-weights {run} --model lstm", "model is lstm, but that of {run} is implicit-mamba2"),
        ("--initial-weights nowhere/at/all", "run nowhere/at/all does not exist"),
    ],
)
def test_faults_of_the_caller_exit_with_2_and_write_nothing(
    flags: str, sentence: str, compiled: Run, tmp_path: Path, refuses: Refuses
) -> None:
    flags, sentence = (text.format(run=compiled.path) for text in (flags, sentence))
    assert sentence in refuses(main, [*FLAGS.split(), *flags.split(), "--out", str(tmp_path / "run")])
