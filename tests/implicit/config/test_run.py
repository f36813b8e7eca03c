"""The configuration: what it accepts, what it stores, and the learning rate it gives."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler

from automata.errors import InputError
from implicit.config.curriculum import Curriculum, Growth
from implicit.config.flat import flatten
from implicit.config.run import EvaluationConfig, TrainConfig
from implicit.runs.loading import STORED_RUNS
from tests.small_models import small_config


def of_steps(scheduler: LRScheduler, steps: int) -> list[float]:
    rates = []
    for _ in range(steps):
        rates.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        scheduler.step()
    return rates


def test_learning_rate_is_that_of_torch() -> None:
    """Warm-up as LambdaLR gives it, then CosineAnnealingLR from the peak."""
    rates = {"learning_rate": 0.2, "final_learning_rate_fraction": 0.25}
    config = small_config(steps=50, warmup_steps=10, **rates)
    weight = torch.nn.Parameter(torch.zeros(1))
    warmup = of_steps(LambdaLR(torch.optim.SGD([weight], 0.2), lambda step: (step + 1) / 10), 10)
    annealing = CosineAnnealingLR(torch.optim.SGD([weight], 0.2), T_max=40, eta_min=0.05)
    cosine = of_steps(annealing, 41)[1:]
    # torch's cosine is a recurrence over 40 steps: rounding of some 1e-16 per step.
    found = [config.learning_rate_at(step) for step in range(1, 51)]
    assert found == pytest.approx(warmup + cosine, rel=1e-12)


def test_warmup_of_all_steps() -> None:
    config = small_config(steps=4, warmup_steps=4, learning_rate=1)
    assert [config.learning_rate_at(step) for step in range(1, 5)] == [0.25, 0.5, 0.75, 1]


GROWING = {"length": 8, "tokens_per_update": 24, "start_length": 2, "growth_accuracy": 0.9}
GROWING |= {"learning_rate": 0.6, "steps": 500, "warmup_steps": 0, "scale_learning_rate": True}


def test_learning_rate_follows_the_number_of_sequences() -> None:
    """12 sequences of 2 tokens, 6 of 4, 3 of 8."""
    config = small_config(**GROWING)
    rates = [config.learning_rate_at(5, Growth(length=length)) for length in (None, 2, 4, 8)]
    assert rates == pytest.approx([0.6, 0.6, 0.3, 0.15], rel=1e-15)


@pytest.mark.parametrize("missing", ["tokens_per_update", "start_length", "growth_accuracy"])
def test_learning_rate_that_nothing_scales_is_refused(missing: str) -> None:
    with pytest.raises(InputError, match="scale_learning_rate is True"):
        small_config(**GROWING | {missing: None})


@pytest.mark.parametrize("model", ["implicit-mamba2", "mamba2", "lstm"])
def test_json_rebuilds_the_configuration(model: str) -> None:
    own = {"hard_fraction": 0.5, "evaluation_lengths": (8, 16), "start_length": 2}
    config = TrainConfig.of(task="S5", model=model, **own)
    stored = json.loads(json.dumps(config.as_json()))
    assert TrainConfig.from_json(stored) == config
    assert next(iter(stored)) == "format_version"
    assert stored["curriculum"]["start_length"] == 2
    assert stored["evaluation"]["lengths"] == [8, 16]


def test_a_field_that_was_not_there_when_it_was_stored_has_its_default() -> None:
    stored = TrainConfig.of(task="parity", model="implicit-mamba2").as_json()
    del stored["curriculum"]["image_ball_weight"], stored["algorithm"]
    loaded = TrainConfig.from_json(stored)
    assert (loaded.curriculum.image_ball_weight, loaded.algorithm) == (0.0, "AdamW")


FIRST_FORMAT = json.loads("""{
  "task": "parity", "model": "lstm", "hard_fraction": 0.5, "sizes": {"d_model": 8, "layers": 1},
  "batch_size": 48, "length": 16, "steps": 1200, "learning_rate": 0.004, "betas": [0.9, 0.99],
  "weight_decay": 0.125, "gradient_clip": null, "warmup_steps": 90, "final_learning_rate_fraction": 0.2,
  "seed": 7, "evaluate_every": 60, "evaluation_lengths": [16, 32], "evaluation_sequences": 33,
  "evaluation_rtol": 0.01, "evaluation_max_iterations": 99, "target_accuracy": 0.75, "patience": 4,
  "checkpoint_every": 70, "bounded_steps": 500, "bounded_iterations": 5, "free_max_iterations": 25,
  "free_mode": "windowed", "free_rtol": 0.0625, "phantom_steps": 6, "phantom_damping": 0.5,
  "contraction_weight": 0.03, "forgetting_weight": 0.25, "carried_share": 0.9, "carried_after": 700,
  "start_length": 3, "length_growth": 2, "length_growth_every": 150
}""")
"""Every field of the first format of config.json, each with a value that is not its default."""


def test_first_format_is_read() -> None:
    config = TrainConfig.from_json(FIRST_FORMAT)
    evaluation = {"every": "evaluate_every"} | {name: name for name in ("target_accuracy", "patience")}
    for name, value in FIRST_FORMAT.items():
        found = {**dict(config), **dict(config.optimizer), **dict(config.curriculum)}
        for field, now in dict(config.evaluation).items():
            found[evaluation.get(field, f"evaluation_{field}")] = now
        assert found[name] == (tuple(value) if isinstance(value, list) else value), name
    assert TrainConfig.from_json(config.as_json()) == config


@pytest.mark.parametrize("run", sorted(STORED_RUNS.iterdir()), ids=lambda path: path.name)
def test_stored_configuration_is_read(run: Path) -> None:
    stored = json.loads((run / "config.json").read_text())
    config = TrainConfig.from_json(stored)
    flat = flatten(TrainConfig, config.as_json())
    for name in set(stored) & set(flat) - {"sizes"}:
        assert flat[name] == stored[name]
    assert {size: config.sizes[size] for size in stored["sizes"]} == stored["sizes"]
    assert TrainConfig.from_json(config.as_json()) == config


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (3, r"newer version of implicit-ssm \(format 3, this version reads up to 2\); update implicit-ssm$"),
        (0, "format_version is 0; give a whole number"),
        ("2", "format_version is '2'; give a whole number"),
        (True, "format_version is True; give a whole number"),
    ],
)
def test_other_versions_are_refused(version: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        TrainConfig.from_json(small_config().as_json() | {"format_version": version})


def test_flat_names_and_groups_name_the_same_fields() -> None:
    flat = small_config(bounded_steps=3, evaluation_rtol=0.5)
    assert flat == small_config(curriculum={"bounded_steps": 3}, evaluation=EvaluationConfig(rtol=0.5))
    assert TrainConfig.of(**flat.flat()) == flat
    assert flat.updated(bounded_steps=4).curriculum == Curriculum(bounded_steps=4)
    assert flat.updated(curriculum=Curriculum(bounded_steps=4)).curriculum == Curriculum(bounded_steps=4)
    assert flat.updated(evaluation={"every": 7}).evaluation == EvaluationConfig(rtol=0.5, every=7)


def test_sizes_of_the_model_may_stand_among_the_fields() -> None:
    flat = TrainConfig.of(task="parity", model="lstm", d_model=8, sizes={"layers": 2})
    assert flat.sizes == {"d_model": 8, "layers": 2}
    assert flat.updated(d_model=9).sizes == {"d_model": 9, "layers": 2}
    assert flat.updated(sizes={"d_model": 9}).sizes == {"d_model": 9, "layers": 2}
    assert flat.updated(model="mamba2", d_state=4).sizes["d_state"] == 4


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"batchsize": 3}, "field 'batchsize' is unknown; did you mean 'batch_size'?"),
        ({"d_modle": 3}, "field 'd_modle' is unknown; did you mean 'd_model'?"),
        ({"d_state": 3}, "field 'd_state' is unknown"),
        ({"d_model": 3, "sizes": {"d_model": 4}}, "d_model is 3, and 4 in sizes; leave one of them out"),
        ({"curriculum": {"bounded_stepz": 3}}, "field 'curriculum.bounded_stepz' is unknown; did you mean"),
        ({"curriculum": {"bounded_steps": -3}}, "curriculum.bounded_steps is -3; it should be greater than"),
        ({"bounded_steps": -3}, "^bounded_steps is -3; it should be greater than"),
        ({"hard_fraction": 2}, "^hard_fraction is 2; it should be less than"),
        ({"evaluation_lengths": (8, 0)}, r"^evaluation_lengths\[1\] is 0; it should be greater than 0"),
        ({"curriculum": 3}, "curriculum is 3; it should be a valid dictionary"),
        ({"curriculum": 3, "bounded_steps": 3}, "curriculum is 3; it should be a valid dictionary"),
        ({"start_length": 33}, "^start_length is 33; give at most the training length, 32"),
    ],
)
def test_faults_are_told_by_the_name_that_was_used(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        TrainConfig.of(task="parity", model="lstm", **values)


@given(
    start=st.none() | st.integers(1, 20),
    growth=st.integers(1, 9),
    every=st.integers(1, 50),
    steps=st.integers(1, 300),
    length=st.integers(20, 40),
)
def test_shortfall_names_the_fewest_steps_that_suffice(
    start: int | None, growth: int, every: int, steps: int, length: int
) -> None:
    growing = {"start_length": start, "length_growth": growth, "length_growth_every": every}
    config = small_config(warmup_steps=0, steps=steps, length=length, **growing)
    needed = next(step for step in range(1, 10**6) if config.curriculum.phase(step, length).length == length)
    assert config.curriculum.first_step_at(length) == needed
    assert (config.shortfall() is None) == (steps >= needed)
    if steps < needed:
        reached = config.curriculum.phase(steps, length).length
        said = f"the curriculum ends at length {reached} of {length}; raise steps to at least {needed},"
        assert str(config.shortfall()).startswith(said)
