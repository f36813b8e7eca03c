"""Errors in models of which is known what they do to them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis import error_control
from analysis.error_control import choose_pairs, follow_errors
from analysis.error_control.following import COMMON_TOKENS, common_ending
from analysis.framework.visited_states import in_double_precision
from automata.errors import InputError
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.config.recipes import recipe
from implicit.models.interface import ModelConfig
from implicit.models.step_model import StepModel
from implicit.runs.loading import Run
from theory import State

SMALL: dict[str, Any] = {"sequences": 16, "length": 24, "block": 8, "pairs": 6, "follow": 12}


class Corrector(StepModel):
    """Parity as a swap of (1, −1), after every entry went to (3h − h³)/2, which contracts around ±1."""

    name = "corrector"

    def __init__(self) -> None:
        super().__init__(ModelConfig(vocabulary_size=2, output_size=2))

    def init_state(self, batch_size: int) -> State:
        return {"h": torch.tensor([[1.0, -1.0]], dtype=torch.float64).expand(batch_size, -1)}

    def embed(self, tokens: Tensor) -> Tensor:
        return tokens[..., None].double()

    def update(self, state: State, inputs: Tensor) -> State:
        held = (3 * state["h"] - state["h"] ** 3) / 2
        return {"h": (1 - inputs) * held + inputs * held.flip(-1)}

    def read(self, state: State) -> Tensor:
        return state["h"]


def run_of(model: Any, task: str = "parity") -> Run:
    return Run(Path("runs/made"), recipe(task, "lstm", length=16), model, make_task(task), [])


def test_errors_in_a_contraction_are_corrected_quadratically() -> None:
    """1 − η per entry goes to 1 − 3η²/2 or so: F' = 0 and F'' = −3 at the codes; the codes stay."""
    found = error_control.analyse(run_of(Corrector()), **SMALL, errors=(0.01, 0.1, 0.7))
    assert found.verdict == "corrected"
    middle = found.followed.quantiles(0.01)[1]
    assert middle[0] == pytest.approx(0.01, rel=1e-12)
    # entries 1 − 2η and −1 + 2η: each moves by 3(2η)²/2 − (2η)³/2, over the distance 2 of the codes' entries
    assert middle[1] == pytest.approx((6 * 0.01**2 - 4 * 0.01**3) / 2, rel=1e-9)
    assert middle[-1] < 1e-15
    assert found.followed.quantiles(0.7)[1][-1] == pytest.approx(
        1, abs=1e-12
    )  # beyond the middle: the other code
    gains = found.followed.gains
    assert gains is not None
    np.testing.assert_allclose(gains.between, 1, rtol=1e-12)
    assert (gains.within < 0.01).all()
    np.testing.assert_array_equal(gains.returned, 0)
    assert found.spread.upper.max() == 0
    assert found.horizon.how == "too short"


@pytest.mark.parametrize(("model", "sizes"), [("deltanet", {"negative_eigenvalues": True}), ("mamba2", {})])
def test_an_affine_layer_keeps_every_share_of_every_error(
    make_run: Any, model: str, sizes: dict[str, Any]
) -> None:
    """(1) of docs/error_control.md for real cells with random weights, which forget; shares stay."""
    found = error_control.analyse(make_run(model, task="S3", layers=1, **sizes), **SMALL, errors=(0.01, 0.4))
    for size in (0.01, 0.4):
        shares = found.followed.shares[size]
        # float64: rounding of states of size 1 against differences that have faded to 1e-5 at the least
        np.testing.assert_allclose(shares, size, rtol=1e-8)
    gains = found.followed.gains
    assert gains is not None
    np.testing.assert_allclose(gains.within, gains.between, rtol=1e-6)
    assert found.verdict == "kept"
    assert found.left == pytest.approx(1, rel=1e-8)


