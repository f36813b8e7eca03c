"""Models whose mechanism is known: a machine, compiled automata, and one with a part that only looks on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis.error_control.following import choose_pairs, common_ending
from analysis.mechanism import alignment, compare, share_written, swap_parts, visit_classes
from analysis.mechanism.codes import Codes
from analysis.mechanism.dynamics import _words
from automata.errors import InputError
from automata.tasks import make_task
from automata.tasks.word_problem import WordProblem
from implicit import Run, load_run
from implicit.compiled import compile_run
from tests.analysis.machine_models import MachineModel
from theory import State

SMALL: dict[str, Any] = {"sequences": 4, "length": 10, "pairs": 12, "follow": 6, "states": 3}


@pytest.fixture(scope="module")
def s3() -> WordProblem:
    task = make_task("S3")
    assert isinstance(task, WordProblem)
    return task


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("S3", tmp_path_factory.mktemp("runs") / "compiled-s3")


class Machine(MachineModel):
    """A machine whose state may have further parts."""

    def check_step(self, state: State, token: Tensor) -> None:
        """Accept the parts of the state that are added below."""

    def whole(self, numbers: Tensor) -> Tensor:
        """One-hot vectors of numbers."""
        return torch.eye(self.machine.state_count, dtype=self.get_buffer("steps").dtype)[numbers]


def test_a_machine_has_one_hot_codes_and_corrects_nothing(s3: WordProblem) -> None:
    run = Run.of(Machine(s3.machine()), s3)
    (found,) = compare([run], **SMALL).runs
    assert found.kept_in == found.coded_in == "state"
    assert found.held.between == pytest.approx(1)
    assert found.held.dimension == pytest.approx(5)
    assert found.held.unevenness == pytest.approx(0, abs=1e-6)
    assert found.geometry["state"].shares == pytest.approx({"1′": 1 / 5, "2": 4 / 5})
    # its transition is linear
    assert [found.dynamics.left_after_one, found.dynamics.left_after_all] == pytest.approx([1, 1])
    assert found.dynamics.written is found.dynamics.contraction is found.iterations is None


def fading_codes(task: WordProblem, decay: float) -> Codes:
    """Those of docs/compiled_automata.md: a one-hot for every state passed, fading token by token."""
    ending, _ = common_ending(task)
    states = np.arange(task.state_count)
    memory = np.eye(task.state_count)[states]
    for token in ending:
        states = task.table[states, token]
        memory = decay * memory + np.eye(task.state_count)[states]
    centred = memory[np.argsort(states)] - memory.mean(axis=0)
    return Codes(centred @ centred.T, 1.0)


def test_a_compiled_automaton_has_the_codes_of_its_construction(compiled: Run, s3: WordProblem) -> None:
    (found,) = compare([compiled], **SMALL).runs
    assert found.kept_in == "ssm"
    assert list(found.swaps) == ["ssm"], "it has no convolution"
    assert (found.swaps["ssm"].first, found.swaps["ssm"].last) == (1, 1)
    assert np.nanmax(found.swaps["ssm"].receiver) == 0
    # what is left over of older states changes what is written by some per cent
    expected = fading_codes(s3, 1 / 16)
    assert alignment(found.held, expected) > 0.999
    assert found.held.dimension == pytest.approx(expected.dimension, rel=0.02)
    assert found.held.between == pytest.approx(1, abs=1e-6)
    # renaming the states of the group renames channels, and nothing else
    assert found.geometry["ssm"].by_renaming == pytest.approx(1, abs=0.05)
    # of Σₖ λᵏ e the last token writes all but λ of what was there
    dynamics = found.dynamics
    assert dynamics.written == pytest.approx(1, abs=0.03)
    assert dynamics.left_after_one < 0.1
    assert dynamics.left_after_all < 1e-6
    assert dynamics.contraction is not None
    assert dynamics.contraction < 0.01, "what is proved of it"
    assert dynamics.decay == pytest.approx((1 / 16,) * 3, rel=1e-6)
    assert dynamics.second_rank == pytest.approx(1, abs=0.2), "one state is written, by more or less"
    assert found.iterations == pytest.approx(2, abs=0.5)


class WithOnlooker(Machine):
    """A machine whose state has a second part that nothing reads."""

    def init_state(self, batch_size: int) -> State:
        return super().init_state(batch_size) | {"onlooker": torch.zeros(batch_size, 1)}

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        following, logits = super().step({"state": state["state"]}, token)
        return following | {"onlooker": state["onlooker"] + token[:, None]}, logits


def test_a_part_that_nothing_reads_takes_no_answer_with_it(s3: WordProblem) -> None:
    pairs = choose_pairs(s3, 12, length=10, follow=6, rng=np.random.default_rng(0))
    found = swap_parts(WithOnlooker(s3.machine()), s3, pairs)
    assert (found["state"].first, found["state"].last) == (1, 1)
    assert np.nanmax(found["onlooker"].giver) == 0
    assert np.nanmin(found["onlooker"].receiver) == 1


def test_trained_parity_is_kept_in_the_window_and_compiled_parity_in_the_memory(tmp_path: Path) -> None:
    runs = [load_run("parity"), compile_run("parity", tmp_path / "compiled")]
    found = compare(runs, **SMALL)
    assert [run.kept_in for run in found.runs] == ["conv", "ssm"]
    assert found.likeness[0, 1].alignment == pytest.approx(1)  # two points are always on a line
    numbers = found.numbers()
    assert numbers["parity"]["against"]["compiled"] == numbers["compiled"]["against"]["parity"]


def test_visits_are_as_many_of_every_state_in_both_halves(compiled: Run) -> None:
    visits = visit_classes(compiled, visits=6, length=5, seed=1)
    assert visits.classes.tolist() == list(range(6))
    for half in (0, 1):
        assert np.bincount(visits.label[visits.half == half]).tolist() == [3] * 6
    again = visit_classes(compiled, visits=6, length=5, seed=1)
    np.testing.assert_array_equal(visits.parts["ssm"], again.parts["ssm"])


def test_what_is_written_and_what_is_kept_add_up(compiled: Run) -> None:
    """h' = Λ h + u: without h before the token, u is left."""
    visits = visit_classes(compiled, visits=4, length=5, seed=0)
    assert visits.written is not None
    kept = visits.of(("ssm",)) - visits.written
    assert isinstance(compiled.task, WordProblem)
    words, _ = _words(compiled.task, 4, 5, 0)
    before = compiled.model.run(words[:, :-1]).state["ssm.0"].detach().flatten(1).double().numpy()
    np.testing.assert_allclose(kept, before / 16, atol=1e-4 * np.abs(before).max())  # float32
    written = share_written(visits)
    assert written is not None
    assert written > 0.9


