"""Errors in models whose effect is known; q against brute force, and its horizon against closed forms."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

import analysis
from analysis import error_control
from analysis.error_control import Horizon, Spread, choose_pairs, follow_errors, measure_spread, visit_ratios
from analysis.error_control.following import COMMON_TOKENS, common_ending
from analysis.framework.visited_states import in_double_precision
from automata.errors import InputError
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.models.interface import ModelConfig
from implicit.models.step_model import StepModel, wrap
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


def test_errors_in_a_contraction_are_corrected_quadratically() -> None:
    """1 − η per entry goes to 1 − 3η²/2 or so: F' = 0 and F'' = −3 at the codes; the codes stay."""
    found = error_control.analyse(Run.of(Corrector(), "parity", length=16), **SMALL, errors=(0.01, 0.1, 0.7))
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


RNG = np.random.default_rng(0)


def brute_force(states: np.ndarray, classes: np.ndarray, visit: int) -> float:
    """q of one visit: the other visits' mean, and a projection by least squares instead of by an SVD."""
    labels = [label for label in np.unique(classes) if (classes == label).sum() >= 2]
    means = {label: states[classes == label].mean(axis=0) for label in labels}
    differences = np.stack([means[a] - means[b] for a in labels for b in labels if a < b], axis=1)
    others = np.flatnonzero((classes == classes[visit]) & (np.arange(len(classes)) != visit))
    away = states[visit] - states[others].mean(axis=0)
    within = differences @ np.linalg.lstsq(differences, away, rcond=None)[0]
    own = means[classes[visit]]
    nearest = min(np.linalg.norm(means[label] - own) for label in labels if label != classes[visit])
    return float(np.linalg.norm(within) / nearest)


def test_q_is_that_of_brute_force() -> None:
    classes = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, -1])
    states = RNG.normal(size=(4, 6))[classes] + 0.2 * RNG.normal(size=(len(classes), 6))
    ratios = visit_ratios(states, classes)
    assert np.isnan(ratios[-2:]).all()  # alone in its class, and left out
    # the same numbers by other routes: rounding of least squares
    expected = [brute_force(states[:-1], classes[:-1], visit) for visit in range(9)]
    np.testing.assert_allclose(ratios[:9], expected, rtol=1e-10)


def test_q_does_not_see_what_tells_no_classes_apart() -> None:
    rng = np.random.default_rng(5)  # its own: how far classes are apart decides what rounding does
    classes = np.repeat([0, 1, 2], 20)
    states = np.zeros((60, 4))
    states[:, :2] = rng.normal(size=(3, 2))[classes] + 0.1 * rng.normal(size=(60, 2))
    ratios = visit_ratios(states, classes)
    states[:, 2] = 1000 * np.tile(np.repeat([1.0, -1.0], 10), 3)  # the same mean in every class
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    # rounding of numbers of size 1000 against distances of size 0.1
    np.testing.assert_allclose(visit_ratios(7 * states @ turn + 5, classes), ratios, rtol=1e-8)


class Drift(StepModel):
    """Parity by λ = −1 with independent errors after every token: Theorem 3 of docs/error_control.md."""

    name = "drift"
    SIZE = 0.04

    def __init__(self) -> None:
        super().__init__(ModelConfig(vocabulary_size=2, output_size=2))
        self.generator = torch.Generator().manual_seed(0)

    def init_state(self, batch_size: int) -> State:
        return {"h": torch.ones(batch_size, 1, dtype=torch.float64)}

    def embed(self, tokens: Tensor) -> Tensor:
        return 1 - 2 * tokens[..., None].double()

    def update(self, state: State, inputs: Tensor) -> State:
        errors = torch.randn(state["h"].shape, generator=self.generator, dtype=torch.float64)
        return {"h": inputs * state["h"] + self.SIZE * errors}

    def read(self, state: State) -> Tensor:
        return torch.cat([state["h"], -state["h"]], dim=-1)


