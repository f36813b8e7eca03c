"""The statements of docs/error_control.md, in exact arithmetic: symbols, fractions and integers."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
import sympy as sp
import torch

from automata.errors import InputError
from automata.monoids.groups import symmetric_group
from tests.refusals import refusals
from theory.constructions.automaton import ssm_of_automaton
from theory.constructions.error_control import AffineMap, errors_that_confuse, kept_errors, map_of_word
from theory.constructions.linear_recurrences import householder_product, householder_vectors

OMEGA = [[0, -1], [1, -1]]
"""exp(2πi/3), as it multiplies a + bω: a complex diagonal entry in rational numbers."""


def arrangements(size: int) -> tuple[dict[int, AffineMap], list[tuple[int, ...]]]:
    """DeltaProduct on Sₙ: every element as a product of integer reflections; the codes are arrangements."""
    images = list(permutations(range(size)))
    maps = {
        number: AffineMap.of(householder_product(householder_vectors(image)).tolist())
        for number, image in enumerate(images)
    }
    return maps, list(permutations([1, 2, 4, 8, 16][:size]))


def turned(maps: dict[int, AffineMap], codes: list[tuple[int, ...]]) -> dict[int, AffineMap]:
    """The same layer in skew coordinates, moved: A ← T A T⁻¹, with codes T c + s; no matrix is orthogonal."""
    size = len(codes[0])
    skew = sp.Matrix(size, size, lambda i, j: (2 if i == j else 1) if j >= i else 0)
    shift = sp.Matrix([3, *[1] * (size - 1)])
    result = {}
    for token, one in maps.items():
        matrix = skew * sp.Matrix(one.matrix) * skew.inv()
        offset = shift - matrix * shift
        result[token] = AffineMap.of(
            [[Fraction(str(entry)) for entry in matrix.row(i)] for i in range(size)],
            [Fraction(str(entry)) for entry in offset],
        )
    return result


def moved(codes: list[tuple[int, ...]]) -> list[tuple[Fraction, ...]]:
    size = len(codes[0])
    shift = [3, *[1] * (size - 1)]
    return [tuple(Fraction(code[i] + sum(code[i:]) + shift[i]) for i in range(size)) for code in codes]


@pytest.mark.parametrize("seed", range(10))
def test_small_errors_turn_a_run_into_any_other(seed: int) -> None:
    """Every affine layer, also one that forgets: after K errors the state is that of the other run."""
    rng = np.random.default_rng(seed)
    a, b, c, d, start, other = (
        [Fraction(int(number), 6) for number in rng.integers(-18, 19, size)] for size in (4, 2, 4, 2, 2, 2)
    )
    maps = {"x": AffineMap.of([a[:2], a[2:]], b), "y": AffineMap.of([c[:2], c[2:]], d)}
    word = "xyyxx"
    state = tuple(start)
    runs = (tuple(start), tuple(other))
    for token, error in zip(word, errors_that_confuse(maps, word, start, other), strict=True):
        runs = (maps[token](runs[0]), maps[token](runs[1]))
        assert error == tuple((q - p) / 5 for p, q in zip(*runs, strict=True))
        state = tuple(p + q for p, q in zip(maps[token](state), error, strict=True))
    assert state == runs[1] == map_of_word(maps, word)(other)


@pytest.mark.parametrize("skewed", [False, True], ids=["reflections", "in skew coordinates"])
@pytest.mark.parametrize("size", [3, 4])
def test_reflections_that_return_codes_correct_nothing_between_them(size: int, skewed: bool) -> None:
    """Words of product 1: A_w is the identity on the span of the differences, n − 1 dimensions."""
    maps, codes = arrangements(size)
    points: list[tuple[int, ...]] | list[tuple[Fraction, ...]] = codes
    if skewed:
        maps, points = turned(maps, codes), moved(codes)
    group = symmetric_group(size)
    rng = np.random.default_rng(size)
    for length in (1, 2, 5, 17):
        word = rng.integers(0, len(maps), length).tolist()
        word.append(group.inverses[group.multiply(*word)])
        word_map = map_of_word(maps, word)
        kept = kept_errors(word_map, points)
        assert kept.dimension == size - 1
        assert kept.fixed_dimension == size  # the mean of the entries is left alone as well
        error = [Fraction(int(n), 7) for n in rng.integers(-9, 9, size - 1)]
        along = [
            sum(n * v for n, v in zip(error, column, strict=True)) for column in zip(*kept.basis, strict=True)
        ]
        for point in points[:3]:
            start = tuple(p + e for p, e in zip(point, along, strict=True))
            assert word_map(start) == start


def test_a_decay_outside_of_the_span_is_allowed_and_inside_it_is_not() -> None:
    """With a decay α < 1 no two codes come back; an entry in which no codes differ may decay."""
    swap: list[list[int | Fraction]] = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, Fraction(1, 2)]]
    codes = [(*code, 0) for code in permutations([1, 2, 4])]
    kept = kept_errors(AffineMap.of(swap).then(AffineMap.of(swap)), codes)
    assert (kept.dimension, kept.fixed_dimension) == (2, 3)
    gated = AffineMap.of([[Fraction(9, 10) * entry for entry in row] for row in swap])
    with pytest.raises(InputError, match="code 0 is moved"):
        kept_errors(gated.then(gated), codes)
    # What does not follow: a word that returns one state says nothing, and affine resets forget errors.
    write = AffineMap.of([[0]], [1])
    kept = kept_errors(write, [(1,)])
    assert (kept.dimension, kept.fixed_dimension) == (0, 0)
    assert write([Fraction(7, 5)]) == (Fraction(1),)


@pytest.mark.parametrize(("order", "turn"), [(2, [[-1, 0], [0, -1]]), (3, OMEGA), (4, [[0, -1], [1, 0]])])
def test_complex_diagonals_that_count_correct_nothing(order: int, turn: list[list[int]]) -> None:
    """λ a root of unity, with a drive: the word xᵐ returns all codes, and keeps both real directions of ℂ."""
    step = AffineMap.of(turn, [1, 2])
    codes: list[tuple[Fraction, ...]] = [(Fraction(5), Fraction(-3))]
    for _ in range(order - 1):
        codes.append(step(codes[-1]))
    word_map = map_of_word({"x": step}, "x" * order)
    kept = kept_errors(word_map, codes)
    assert len(set(codes)) == order
    assert kept.dimension == min(order - 1, 2)  # with two states the codes lie on a line
    assert kept.fixed_dimension == 2
    assert word_map == AffineMap.of([[1, 0], [0, 1]])


def test_several_codes_per_state_come_back_after_a_power_of_the_word() -> None:
    """The word exchanges two codes of one state and of the other; its square returns all four."""
    word_map = AffineMap.of([[1, 0], [0, -1]])
    codes = [(0, 1), (0, -1), (5, 1), (5, -1)]
    with pytest.raises(InputError, match="code 0 is moved"):
        kept_errors(word_map, codes)
    assert kept_errors(word_map.then(word_map), codes).dimension == 2


def test_independent_errors_add_up_like_a_random_walk_exactly() -> None:
    """The mean squared norm after t tokens is t σ² dim V, for every word; a contraction bounds it."""
    maps, codes = arrangements(3)
    for one, other in product(maps.values(), repeat=2):
        assert one.then(other)((1, 2, 4)) == other(one((1, 2, 4)))
    maps, points = turned(maps, codes), moved(codes)
    span = sp.Matrix(kept_errors(maps[0], points).basis).T
    gram = sum((sp.Matrix(one.matrix).T * sp.Matrix(one.matrix) for one in maps.values()), sp.zeros(3, 3))
    on_span = (span.T * gram * span).inv()  # covariance σ² = 1 in the invariant norm, in coordinates of V
    one_error = span * on_span * span.T
    covariance = sp.zeros(3, 3)
    for number, token in enumerate(np.random.default_rng(1).integers(0, 6, 40).tolist(), start=1):
        block = sp.Matrix(maps[token].matrix)
        covariance = block * covariance * block.T + one_error
        assert covariance == number * one_error
        assert (gram * covariance).trace() == number * 2
    rate, variance = Fraction(3, 4), Fraction(0)
    for _ in range(40):
        variance = rate**2 * variance + 1
        assert variance < 1 / (1 - rate**2)


@pytest.mark.parametrize("size", [3, 4])
def test_the_implicit_ssm_of_an_automaton_shrinks_errors_by_lambda(size: int) -> None:
    """c(q) + e goes to c(δ(q, x)) + λe for all q and x: the nearest code is c(q) while |eᵢ| < 1/2."""
    table = symmetric_group(size).table
    states, tokens = table.shape
    layer = ssm_of_automaton(table, dtype=torch.float64)
    codes = torch.eye(states, dtype=torch.float64)
    # multiples of 1/32, so that float64 does not round
    errors = torch.from_numpy(np.random.default_rng(size).integers(-15, 16, (states, states)) / 32)
    for token in range(tokens):
        after = layer.step(codes + errors, torch.full((states,), token))
        following = codes[torch.from_numpy(table[:, token].copy())]
        assert torch.equal(after - following, 0.25 * errors)


def test_an_expanding_layer_withstands_errors_without_bounds() -> None:
    """λ = ±2 and the sign of h: parity with errors just below 1, all against it, exact and in float32."""
    exact, state, parity = Fraction(1), np.float32(1), 0
    for number, bit in enumerate(np.random.default_rng(1).integers(0, 2, 10_000).tolist(), start=1):
        parity ^= bit
        with np.errstate(over="ignore"):
            state = np.float32(-2 if bit else 2) * state
        state -= np.copysign(np.float32(0.99), state)
        assert (state < 0) == parity
        # ±∞ has the sign of parity too: overflow corrects, as no affine map does
        assert np.isfinite(state) or number >= 128
        if number <= 300:
            exact *= -2 if bit else 2
            exact -= Fraction(99, 100) * (1 if exact > 0 else -1)
            assert (exact < 0) == parity
    assert np.isinf(state)


test_numbers_that_do_not_fit_are_refused = refusals(
    (lambda: AffineMap.of([[1, 2]], [0]), "matrix has rows of"),
    (lambda: map_of_word({"x": AffineMap.of([[1]])}, "xz"), "holds 'z', which has no map"),
    (lambda: errors_that_confuse({"x": AffineMap.of([[1]])}, "", [0], [1]), "word is empty"),
    (lambda: kept_errors(AffineMap.of([[1]]), []), "codes is empty"),
)