def test_a_stack_of_affine_layers_is_not_affine(make_run: Any) -> None:
    """The second layer reads the first through norms and gates: shares of the whole state do change."""
    run = make_run("deltanet", task="S3", layers=2, negative_eigenvalues=True)
    found = error_control.analyse(run, **SMALL, errors=(0.4,))
    assert np.abs(found.followed.shares[0.4][:, -1] / 0.4 - 1).max() > 0.01


@pytest.mark.parametrize("model", ["lstm", "gru", "pd-ssm", "implicit-mamba2"])
def test_every_model_with_a_constant_state_is_looked_at(make_run: Any, model: str) -> None:
    run = make_run(model, contracting=model == "implicit-mamba2")
    found = error_control.analyse(run, **{**SMALL, "follow": 3, "length": 8})
    assert np.isfinite(found.left)
    assert found.followed.share_converged == 1


def test_unconverged_fixed_points_are_told(make_run: Any) -> None:
    run = make_run("implicit-mamba2", max_iterations=5)
    found = error_control.analyse(run, **{**SMALL, "follow": 2}, max_iterations=2)
    assert found.followed.share_converged == 0
    assert found.finding.warnings == ["up to 100.00% of the fixed points were not found"]


@pytest.mark.parametrize("task", ["parity", "S3", "S5-generators", "flip-flop"])
def test_words_of_a_pair_lead_apart_and_words_that_return_do(task: str) -> None:
    problem = make_task(task)
    assert isinstance(problem, WordProblem)
    pairs = choose_pairs(problem, 12, length=10, follow=6, rng=np.random.default_rng(0))
    assert len(pairs.first) == 12 or task == "flip-flop"
    np.testing.assert_array_equal(pairs.first[:, -COMMON_TOKENS:], pairs.second[:, -COMMON_TOKENS:])
    here, there = problem.states(pairs.first)[:, -1], problem.states(pairs.second)[:, -1]
    assert (here != there).all()
    for number, word in enumerate(pairs.returning):
        for state in (here[number], there[number]):
            reached = state
            for token in word:
                reached = problem.table[reached, token]
            assert reached == state
        ends = [
            problem.states(np.concatenate([words[number], pairs.after[number]]))[9:]
            for words in (pairs.first, pairs.second)
        ]
        np.testing.assert_array_equal(pairs.apart[number], ends[0] != ends[1])
    if task == "flip-flop":
        assert not pairs.apart.all()  # writes make the states one
    else:
        assert pairs.apart.all()
        assert all(len(word) for word in pairs.returning)


def test_merged_pairs_are_left_out(make_run: Any) -> None:
    run = make_run("lstm", task="flip-flop")
    pairs = choose_pairs(run.task, 6, length=10, follow=8, rng=np.random.default_rng(0))
    followed = follow_errors(in_double_precision(run.model), pairs, (0.1,), 10, seed=0)
    np.testing.assert_array_equal(np.isnan(followed.shares[0.1]), ~pairs.apart)


def test_avoided_states_are_not_passed() -> None:
    brackets = make_task("dyck-4")
    assert isinstance(brackets, WordProblem)
    pairs = choose_pairs(brackets, 8, length=9, follow=5, rng=np.random.default_rng(0))
    for words in (pairs.first, pairs.second):
        assert not np.isin(brackets.states(words), brackets.avoid).any()
    ending, leads = common_ending(brackets)
    for state, led in enumerate(leads.tolist()):
        passed = [state]
        for token in ending:
            passed.append(int(brackets.table[passed[-1], token]))
        assert led == (-1 if set(passed[1:]) & set(brackets.avoid) else passed[-1])


def test_a_task_without_two_states_is_refused() -> None:
    one = WordProblem([[0, 0]], 0, ["a", "b"], ["q"], name="one")
    with pytest.raises(InputError, match="at which no two words of one with the same 3 last tokens lead"):
        choose_pairs(one, 2, length=4, follow=2, rng=np.random.default_rng(0))
