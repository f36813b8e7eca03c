"""The experiment on compiled weights: what it says of weights, by hand, and a short training of it."""

import copy
import math

import pytest
import torch

from automata import make_task
from benchmarks import compiled_start
from implicit.compiled import compile_automaton


def test_weights_are_measured_against_the_compiled_ones() -> None:
    compiled = compile_automaton(make_task("parity"))
    start, end = copy.deepcopy(compiled), copy.deepcopy(compiled)
    with torch.no_grad():
        for name, weight in start.state_dict().items():
            weight += torch.full_like(weight, 0.1) * weight.norm() / math.sqrt(weight.numel())
            end.state_dict()[name].copy_(weight)
            end.state_dict()[name].add_(
                compiled.state_dict()[name] - weight, alpha=0.5
            )  # half of the way back
    found = compiled_start.weights(start, end, compiled)
    assert found["start"] == pytest.approx(0.1, rel=1e-4)
    assert [found["end"], found["moved"]] == pytest.approx([0.05, 0.05], rel=1e-4)
    assert found["cosine_back"] == pytest.approx(1, rel=1e-4)
    assert found["end_zeros"] == pytest.approx(found["start_zeros"] / 2, rel=1e-4)
    assert found["start_zeros"] > 0
    assert compiled_start.weights(compiled, compiled, compiled)["cosine_back"] is None
    assert "head.bias" not in found["by_tensor"], "a tensor of zeros has no share"


def test_a_training_without_noise_begins_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compiled_start.TRAINING, "steps", 1)
    monkeypatch.setitem(compiled_start.TRAINING, "evaluate_every", 1)
    monkeypatch.setattr(compiled_start, "READ", {"sequences": 4, "length": 12})
    look = {"sequences": 4, "length": 5, "pairs": 2, "follow": 2, "states": 1, "max_iterations": 40}
    monkeypatch.setattr(compiled_start, "LOOK", look)
    found = compiled_start.train_case(0.0, {"warmup_steps": 1}, seed=0)
    assert found["before"]["answers"]["accuracy"] == 1
    assert found["before"]["held"]["kept_in"] == "ssm"
    assert found["weights"]["start"] == 0
    # one step of Adam moves every weight by the learning rate, where it moves it at all
    assert 0 < found["weights"]["by_tensor"]["mixers.0.D"]["moved"] < 2 * 1.5e-3 / 0.5
