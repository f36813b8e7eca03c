"""The loop against one written by hand, and against what it is for: models learn."""

import math
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.run import TrainConfig
from implicit.models.registry import build_model
from implicit.train import train
from implicit.training import loop
from implicit.training.streams import Stream, draw_batch
from implicit.training.train import available_device, run_ending, run_fall
from tests.small_models import small_config


def test_steps_are_those_of_a_loop_written_by_hand(tmp_path: Path) -> None:
    """AdamW in its textbook form, in float64 beside float32, on the same batches."""
    sizes = {"batch_size": 8, "length": 6, "steps": 5, "warmup_steps": 2}
    config = small_config(**sizes, weight_decay=0.1, gradient_clip=0.02, seed=3)
    run = train(config, tmp_path / "run", progress=False)
    task = make_task("parity")
    torch.manual_seed(3)
    model = build_model("lstm", {"d_model": 4}, task).double()
    weights = dict(model.named_parameters())
    first = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    second = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for step in range(1, 6):
        tokens, labels = draw_batch(task, 8, 6, 3, Stream.TRAIN, step)[:2]
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        gradients = dict(zip(weights, torch.autograd.grad(loss, list(weights.values())), strict=True))
        norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients.values()))
        assert norm > 0.02  # clipping is at work
        rate = config.learning_rate_at(step)
        with torch.no_grad():
            for name, weight in weights.items():
                gradient = gradients[name] * 0.02 / norm
                first[name] = 0.9 * first[name] + 0.1 * gradient
                second[name] = 0.95 * second[name] + 0.05 * gradient**2
                mean = first[name] / (1 - 0.9**step)
                variance = second[name] / (1 - 0.95**step)
                weight.sub_(rate * (mean / (variance.sqrt() + 1e-8) + 0.1 * weight))
    for name, weight in run.model.named_parameters():
        # Five steps of about 1e-3 whose direction float32 knows to some 1e-5.
        torch.testing.assert_close(weight.double(), weights[name], rtol=0, atol=1e-6)
    assert run.metrics[-1]["loss"] == pytest.approx(loss.item(), rel=1e-5)  # float32, hundred terms


def test_implicit_model_learns_to_hold_a_bit(tmp_path: Path) -> None:
    """Both phases together teach the flip-flop in 120 steps; guessing is right on half of the tokens."""
    sizes = {"batch_size": 32, "length": 8, "steps": 120, "warmup_steps": 10, "learning_rate": 5e-3}
    phases = {"bounded_steps": 80, "bounded_iterations": 2, "free_max_iterations": 8, "phantom_steps": 2}
    model = {"model": "implicit-mamba2", "sizes": {"d_model": 16}}
    config = small_config(task="flip-flop", **model, **sizes, **phases, evaluate_every=60)
    run = train(config, tmp_path / "run", progress=False)
    assert [entry["phase"] for entry in run.metrics] == ["bounded", "free"]
    assert run.metrics[-1]["validation"]["8"]["token_accuracy"] > 0.95


def test_a_device_is_that_of_its_name_or_is_refused_with_those_that_are_there() -> None:
    assert available_device("cpu") == torch.device("cpu")
    for name in ("gpu", "meta"):
        with pytest.raises(InputError, match=rf"^device is '{name}', which .*; choose from cpu"):
            available_device(name)


def test_short_sequences_come_in_larger_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    draw = draw_batch

    def noted(*given: Any, **named: Any) -> Any:
        batch = draw(*given, **named)
        if given[4] == Stream.TRAIN:
            shapes.append(tuple(batch.tokens.shape))
        return batch

    monkeypatch.setattr(loop, "draw_batch", noted)
    growing = {"length": 6, "start_length": 2, "length_growth": 2, "growth_accuracy": 0.01, "final_steps": 3}
    each = {"tokens_per_update": 20, "carried_share": 0.9, "checkpoint_every": 1, "evaluation_sequences": 3}
    config = small_config(batch_size=3, steps=9, **growing, **each)
    stop_after_four = iter([False] * 3 + [True])
    stop = lambda: nullcontext(lambda: next(stop_after_four, False))  # noqa: E731
    monkeypatch.setattr("implicit.training.train.noted_termination", stop)
    with pytest.raises(SystemExit):
        train(config, tmp_path / "run", progress=False)
    run = train(config, tmp_path / "run", progress=False)
    assert list(dict.fromkeys(shapes)) == [(10, 2), (5, 4), (3, 6)]
    assert run.metrics[-1]["tokens"] == sum(batch * length for batch, length in shapes)


def test_carried_sequences_keep_their_number() -> None:
    with pytest.raises(InputError, match="leave tokens_per_update out, or give growth_accuracy"):
        TrainConfig.of(task="parity", model="lstm", tokens_per_update=20, carried_share=0.5)


def test_a_batch_in_which_nothing_is_asked_is_drawn_anew(tmp_path: Path) -> None:
    """One session of 40 tokens asks with probability 1/4: 25 steps meet one that does not."""
    growing = {"length": 64, "start_length": 40, "length_growth": 24, "length_growth_every": 25}
    config = small_config(task="repl-3-values-random", batch_size=1, steps=32, seed=1, **growing)
    task = config.build_task()
    first = [draw_batch(task, 1, 40, 1, Stream.TRAIN, step) for step in range(1, 26)]
    assert 0 < sum(bool(batch.counted.any()) for batch in first) < 25
    for step, batch in enumerate(first, 1):
        seen = loop._draw_asked(config, task, 40, step, None)
        assert seen.counted.any()
        assert torch.equal(seen.tokens, batch.tokens) or not batch.counted.any()
    assert train(config, tmp_path / "run", progress=False).metrics[-1]["step"] == 32


def test_a_length_at_which_nothing_is_ever_asked_is_refused(tmp_path: Path) -> None:
    growing = {"length": 64, "start_length": 20, "length_growth": 44, "length_growth_every": 25}
    config = small_config(task="repl-3-values-random", steps=32, **growing)
    with pytest.raises(InputError, match="nothing is asked in this batch; give a greater length"):
        train(config, tmp_path / "run", progress=False)


def test_a_run_that_reached_its_target_says_that_it_ended_early(tmp_path: Path) -> None:
    sizes = {"steps": 9, "evaluate_every": 1, "evaluation_sequences": 2}
    config = small_config(**sizes, target_accuracy=1e-9, patience=2)
    run = train(config, tmp_path / "run", progress=False)
    (measured,) = run.metrics[-1]["validation"].values()
    assert measured["majority_baseline"] == 0.5
    assert not {"phase", "share_converged"} & {*run.metrics[-1], *measured}  # those of implicit models
    said = "ended before its limit of 9 steps: 2 evaluations in a row reached the target accuracy"
    assert str(run_ending(run)).startswith(said)
    assert run_fall(replace(run, metrics=run.metrics[-1:])) is None
    before = {"step": 1, "validation": {"5": {"accuracy": measured["accuracy"] + 0.06}}}
    fell = str(run_fall(replace(run, metrics=[before, *run.metrics[-1:]])))
    assert "after step 1, and the last weights are stored" in fell
