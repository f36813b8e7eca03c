import contextlib
from itertools import product as words_of

import numpy as np
import pytest
import torch

from automata.errors import InputError
from automata.probabilistic.marginal_filter import MarginalFilter
from automata.probabilistic.named_pfsas import hidden_permutations, lazy_swaps, noisy_parity
from automata.probabilistic.scope import marginal_scope
from tests.refusals import refusals
from theory.belief.adversary import (
    LinearPredictor,
    MarginalPredictor,
    confusion_radius,
    divergence,
    divergence_radius,
    sequence_errors,
    worst_sequence,
)
from theory.belief.decay import worst_decay
from theory.belief.reachable import TokenSource, belief_chain

TURN = {(1, 2, 3): 1 / 3, (2, 3, 1): 1 / 3, (3, 1, 2): 1 / 3}
TURNS = hidden_permutations(3, {"turn": TURN, "swap": {(1, 2, 3): 0.5, (2, 1, 3): 0.5}})
NAMES = ("variable 1", "variable 2", "variable 3")


def test_the_exact_filter_in_float64_makes_no_error() -> None:
    automaton = lazy_swaps(3, 0.25)
    worst = worst_sequence(automaton, LinearPredictor(automaton, torch.float64), 4)
    assert worst.total < 1e-12


def test_exhaustive_search_is_the_maximum_over_all_histories() -> None:
    automaton = lazy_swaps(3, 0.25)
    predictor = MarginalPredictor(MarginalFilter(automaton, NAMES, "condition"))
    tokens = [*automaton.actions, *NAMES]
    found = worst_sequence(automaton, predictor, 3, tokens=tokens)
    best = 0.0
    observed = [(token, value) for token in tokens for value in ("123" if token in NAMES else [""])]
    for history in words_of(observed, repeat=3):
        with contextlib.suppress(InputError):  # what cannot be shown
            best = max(best, sum(sequence_errors(automaton, predictor, history)))
    assert found.total == pytest.approx(best, rel=1e-12)
    assert worst_sequence(automaton, predictor, 3, beam=20, tokens=tokens).total <= found.total + 1e-12


def test_the_fastest_decay_is_the_sequence_that_underflows_first() -> None:
    """2⁻²⁵ is 0 in float16: 25 log 2 / log 10 = 7.5 unlikely values, where it takes 107 likely ones."""
    automaton = noisy_parity(0.1)
    chain = belief_chain(automaton, TokenSource.fixed_period(automaton, 1))
    assert chain is not None
    predictor = LinearPredictor(automaton, torch.float16)
    worst = worst_decay(chain)
    errors = {}
    for name, pairs in {"worst": worst.cycle, "likely": [(1, -1), (2, 1), (1, -1), (2, 0)]}.items():
        pairs = [*(worst.approach if name == "worst" else ()), *pairs]
        tail = worst.cycle if name == "worst" else pairs
        history = [
            (automaton.token_names[token], automaton.value_names["parity"][value] if value >= 0 else "")
            for token, value in [*pairs, *(list(tail) * 12)]
        ]
        errors[name] = np.array(sequence_errors(automaton, predictor, history))
    uniform = divergence([0.1, 0.9], [0.5, 0.5])
    first = int((errors["worst"] > 0.9 * uniform).argmax())
    assert 7 <= first <= 9
    # the smaller mass goes first, and what it stands for is held for impossible; then nothing is left
    assert errors["worst"][first] == float("inf")
    np.testing.assert_allclose(errors["worst"][first + 1 :], uniform, rtol=1e-12)
    assert (errors["likely"] < 1e-3).all()


def test_what_was_held_for_impossible_ends_the_search() -> None:
    class Sure(LinearPredictor):
        def probabilities(self, state, token):  # type: ignore[no-untyped-def]
            return np.array([1.0, 0.0])

    automaton = noisy_parity(0.1)
    worst = worst_sequence(automaton, Sure(automaton, torch.float64), 5)
    assert worst.total == float("inf")
    assert len(worst.observations) == 2


def test_theorem_9_every_function_of_the_marginals_is_wrong_again_and_again() -> None:
    found = marginal_scope(TURNS, NAMES, 3).confusion
    assert found is not None
    assert confusion_radius(found) == pytest.approx(np.log(5 / 4), rel=1e-12)
    for rule in ("condition", "balance"):
        predictor = MarginalPredictor(MarginalFilter(TURNS, NAMES, rule))
        rounds: list[tuple[str, str]] = []
        for number in range(6):
            costs = {}
            for history in (found.first, found.second):
                # values are renamed by where the last round has left them; then all three are shown
                for asked in ("variable 2", "variable 3"):
                    start = rounds if number else []
                    value = start[-3][1] if start else "1"
                    trial = [*start, *history, ("variable 1", value), (asked, "")]
                    costs[tuple(trial)] = sequence_errors(TURNS, predictor, trial)[-1]
            worst = max(costs, key=lambda trial: costs[trial])
            assert costs[worst] >= np.log(5 / 4) - 1e-12
            shown = worst[-2][1]
            rest = [value for value in "123" if value != shown]
            for second in (rest, rest[::-1]):
                trial = [*worst[:-1], ("variable 2", second[0]), ("variable 3", second[1])]
                # the arrangement is known then; of the two orders one may be impossible
                try:
                    sequence_errors(TURNS, predictor, [*trial, ("variable 1", shown)])
                except InputError:
                    continue
                rounds = [*trial[:-2], ("variable 1", shown), *trial[-2:]]
                break


def test_the_radius_is_the_minimum_over_all_predictions() -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        r, other = rng.dirichlet(np.ones(3), size=2)
        radius = divergence_radius(r, other)
        grid = rng.dirichlet(np.ones(3), size=4000)
        assert all(max(divergence(r, q), divergence(other, q)) >= radius - 1e-12 for q in grid)
    assert divergence_radius(r, r) == 0
    assert divergence_radius([1, 0], [0, 1]) == pytest.approx(np.log(2), rel=1e-12)


THREE = lazy_swaps(3)
BALANCED = MarginalPredictor(MarginalFilter(THREE, NAMES, "balance"))
test_bad_input = refusals(
    (lambda: worst_sequence(THREE, BALANCED, 0), "length is 0"),
    (lambda: worst_sequence(THREE, BALANCED, 2, beam=0), "beam is 0"),
    (lambda: worst_sequence(THREE, BALANCED, 1), "reveal 'all' is none of the variables"),
    (lambda: sequence_errors(THREE, BALANCED, [("variable 1", "2")]), "history shows '2' at position 0"),
)
