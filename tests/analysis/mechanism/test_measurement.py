"""Models whose mechanism is known, and codes whose geometry is known, in any basis."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis.error_control.following import choose_pairs, common_ending
from analysis.framework.arrays import FloatArray
from analysis.framework.visited_states import in_double_precision, visited_states
from analysis.mechanism import (
    alignment,
    chance_alignment,
    codes_of,
    compare,
    draw,
    share_written,
    swap_parts,
    symmetry_of,
    visit_classes,
)
from analysis.mechanism.codes import Codes
from analysis.mechanism.dynamics import _words
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.monoids import symmetric_group
from automata.tasks import make_task
from automata.tasks.specification import task_from
from automata.tasks.word_problem import WordProblem
from implicit import Run, load_run
from implicit.compiled import compile_run
from tests.analysis.machine_models import MachineModel
from theory import State, layer_jacobians, solve_fixed_point
from theory.transition import TokenInputs, TransitionBatch

SMALL: dict[str, Any] = {"sequences": 4, "length": 10, "pairs": 12, "follow": 6, "states": 3}


@pytest.fixture(scope="module")
def s3() -> WordProblem:
    task = make_task("S3")
    assert isinstance(task, WordProblem)
    return task


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


def test_the_second_term_is_compared_with_all_of_the_first() -> None:
    """The first term of DeltaNet is a full matrix, here by automatic differentiation."""
    run, task = load_run("parity-deltanet"), make_task("parity")
    assert isinstance(task, WordProblem)
    found = compare([run], **SMALL | {"states": 1}).runs[0].dynamics.second_term
    pairs = choose_pairs(task, SMALL["pairs"], SMALL["length"], SMALL["follow"], np.random.default_rng(0))
    (visited,) = visited_states(exact := in_double_precision(run.model), torch.from_numpy(pairs.first), 1)
    transition, state = exact.transition(visited.token), dict(visited.state)
    latent = solve_fixed_point(transition, state).latent
    (block,), ((name,),) = layer_jacobians(transition, state, latent), transition.layer_states

    def update(part: Tensor) -> Tensor:
        return transition.state_update(latent, state | {name: part})[name]

    first = torch.autograd.functional.jacobian(update, state[name])
    assert found == pytest.approx(float((block.left @ block.right).norm() / first.norm()), rel=1e-6)


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
    kept = visits.parts["ssm"] - visits.written
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
    assert (found.kept_in, found.coded_in) == ("no part alone", "all")
    assert abs(found.held.reliability) < 0.6, "the means of the parts say nothing, and say so"


def test_an_automaton_that_forgets_is_asked_before_it_does() -> None:
    reset = {"left": "left", "right": "right"}
    rows = {state: reset | {"stay": state} for state in reset}
    switch = task_from(DFA(tuple(rows), ("left", "right", "stay"), rows, "left", ()))
    machine = switch.machine()
    assert machine is not None
    found = compare([Run.of(MachineModel(machine), switch)], **SMALL)
    assert any("this automaton forgets" in warning for warning in found.runs[0].warnings)
    assert found.runs[0].kept_in == "state"  # by the tokens before
    assert len(draw(found).axes) == 1  # two codes have one distance, and there is no group


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

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        def advance(latent: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
            one = {name: part[None] for name, part in state.items()}
            return latent, {name: part[0] for name, part in self.step(one, inputs["token"][None])[0].items()}

        return TransitionBatch(advance, {"token": tokens.flatten()}, 0, (("one", "two"),))


def test_an_automaton_of_one_state_is_refused() -> None:
    task = WordProblem([[0]], 0, ["a"], ["q"], name="one state")
    run = Run.of(MachineModel(task.machine()), task)
    with pytest.raises(InputError, match="fewer than two states of one state are reached 4 times"):
        visit_classes(run, visits=4, length=3, seed=0)


ROUNDING = 1e-9
"""Rounding of sums of at most 10,000 products of numbers of size 1."""
S4 = symmetric_group(4)
TASK = WordProblem.from_monoid(S4)
SYMMETRY: Any = symmetry_of(TASK)
SIDES = SYMMETRY.by_words, SYMMETRY.by_renaming
PARTS = {part.name: part.projection for part in SYMMETRY.components}


def exact(codes: FloatArray) -> Codes:
    """The codes of visits without spread, two for each class."""
    label = np.repeat(np.arange(len(codes)), 2)
    return codes_of(codes[label], label, np.arange(len(label)) % 2)


ONE_HOT = np.eye(24)
MATRICES = np.array([np.eye(4)[[int(x) - 1 for x in name]].ravel() for name in S4.element_names])
SIGN = np.array([[np.linalg.det(matrix.reshape(4, 4))] for matrix in MATRICES])
RANDOM = np.random.default_rng(0).standard_normal((24, 300))


@pytest.mark.parametrize(
    ("codes", "dimension", "directions", "unevenness"),
    [(ONE_HOT, 23, 21, 0.0), (MATRICES, 9, 9, None), (SIGN, 1, 1, None)],
    ids=["one-hot", "matrices", "sign"],
)
def test_directions_of_known_codes(
    codes: FloatArray, dimension: float, directions: int, unevenness: float | None
) -> None:
    """One-hot: a simplex. Matrices: nine directions, equally long by Schur's lemma. The sign: a line."""
    found = exact(codes)
    assert found.between == pytest.approx(1)
    assert found.dimension == pytest.approx(dimension)
    assert found.directions_for(0.9) == directions
    if unevenness is None:
        assert found.unevenness > 0.1
        assert found.reliability == pytest.approx(1)
    else:
        assert found.unevenness == pytest.approx(unevenness, abs=ROUNDING)
        assert math.isnan(found.reliability), "equal distances correlate with nothing"


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        (ONE_HOT, {"1′": 1 / 23, "2": 4 / 23, "3": 9 / 23, "3′": 9 / 23}),
        (MATRICES, {"1′": 0, "2": 0, "3": 1, "3′": 0}),
        (MATRICES * SIGN, {"1′": 1 / 4, "2": 0, "3": 0, "3′": 3 / 4}),
        (SIGN, {"1′": 1, "2": 0, "3": 0, "3′": 0}),
    ],
    ids=["one-hot", "matrices", "matrices with their sign", "sign"],
)
def test_shares_of_representations(codes: FloatArray, expected: dict[str, float]) -> None:
    """Matrices: the standard one beside constants; times the sign, the other one of dimension 3 and the sign.

    A quarter of the squares of all entries is constant, and taken away; times the sign it is not.
    """
    assert exact(codes).shares(PARTS) == pytest.approx(expected, abs=ROUNDING)
    every = {"1′": 1, "2": 4, "3": 9, "3′": 9}  # all copies of it, in each case
    found = exact(codes).dimensions(PARTS)
    assert {name: found[name] for name, share in expected.items() if share} == pytest.approx(
        {name: every[name] for name, share in expected.items() if share}
    )
    assert sum(SYMMETRY.chance().values()) == pytest.approx(1)


