"""The loop's evaluations, what it stores of them, when it stops, and what steps hand on."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.curriculum import TRAINING_WINDOWS
from implicit.config.run import TrainConfig
from implicit.gradients import Phantom, Unrolled
from implicit.models.interface import SequenceModel
from implicit.train import train
from implicit.training import loop
from implicit.training.checkpoint import Progress
from implicit.training.loop import majority_baselines
from implicit.training.objective import objective
from implicit.training.streams import Stream
from tests.small_models import small_config

PLAIN: dict[str, Any] = {"length": 6, "bounded_steps": 2, "bounded_iterations": 3, "free_max_iterations": 7}
PLAIN |= {"free_rtol": 0.25, "phantom_steps": 2, "evaluate_every": 2, "evaluation_sequences": 5}
PLAIN |= {"evaluation_lengths": (6, 12), "seed": 4}


IMPLICIT: dict[str, Any] = {"model": "implicit-mamba2", "sizes": {"d_model": 8, "head_size": 8, "d_state": 4}}


def recorded(monkeypatch: pytest.MonkeyPatch, name: str) -> list[dict[str, Any]]:
    """The keyword arguments of every call that the loop makes of one of its functions, and the result."""
    calls: list[dict[str, Any]] = []
    original = getattr(loop, name)

    def noted(*arguments: Any, **options: Any) -> Any:
        calls.append({**options, "arguments": arguments, "result": original(*arguments, **options)})
        return calls[-1]["result"]

    monkeypatch.setattr(loop, name, noted)
    return calls


# Every mode with one of the options, and the mode that is kept or not with each.
@pytest.mark.parametrize(
    ("free_mode", "own", "stoppings", "gradients"),
    [
        ("auto", {}, [(0.25, 3), (0.25, 9)], [Unrolled(3), Phantom(2, 0.8)]),
        ("windowed", {}, [(0.25, 3), (0.25, 9)], [Unrolled(3), Phantom(2, 0.8)]),
        ("windowed", {"evaluation_rtol": 0.5}, [(0.5, 3), (0.5, 9)], [Phantom(), Phantom()]),
        ("simultaneous", {"evaluation_max_iterations": 9}, [(0.25, 9)] * 2, [Phantom(), Phantom()]),
        ("auto", {"evaluation_rtol": 0.5, "evaluation_max_iterations": 9}, [(0.5, 9)] * 2, [Phantom()] * 2),
    ],
    ids=["as trained", "as trained in windows", "its tolerance", "its limit", "both"],
)
def test_validation_asks_for_what_is_configured(
    free_mode: str,
    own: dict[str, Any],
    stoppings: list[tuple[float, int]],
    gradients: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = recorded(monkeypatch, "evaluate")
    config = small_config(**IMPLICIT, **PLAIN, free_mode=free_mode, **own)
    run = train(config, tmp_path / "run", progress=False)
    numbers = [(call["arguments"][2], call["number"]) for call in calls]
    assert numbers == [(6, (2,)), (12, (2,)), (6, (3,)), (12, (3,))]
    for position, call in enumerate(calls):
        options = call["sequences"], call["batch_size"], call["seed"], call["stream"]
        assert options == (5, 2, 4, Stream.VALIDATION)
        solve, phase = call["solve"], position // 2
        assert (solve.stopping.rtol, solve.stopping.max_iterations) == stoppings[phase]
        assert solve.gradient == gradients[phase]
        free = TRAINING_WINDOWS if free_mode == "windowed" else free_mode
        assert solve.mode == ("auto" if own else free if phase else "simultaneous")
        stored, found = run.metrics[phase]["validation"][str(call["arguments"][2])], call["result"]
        for name in ("accuracy", "token_accuracy"):
            assert stored[name] == getattr(found, name)
        for name in ("share_converged", "mean_iterations"):
            assert stored[name] == getattr(found.convergence, name)


def test_metrics_are_of_the_step_and_its_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, "objective")
    extra = {"contraction_weight": 0.1, "forgetting_weight": 0.1, "carried_share": 0.5}
    config = small_config(**IMPLICIT, **PLAIN, **extra)
    run = train(config, tmp_path / "run", progress=False)
    assert [(entry["step"], entry["phase"]) for entry in run.metrics] == [(2, "bounded"), (3, "free")]
    for entry in run.metrics:
        found = calls[entry["step"] - 1]["result"]
        assert entry["loss"] == found.loss.item()
        assert entry["accuracy"] == found.accuracy
        assert entry["learning_rate"] == config.learning_rate_at(entry["step"])
        assert entry["mean_iterations"] == found.solution.iterations.double().mean()
        for name in ("contraction", "forgetting"):
            part = found.penalties.get(name)
            assert entry.get(f"{name}_penalty") == (None if part is None else part.item())
    assert "contraction_penalty" in run.metrics[1]
    assert "forgetting_penalty" in run.metrics[1]


def met(
    accuracies: list[float],
    target: float | None = 0.9,
    before: int = 1,
    length: int = 6,
    phase: str = "free",
    implicit: object = object(),
) -> int:
    config: Any = SimpleNamespace(length=6, evaluation=SimpleNamespace(target_accuracy=target))
    evaluations: Any = {index: SimpleNamespace(accuracy=value) for index, value in enumerate(accuracies)}
    model: Any = SimpleNamespace(implicit=implicit)
    now: Any = SimpleNamespace(length=length, name=phase)
    return loop._target_met(config, model, now, evaluations, Progress(target_met=before))


def test_a_target_is_met_by_the_worst_length_and_in_a_row() -> None:
    assert met([0.9, 1.0]) == 2  # exactly met counts
    assert met([1.0, 0.89]) == met([0.89, 1.0]) == 0
    assert met([1.0], before=0) == 1
    assert met([1.0], target=None) == 0
    assert met([1.0], length=5) == 0
    assert met([1.0], phase="bounded") == 0
    assert met([1.0], phase="bounded", implicit=None) == 2  # which is one of implicit models only


def test_baselines_are_those_of_the_answers_that_count() -> None:
    lengths = (5, 30)
    config = TrainConfig.of(task="dyck-4", model="lstm", evaluation_lengths=lengths)
    dyck = make_task("dyck-4")
    expected = {length: dyck.majority_baseline(length, last=10) for length in lengths}
    assert majority_baselines(config, dyck) == expected
    assert expected[30] != dyck.majority_baseline(30)
    rare: Any = mock.Mock()  # it asks after every third token
    rare.part.return_value.batch = lambda size, length, rng: mock.Mock(
        counted=np.arange(length)[None] % 3 == 0
    )
    assert set(majority_baselines(config, rare)) == set(lengths)
    rare.part.assert_called_with("validation")
    asked = rare.part.return_value.majority_baseline.call_args_list
    assert asked == [mock.call(5, last=None), mock.call(30, last=None)]


def test_steps_hand_on_where_their_sequences_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a share of one every sequence goes on: model and task alike, in the free phase."""
    drawn, taken = recorded(monkeypatch, "draw_batch"), recorded(monkeypatch, "objective")
    config = small_config(**PLAIN | {"task": "S3", "bounded_steps": 0, "carried_share": 1.0})
    train(config, tmp_path / "run", progress=False)
    assert [call["arguments"][5] for call in drawn] == [1, 2, 3]
    assert [call["arguments"][1:3] for call in drawn] == [(2, 6)] * 3
    assert drawn[0]["start"] is None
    for number in (1, 2):
        assert torch.equal(drawn[number]["start"], drawn[number - 1]["result"].end)
        for name, part in taken[number]["arguments"][4].items():
            assert torch.equal(part, taken[number - 1]["result"].state[name].detach())
            assert not part.requires_grad


