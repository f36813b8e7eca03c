"""Training, resuming, analysing: a learned initial state; frozen, tied and unused parameters."""

import hashlib
from pathlib import Path

import pytest
import torch

import analysis.extraction
import analysis.jacobian
import analysis.length_generalization
from analysis.framework.output import weights_sha256
from implicit import Run, TrainConfig, recipe, train
from implicit.runs.loading import initial_model
from tests.interrupting import train_until


@pytest.fixture
def config() -> TrainConfig:
    return recipe(
        "parity",
        "tests.learned_start:LearnedStart",
        d_model=4,
        batch_size=4,
        length=6,
        start_length=6,
        steps=6,
        warmup_steps=1,
        carried_share=0.5,
        evaluate_every=3,
        evaluation_sequences=4,
        checkpoint_every=2,
    )


@pytest.fixture
def run(config: TrainConfig, tmp_path: Path) -> Run:
    return train(config, tmp_path / "run", progress=False)


def test_the_initial_state_is_learned_and_the_rest_is_left(config: TrainConfig, run: Run) -> None:
    before, after = initial_model(config, run.task).state_dict(), run.model.state_dict()
    assert not torch.equal(before["start"], after["start"])
    assert torch.equal(before["frozen"], after["frozen"])
    assert torch.equal(after["head.weight"], after["embedding.weight"])


def test_resumed_training_ends_with_the_same_bits(config: TrainConfig, run: Run, tmp_path: Path) -> None:
    train_until(3, config, tmp_path / "other")
    resumed = train(config, tmp_path / "other", progress=False).path / "model.safetensors"
    assert resumed.read_bytes() == (run.path / "model.safetensors").read_bytes()


def test_every_question_about_an_explicit_model_is_answered(run: Run) -> None:
    stored = hashlib.sha256((run.path / "model.safetensors").read_bytes()).hexdigest()
    assert weights_sha256(run.model) == stored  # with parameters that share memory, too
    extraction = analysis.extraction.analyse(run, length=6, sequences=4)
    jacobian = analysis.jacobian.analyse(run, length=6, sequences=4, states=4)
    accuracy = analysis.length_generalization.analyse(run, lengths=(6,), sequences=4).runs[0]
    assert {found.run.weights_sha256 for found in (extraction, jacobian, accuracy)} == {stored}