def test_a_representation_that_is_there_once_has_its_own_dimension() -> None:
    """A vector, moved by every matrix of S4: one copy of the standard representation."""
    vector = np.array([0.9, -1.0, 0.7, 0.3])
    once = exact(MATRICES.reshape(24, 4, 4) @ (vector - vector.mean()))
    assert once.shares(PARTS)["3"] == pytest.approx(1)
    assert once.dimensions(PARTS)["3"] == pytest.approx(3)
    assert once.explained_by(SYMMETRY.by_words) == pytest.approx(1), "words turn it"
    assert once.explained_by(SYMMETRY.by_renaming) < 0.9, "renamings do not"


def test_symmetric_codes_keep_their_distances_and_random_ones_do_not() -> None:
    for orbits in SIDES:
        assert exact(MATRICES).explained_by(orbits) == pytest.approx(1)
        # 23 orbits of 276 pairs: 22/275 of the variance of independent numbers, twice that for these few
        assert exact(RANDOM).explained_by(orbits) < 2 * 22 / 275 + 0.1
        assert math.isnan(exact(ONE_HOT).explained_by(orbits))
    # entries weighted by their column are moved isometrically from one side only: rows are permuted freely
    weighted = (MATRICES.reshape(24, 4, 4) * np.array([1.0, 2.0, 3.0, 4.0])).reshape(24, 16)
    kept = [exact(weighted).explained_by(orbits) for orbits in SIDES]
    assert max(kept) == pytest.approx(1)
    assert min(kept) < 0.9


