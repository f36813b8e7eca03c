from collections.abc import Callable
from fractions import Fraction
from operator import add, sub

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from automata.machines.named_dfas import flip_flop_dfa, parity_dfa
from automata.monoids.groups import alternating_group, symmetric_group
from automata.tasks.word_problem import WordProblem
from tests.refusals import refusals
from theory import check_theorem1
from theory.constructions import (
    decode_states,
    relu_rnn_of_automaton,
    ssm_of_automaton,
    ssm_of_rnn,
)
from theory.constructions.automaton import Encoding

IntArray = NDArray[np.int64]


def random_table(states: int, tokens: int, seed: int, *, group: bool = False) -> IntArray:
    rng = np.random.default_rng(seed)
    if group:
        return np.stack([rng.permutation(states) for _ in range(tokens)], axis=1)
    return rng.integers(states, size=(states, tokens))


TABLES = {
    "parity": parity_dfa().table,
    "A5": alternating_group(5).table,
    "S5": symmetric_group(5).table,
    "random maps of 200 states": random_table(200, 4, seed=0),
    "random permutations of 200 states": random_table(200, 3, seed=1, group=True),
}


def words_and_states(table: IntArray, batch: int, length: int, initial: int = 0) -> tuple[IntArray, IntArray]:
    names = [str(q) for q in range(len(table))]
    problem = WordProblem(table, initial, [str(a) for a in range(table.shape[1])], names)
    return problem.sample(batch, length, np.random.default_rng(2))


@pytest.mark.parametrize("name", TABLES)
def test_sequential_mode_is_exact_on_long_words(name: str) -> None:
    table = TABLES[name]
    words = 100
    tokens, expected = words_and_states(table, words, length=1000)
    ssm = ssm_of_automaton(table, encoding="number")
    state = ssm.initial.expand(words, -1)
    wrong = torch.zeros((), dtype=torch.int64)
    for token, target in zip(*(torch.from_numpy(each.T.copy()) for each in (tokens, expected)), strict=True):
        state = ssm.step(state, token)
        wrong += (state[:, 0] != target).sum()  # equality of numbers: the code itself, not the nearest one
    assert wrong == 0


