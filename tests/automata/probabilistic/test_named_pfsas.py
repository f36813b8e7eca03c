import numpy as np
import pytest

from automata.monoids.groups import symmetric_group
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from tests.refusals import refusals


def test_certain_swaps_are_the_word_problem_of_s5() -> None:
    S5 = symmetric_group(5)
    automaton = lazy_swaps(5, probability=1.0)
    assert automaton.states == S5.element_names
    tokens = np.random.default_rng(1).integers(0, 10, size=(20, 15))
    states, _ = automaton.sample(tokens, np.random.default_rng(2))
    for sequence, labels in zip(tokens, states, strict=True):
        product = S5.identity
        for token, label in zip(sequence, labels, strict=True):
            i, j = (int(digit) for digit in automaton.actions[token].split()[1:])
            swap = [1, 2, 3, 4, 5]
            swap[i - 1], swap[j - 1] = swap[j - 1], swap[i - 1]
            product = S5.multiply(product, S5.index("".join(map(str, swap))))
            assert label == product


def test_reveals_of_lazy_swaps() -> None:
    automaton = lazy_swaps(4, swaps=[(1, 2), (2, 3)])
    assert automaton.actions == ("swap 1 2", "swap 2 3")
    assert automaton.is_full("all")
    assert not automaton.is_full("variable 1")
    for variable in range(4):
        values = automaton.value_names[f"variable {variable + 1}"]
        readings = automaton.readings[1 + variable]
        assert [values[reading] for reading in readings] == [state[variable] for state in automaton.states]


@pytest.mark.parametrize("failure", [0.0, 0.1, 0.5, 1.0])
def test_noisy_parity_closed_form(failure: float) -> None:
    automaton = noisy_parity(failure)
    ones = np.arange(1, 31)
    odd = automaton.beliefs(np.ones(30, dtype=int), np.full(30, -1))[:, 1]
    # thirty products of float64 numbers of at most 1
    np.testing.assert_allclose(odd, (1 - (2 * failure - 1.0) ** ones) / 2, rtol=0, atol=1e-14)


test_bad_input_is_refused = refusals(
    (lambda: lazy_swaps(7), "variables is 7"),
    (lambda: lazy_swaps(3, 1.5), r"probability is 1\.5"),
    (lambda: lazy_swaps(3, swaps=[(2, 1)]), r"swaps holds \(2, 1\)"),
    (lambda: noisy_parity(-1), "failure_probability is -1"),
)