def test_tokens_turn_codes_that_are_a_representation() -> None:
    for following in S4.table.T:
        for codes in (ONE_HOT, MATRICES, SIGN):
            assert exact(codes).turned_by(following) == pytest.approx(1)
    # 24 random points in three directions: three angles cannot move them all
    few = exact(RANDOM[:, :3])
    assert max(few.turned_by(following) for following in S4.table.T[1:]) < 0.7
    # brute force over the angles of the plane, and its reflections
    plane = exact(RANDOM[:, :2])
    lengths, directions = np.linalg.eigh(plane.gram)
    points = directions[:, -2:] * np.sqrt(lengths[-2:])
    moved = points[S4.table[:, 1]]
    angles = np.linspace(0, 2 * np.pi, 2000)
    turns = np.array([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    turns = np.concatenate([turns, turns @ np.diag([1, -1])])
    found = 1 - ((moved - points @ turns) ** 2).sum((1, 2)) / (points**2).sum()
    assert plane.turned_by(S4.table[:, 1]) == pytest.approx(found.max(), abs=1e-4)


def test_words_and_renamings_act_from_different_sides() -> None:
    """Codes that read the last token only are moved by words; brute force over all pairs and elements."""
    for orbits, moved in zip(SIDES, (S4.table.T, S4.table), strict=True):
        for permutation in moved:
            np.testing.assert_array_equal(orbits[np.ix_(permutation, permutation)], orbits)
        np.testing.assert_array_equal(orbits, orbits.T)
    # in one orbit by words: x y⁻¹ up to order; by renaming: x⁻¹ y
    inverse = np.array([S4.inverse(x) for x in range(24)])
    for orbits, quotient in zip(SIDES, (S4.table[:, inverse], S4.table[inverse]), strict=True):
        either = np.minimum(quotient, inverse[quotient])
        assert len(set(zip(orbits.ravel(), either.ravel(), strict=True))) == len(np.unique(orbits))


def test_nothing_changes_with_the_basis_or_with_noise_that_the_halves_do_not_share() -> None:
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.standard_normal((40, 40)))[0][:, :16]
    here, there = exact(MATRICES), exact(MATRICES @ turned.T)
    np.testing.assert_allclose(here.gram, there.gram, atol=ROUNDING)
    label, noise = np.repeat(np.arange(24), 200), 3.0
    visits = MATRICES[label] + noise * rng.standard_normal((len(label), 16))
    noisy = codes_of(visits, label, np.arange(len(label)) % 2)
    signal = 3 / (3 + 16 * noise**2)  # squares of a centred code, and of the noise
    assert noisy.between == pytest.approx(signal, rel=0.1)  # about three standard errors
    share = noisy.shares(PARTS)
    assert share["3"] == pytest.approx(1, abs=0.1)  # had the noise counted, it would be about 0.9 of it


def test_alignment_tells_equal_codes_from_renamed_ones() -> None:
    found = exact(MATRICES)
    order = np.random.default_rng(1).permutation(24)
    mean, upper = chance_alignment(found, found, seed=0)
    assert alignment(found, exact(2 * MATRICES)) == pytest.approx(1)
    assert mean <= upper < 0.6
    assert alignment(found, exact(MATRICES[order])) < 0.7
    assert alignment(exact(ONE_HOT), found) == pytest.approx(math.sqrt(9 / 23))  # √(dimension / 23)


def test_classes_that_do_not_differ_have_no_codes() -> None:
    found = exact(np.ones((3, 2)))
    assert found.between == 0
    assert math.isnan(found.dimension)
    assert math.isnan(found.unevenness)


def test_symmetry_is_that_of_a_group_or_none() -> None:
    assert symmetry_of(make_task("flip-flop")) is None
    assert symmetry_of(TASK, largest_order=10) is None
    on_points = symmetry_of(WordProblem([[1, 1], [2, 0], [0, 2]], 0, ["a", "b"], ["0", "1", "2"]))
    assert on_points is not None
    assert on_points.by_renaming is None, "S3 on three points is not S3 on itself"
    assert [(part.name, part.size) for part in on_points.components] == [("2", 2)]