def test_errors_that_add_up_reach_the_limit_where_a_random_walk_does() -> None:
    """|N(0, tσ²)| exceeds half of the distance 2 in 10% of the words at t = (1/(1.645 σ))²."""
    tokens, labels = make_task("parity").sample(2000, 160, np.random.default_rng(1))
    words = torch.from_numpy(tokens), torch.from_numpy(labels)
    spread = measure_spread(Run.of(Drift(), "parity", length=16), *words, block=16, every=8)
    expected = (1 / (scipy.stats.norm.ppf(0.95) * Drift.SIZE)) ** 2
    assert 160 < expected < 250
    assert spread.horizon.how == "extrapolated"
    # a quantile of 4,000 visits is off by 3% in q, and a line through nine of them by as much again
    assert spread.horizon.length == pytest.approx(expected, rel=0.15)
    walk = scipy.stats.norm.ppf(0.95) * Drift.SIZE * np.sqrt(spread.tokens + 4) / 2
    np.testing.assert_allclose(spread.upper[1:], walk[1:], rtol=0.12)
    right = scipy.stats.norm.cdf(1 / (Drift.SIZE * np.sqrt(spread.tokens)))
    np.testing.assert_allclose(spread.accuracy, right, atol=0.02)


def made(upper: list[float], accuracy: list[float], training_length: int = 2) -> Spread:
    ratios = np.repeat(np.array(upper)[:, None], 4, axis=1)
    return Spread(
        np.arange(1.0, len(upper) + 1), ratios, np.ones(len(upper)), np.array(accuracy), training_length
    )


def test_the_limit_is_what_the_model_read_within_its_training_length() -> None:
    assert made([0.3, 0.4, 0.9], [1, 1, 1]).limit == 0.5
    assert made([0.7, 0.6, 0.9], [1, 1, 1]).limit == 0.7
    assert made([0.7, 0.6, 0.9], [0.5, 1, 1]).limit == 0.6


def test_a_failure_is_predicted_where_q_exceeds_its_limit_and_grows() -> None:
    right = [1.0] * 8
    assert made([0.1, 0.1, 0.2, 0.3, 0.4, 0.45, 0.55, 0.6], right).horizon == Horizon(7.0, "reached")
    assert made([0.1, 0.1, 0.5, 0.49, 0.51, 0.5, 0.49, 0.51], right).horizon == Horizon(None, "none")
    assert made([0.9] * 8, [0.5] * 8).horizon == Horizon(1.0, "reached")  # never learned
    assert made([0.9] * 8, right).horizon == Horizon(None, "none")  # read all the same
    assert made([0.1, 0.1, 0.6, 0.7, 0.8], [1.0] * 5).horizon == Horizon(None, "too short")
    assert "do not tell whether it grows" in Horizon(None, "too short").sentence
    assert made([0.4, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05], right).horizon == Horizon(None, "none")


def test_where_accuracy_falls_is_found() -> None:
    assert made([0.1] * 3, [1, 0.89, 0.95]).failure == 2
    assert made([0.1] * 3, [1, 0.9, 1]).failure is None


@pytest.mark.parametrize(("length", "how"), [(700.0, "extrapolated"), (810.0, "too far")])
def test_no_failure_is_foretold_far_beyond_what_was_read(length: float, how: str) -> None:
    """q² = t / (4 · length) reaches 1/4 there; eight tokens were read, and 100 times as many are the most."""
    spread = made([float(np.sqrt(t / (4 * length))) for t in range(1, 9)], [1.0] * 8)
    assert spread.horizon.how == how
    if how == "extrapolated":
        assert spread.horizon.length == pytest.approx(length)
    else:
        assert spread.horizon.length is None
        assert "beyond 100 times the words that were read" in spread.horizon.sentence


def test_a_model_whose_states_all_fall_together_is_drawn_and_told(tmp_path: Path) -> None:
    forgets: Any = lambda m, s, t: ({"h": 0 * s["h"]}, m(s["h"] + t[:, None]))  # noqa: E731
    model = wrap(nn.Linear(1, 2), forgets, {"h": torch.zeros(1)}, vocabulary_size=2)
    found = analysis.ask("error_control", model, task="parity", out=tmp_path, **SMALL)
    assert "one state for 6 of 6 pairs" in found.sentence
    assert (tmp_path / "error_control.png").is_file()
