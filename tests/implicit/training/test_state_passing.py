"""Sequences that go on from an earlier step continue the model's state and the automaton's alike."""

from typing import Any

import pytest
import torch

from automata.tasks.registry import make_task
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.runs.loading import load_run
from implicit.training.state_passing import PassedState
from implicit.training.streams import Stream, draw_batch
from tests.solving import solved

ALL = torch.Generator().manual_seed(0)


@pytest.fixture(scope="module")
def model() -> Any:
    return load_run("parity").model.double()


def test_going_on_is_reading_the_whole_sequence(model: ImplicitModel) -> None:
    tokens, labels = draw_batch(make_task("parity"), 4, 24, 0, Stream.TEST, 0)[:2]
    tight = Stopping(rtol=1e-11)  # float64; errors of the first half are passed on to the second
    with torch.no_grad():
        whole = solved(model, tokens, stopping=tight)
        first = solved(model, tokens[:, :10], stopping=tight)
        passed = PassedState.of(first.state, labels[:, 9], first.solution)
        passed = PassedState.from_tensors(passed.tensors())  # as a checkpoint does
        state, start = passed.go_on(model.init_state(4), torch.zeros(4, dtype=torch.long), 1.0, ALL)
        second = solved(model, tokens[:, 10:], state=state, stopping=tight)
    torch.testing.assert_close(second.logits, whole.logits[:, 10:], rtol=1e-8, atol=1e-8)
    assert start.tolist() == labels[:, 9].tolist()


def test_sequences_that_answered_wrongly_begin_anew_if_asked(model: ImplicitModel) -> None:
    tokens = torch.ones(3, 8, dtype=torch.long)
    with torch.no_grad():
        solution = solved(model, tokens)
    right, beginning = torch.tensor([True, False, True]), torch.zeros(3, dtype=torch.long)
    for given, expected in ((None, [1, 1, 1]), (right, [1, 0, 1]), (~right, [0, 1, 0])):
        passed = PassedState.of(solution.state, tokens[:, -1], solution.solution, given)
        state, start = passed.go_on(model.init_state(3), beginning, 1.0, ALL)
        assert start.tolist() == expected
        went_on = [bool(part.any()) for part in state["conv.0"]]
        assert went_on == [bool(share) for share in expected]


def test_share_is_a_probability() -> None:
    many = 10_000
    ones = torch.ones(many, dtype=torch.long)
    passed = PassedState({"h": torch.ones(many, 1)}, ones, ones.bool())
    state, start = passed.go_on({"h": torch.zeros(many, 1)}, 0 * ones, 0.3, ALL)
    # Five standard deviations of a binomial proportion.
    assert abs(start.double().mean() - 0.3) < 5 * (0.3 * 0.7 / many) ** 0.5
    assert torch.equal(state["h"][:, 0].long(), start)