def test_only_right_sequences_are_handed_on_if_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, taken = recorded(monkeypatch, "draw_batch"), recorded(monkeypatch, "objective")
    settings = PLAIN | {"bounded_steps": 0, "batch_size": 64, "length": 2, "carried_share": 1.0}
    for asked in (True, False):
        drawn.clear()
        taken.clear()
        train(small_config(**settings, carried_right=asked), tmp_path / str(asked), progress=False)
        for number in (1, 2):
            right, end = taken[number - 1]["result"].right, drawn[number - 1]["result"].end
            assert 0 < right.sum() < 64
            assert end[~right].sum() > 0
            expected = torch.where(right, end, 0) if asked else end
            assert torch.equal(drawn[number]["start"], expected)


def test_sequences_go_on_unsolved_and_in_the_bounded_phase_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few evaluations to a tolerance of 1e-6 reach nothing, in either phase."""
    drawn, taken = recorded(monkeypatch, "draw_batch"), recorded(monkeypatch, "objective")
    settings = PLAIN | IMPLICIT | {"task": "S3", "bounded_steps": 1, "bounded_iterations": 2}
    settings |= {"free_max_iterations": 2, "free_rtol": 1e-6, "carried_share": 1.0}
    for asked in (True, False):
        drawn.clear()
        taken.clear()
        train(small_config(**settings, carried_always=asked), tmp_path / str(asked), progress=False)
        assert not any(call["result"].solution.converged.any() for call in taken)
        first, second, third = (call["start"] for call in drawn)
        assert first is None
        if asked:
            assert torch.equal(second, drawn[0]["result"].end)
            assert torch.equal(third, drawn[1]["result"].end)
        else:
            assert second is None  # of the bounded phase nothing is handed on
            assert (third == 0).all()
            assert drawn[1]["result"].end.any()


class Exploding(torch.optim.AdamW):
    """Steps that are counted."""

    steps = 0

    def step(self, closure: Any = None) -> Any:
        Exploding.steps += 1
        return super().step(closure)


def test_a_gradient_that_is_not_finite_is_refused_before_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "make_optimizer", lambda _config, model: Exploding(model.parameters()))
    original = objective

    def explode(model: SequenceModel, *arguments: Any) -> Any:
        result = original(model, *arguments)
        return replace(result, loss=result.loss * torch.inf)

    config = small_config(**PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "objective", explode)
        with pytest.raises(InputError, match=r"^loss is inf at step 1 and its gradient is not finite"):
            train(config, tmp_path / "exploding", progress=False)
    assert Exploding.steps == 0
    assert not list(tmp_path.rglob("*.safetensors"))
    train(config, tmp_path / "run", progress=False)
    assert Exploding.steps == 3