@pytest.mark.parametrize("decay", [1.0, 0.5, 0.25])
@pytest.mark.parametrize("name", ["parity", "A5"])
def test_simultaneous_mode_with_one_hot_codes(name: str, decay: float) -> None:
    """λ = 1 and 1/2 leave what earlier sweeps wrote; the prefix that is right grows all the same."""
    table = TABLES[name]
    tokens, expected = words_and_states(table, 4, 256 if decay == 1 else 48)
    result = ssm_of_automaton(table, decay=decay).solve(torch.from_numpy(tokens))
    assert result.converged.all()
    assert torch.equal(result.states, torch.eye(len(table))[torch.from_numpy(expected)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("decay", [1.0, 0.5, 0.25, 2.0**-7])
def test_one_step_from_every_state_is_exact_so_every_length_is(dtype: torch.dtype, decay: float) -> None:
    """The induction step, by exhaustion: all (state, token), from several starts of the iteration."""
    table = random_table(23, 3, seed=3)
    states, tokens = (torch.from_numpy(index).reshape(-1) for index in np.indices(table.shape))
    unit = torch.eye(23, dtype=dtype)
    ssm = ssm_of_automaton(table, decay=decay, dtype=dtype)
    for start in (torch.zeros_like(unit[states]), unit[(states + 5) % 23]):
        assert torch.equal(
            ssm.step(unit[states], tokens, start), unit[torch.from_numpy(table)[states, tokens]]
        )


@pytest.mark.parametrize("decay", [Fraction(1), Fraction(1, 4), Fraction(1, 128)])
def test_the_same_step_in_rational_arithmetic_needs_eight_bits(decay: Fraction) -> None:
    table = random_table(7, 3, seed=4)
    units = [[Fraction(int(q == i)) for i in range(7)] for q in range(7)]
    met: list[Fraction] = []

    def each(operation: Callable[..., Fraction], *vectors: list[Fraction]) -> list[Fraction]:
        met.extend(result := [operation(*entries) for entries in zip(*vectors, strict=True)])
        return result

    for (state, token), target in np.ndenumerate(table):
        for guess in range(7):
            carried, drive, kept = (
                each(lambda e: decay * e, units[state]),
                each(sub, units[table[guess, token]], each(lambda e: decay * e, units[guess])),
                each(sub, units[int(target)], each(lambda e: decay * e, units[state])),
            )
            latent = each(lambda e: e / decay, each(sub, each(add, carried, drive), drive))
            assert latent == units[state]
            assert each(add, carried, kept) == units[int(target)]
    for number in set(met):
        # an odd integer below 2⁸ times a power of two: exact with the 8-bit significand of bfloat16
        odd = abs(number.numerator)
        assert odd == 0 or odd // (odd & -odd) < 2**8
        assert number.denominator & (number.denominator - 1) == 0


@pytest.mark.parametrize("encoding", ["one-hot", "number"])
@pytest.mark.parametrize("name", ["parity", "A5", "random maps of 200 states", "flip-flop"])
def test_sweeps_are_those_of_jacobi_iteration(name: str, encoding: Encoding) -> None:
    """Every sweep of the SSM against one on the transition table alone."""
    table = flip_flop_dfa().table if name == "flip-flop" else TABLES[name]
    tokens, expected = words_and_states(table, 4, 48)
    ssm = ssm_of_automaton(table, encoding=encoding)
    before = np.zeros((4, 48), dtype=np.int64)
    latents = ssm.initial.expand(4, 48, -1)
    for _ in range(48):
        latents, states = ssm.sweep(latents, torch.from_numpy(tokens))
        after = table[before, tokens]
        np.testing.assert_array_equal(decode_states(states, len(table)), after)
        before[:, 1:] = after[:, :-1]
    np.testing.assert_array_equal(after, expected)


@pytest.mark.parametrize("name", ["parity", "random maps of 12 states"])
def test_relu_rnn_is_the_automaton_in_torch_and_as_implicit_ssm(name: str) -> None:
    table = parity_dfa().table if name == "parity" else random_table(12, 3, seed=6)
    rnn, start = relu_rnn_of_automaton(table, initial=1)
    tokens, expected = words_and_states(table, 8, 500, initial=1)
    inputs = torch.eye(table.shape[1], dtype=torch.float64)[torch.from_numpy(tokens)]
    with torch.no_grad():
        by_torch, _ = rnn(inputs, start.expand(1, 8, -1).contiguous())
    pairs = by_torch.unflatten(-1, table.shape)
    assert torch.equal(pairs.sum(-1).argmax(-1), torch.from_numpy(expected))
    # integers below 4 in float64: no rounding, so equality is meant
    assert torch.equal(ssm_of_rnn(rnn, start).run(inputs), by_torch)


def test_the_transition_of_the_relu_form_satisfies_theorem_1() -> None:
    """J has the row 2 [q' = δ(p, a)] at the active unit: not diagonal, and another row at another state."""
    table = random_table(3, 2, seed=7, group=True)
    rnn, start = relu_rnn_of_automaton(table)
    ssm = ssm_of_rnn(rnn, start)
    token = torch.tensor([0.0, 1.0], dtype=torch.float64)
    visited = [{"h": row} for row in torch.eye(6, dtype=torch.float64)[::2]]
    report = check_theorem1(ssm.transition(token), visited)
    assert report.verdict.value == "holds", report.reasons


@pytest.mark.parametrize(("token", "differ"), [(0, True), (1, False)], ids=["keep", "write"])
def test_the_relu_form_is_affine_at_its_states_where_a_token_leads_all_to_one(
    token: int, differ: bool
) -> None:
    """The row of J that is not 0 is that of the unit which becomes active: after a write always the same."""
    rnn, _ = relu_rnn_of_automaton(flip_flop_dfa().table)
    symbol = torch.eye(3, dtype=torch.float64)[token]

    def step(state: torch.Tensor) -> torch.Tensor:
        return rnn(symbol[None, None], state[None, None])[1][0, 0]

    slopes = [torch.autograd.functional.jacobian(step, unit) for unit in torch.eye(6, dtype=torch.float64)]
    assert all(bool((slope - slope.diag().diag()).any()) for slope in slopes)
    # units 0 to 2 are those of state 0
    assert torch.equal(slopes[0], slopes[3]) is not differ


def test_the_transition_of_the_lookup_form_does_not_and_tracks_all_the_same() -> None:
    """Decoding is locally constant: J = λ I at every state. Jumps track, not derivatives."""
    ssm = ssm_of_automaton(random_table(3, 2, seed=7, group=True), dtype=torch.float64)
    visited = [{"h": row} for row in torch.eye(3, dtype=torch.float64)]
    report = check_theorem1(ssm.transition(torch.tensor(1)), visited)
    assert report.kind.value == "non-diagonal and non-linear"
    assert all("Theorem 1 does not speak of it" in reason for reason in report.reasons)
    layers = [layer for check in report.checks for layer in check.layers]
    assert all(layer.off_diagonal_mass == 0 and layer.nonlinearity == 0 for layer in layers)


PARITY = ssm_of_automaton([[0, 1], [1, 0]])
NO_TOKENS = "tokens holds numbers from"
test_bad_input = refusals(
    (lambda: ssm_of_automaton([[0, 2], [1, 0]]), "table holds 2; give numbers of states, 0 … 1"),
    (lambda: ssm_of_automaton([0, 1]), "table has shape"),
    (lambda: ssm_of_automaton([[0, 1], [1, 0]], 2), "initial holds 2"),
    (lambda: ssm_of_automaton([[0, 1], [1, 0]], 0, 0.3), "decay is 0.3; give a power of two"),
    (lambda: ssm_of_automaton([[0, 1], [1, 0]], 0, 2.0**-8), "decay is 0.00390625; give a power of two"),
    (
        lambda: ssm_of_automaton([[0, 1], [1, 0]], encoding="number", dtype=torch.float16),
        "encoding is 'number' with 2 states in torch",
    ),
    (lambda: PARITY.run(torch.tensor([[0, 2]])), NO_TOKENS),
    (lambda: PARITY.run(torch.tensor([[0, -1]])), NO_TOKENS),
    (lambda: PARITY.run(torch.tensor([[0.0, 1.0]])), NO_TOKENS),
    (lambda: PARITY.solve(torch.tensor([[0, 2]])), NO_TOKENS),
)