def test_several_parts_that_share_the_state_are_told(s3: WordProblem) -> None:
    """The state of the machine in two halves, of which either alone says nothing."""
    (found,) = compare([Run.of(Halved(s3.machine()), s3)], **SMALL).runs
    assert (found.kept_in, found.coded_in) == ("several", "all")
    assert abs(found.held.reliability) < 0.6, "the means of the parts say nothing, and say so"


class Halved(Machine):
    """A machine whose state is the sum of two numbers modulo its size, a number in each part of the state."""

    def init_state(self, batch_size: int) -> State:
        first = super().init_state(batch_size)["state"]
        return {"one": first, "two": self.whole(torch.zeros(batch_size, dtype=torch.int64))}

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        size = state["one"].shape[1]
        one, two = (state[name].argmax(-1) for name in ("one", "two"))
        following, logits = super().step({"state": self.whole((one + two) % size)}, token)
        second = (5 * two + token + 1) % size
        first = (following["state"].argmax(-1) - second) % size
        return {"one": self.whole(first), "two": self.whole(second)}, logits


def test_runs_of_other_automata_are_refused(compiled: Run) -> None:
    with pytest.raises(InputError, match="which are not the same automaton; give runs of one"):
        compare([compiled, load_run("parity")])


def test_an_automaton_of_one_state_is_refused() -> None:
    task = WordProblem([[0]], 0, ["a"], ["q"], name="one state")
    run = Run.of(MachineModel(task.machine()), task)
    with pytest.raises(InputError, match="fewer than two states of one state are reached 4 times"):
        visit_classes(run, visits=4, length=3, seed=0)
