"""The confusions of docs/what_can_be_tracked.md, each for all parameters of its class, or in hardware."""

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
import torch

from automata.errors import InputError
from automata.monoids.groups import symmetric_group
from theory.constructions.linear_recurrences import (
    commutator_gap,
    commutator_words,
    diagonal_state,
    eventual_cycle,
)

POSITIVE = [Fraction(4 + bits, 4) * Fraction(2) ** exponent for exponent in (-2, -1, 0) for bits in range(4)]
SMALL_FLOATS = sorted([-value for value in POSITIVE] + [Fraction(0)] + POSITIVE)
"""A floating-point format with two bits after the leading one, three exponents and zero: 25 numbers."""


def rounded(value: Fraction) -> int:
    """Round to nearest, ties to the smaller; beyond the ends to the end. Monotone, like hardware."""
    return min(range(25), key=lambda index: (abs(SMALL_FLOATS[index] - value), index))


def test_no_real_diagonal_counts_modulo_three_in_a_small_format_by_exhaustion() -> None:
    """All λ, beyond 1 too, all u and all h₀ of the format: periods 1 for λ ≥ 0, and 1 or 2 for λ < 0."""
    total_of = np.array([[rounded(a + b) for b in SMALL_FLOATS] for a in SMALL_FLOATS])
    longest = 0
    for decay in SMALL_FLOATS:
        scaled = np.array([rounded(decay * value) for value in SMALL_FLOATS])
        for drive in range(25):
            step = total_of[scaled, drive]
            orbit = np.arange(25)
            for _ in range(25):  # every orbit has met its cycle by then
                orbit = step[orbit]
            period = 1 + int((step[orbit] != orbit).any())
            assert (step[step[orbit]] == orbit).all()
            assert period == 1 or decay < 0
            longest = max(longest, period)
    assert longest == 2  # parity is possible, so the bound is attained


def test_ones_beyond_the_numbers_of_float16_are_confused_by_every_nonnegative_diagonal() -> None:
    """1ᴺ and 1ᴺ⁺¹ with N = 63,487, the count of finite float16 values; also through a second layer."""
    values = FLOAT16_PATTERNS.astype(np.float64)
    assert (len(values), len(np.unique(values))) == (63_488, 63_487)  # two patterns are zero
    rng = np.random.default_rng(0)
    decay = np.concatenate([rng.random(500), 1 - 10 ** rng.uniform(-4, 0, 500), [1.0, 1.0, 0.9995, 0.0]])
    drive = np.concatenate([rng.normal(size=1000) * 10 ** rng.uniform(-6, 0, 1000), [1.0, 6e-8, 6e-8, 1.0]])
    decay, drive = decay.astype(np.float16), drive.astype(np.float16)
    state = np.zeros((2, len(decay)), dtype=np.float16)
    largest = np.finfo(np.float16).max

    def advance(state: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            first = np.clip(decay * state[0] + drive, -largest, largest)
            # the second layer reads the first, its factors depending on it too
            second = np.clip(np.abs(np.tanh(first)) * state[1] + first, -largest, largest)
        return np.stack([first, second])

    steps = 0
    while steps < 63_487:
        following = advance(state)
        if (following == state).all():
            break
        state, steps = following, steps + 1
    assert 1000 < steps < 63_487  # the slowest of these models still tells lengths apart for that long
    assert (advance(state) == state).all()


def test_the_sign_of_zero_tracks_parity_as_no_value_does() -> None:
    """λ(1) = u(1) = −0.0 and λ(0) = 1, u(0) = −0.0 in float16: why Proposition 1 speaks of values."""
    rng = np.random.default_rng(0)
    word = rng.integers(0, 2, 100_000)
    decays, drives = np.array([1.0, -0.0], np.float16), np.array([-0.0, -0.0], np.float16)
    assert (decays >= 0).all()
    state, signs, values = np.float16(0.0), [], set()
    for token in word:
        state = np.float16(decays[token] * state) + drives[token]
        signs.append(bool(np.signbit(state)))
        values.add(float(state))
    assert (np.array(signs) == word.cumsum() % 2).all()
    assert values == {0.0}


def test_float16_is_monotone_with_the_zeros_in_order() -> None:
    """All 63,488 numbers, −0 before +0: multiplication by the sign bit of λ, addition always upwards."""
    rng = np.random.default_rng(0)
    chosen = rng.choice(FLOAT16_PATTERNS, 150)
    special = np.array([0.0, -0.0, 1.0, -1.0, 6e-8, -6e-8, 65504.0, -65504.0, 0.5, -0.5], np.float16)
    for constant in np.concatenate([chosen, special]):
        with np.errstate(over="ignore"):
            scaled, moved = constant * FLOAT16_PATTERNS, FLOAT16_PATTERNS + constant
        steps = np.diff(place_in_order(scaled)) * (-1 if np.signbit(constant) else 1)
        assert (steps >= 0).all(), constant
        assert (np.diff(place_in_order(moved)) >= 0).all(), constant


def place_in_order(numbers: np.ndarray) -> np.ndarray:
    """The place of a float16 in the order with −0 before +0 and infinities at the ends."""
    bits = numbers.view(np.uint16).astype(np.int64)
    return np.where(bits < 1 << 15, bits, (1 << 15) - 1 - bits)


FLOAT16_PATTERNS = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FLOAT16_PATTERNS = FLOAT16_PATTERNS[np.isfinite(FLOAT16_PATTERNS)]
FLOAT16_PATTERNS = FLOAT16_PATTERNS[np.argsort(place_in_order(FLOAT16_PATTERNS))]


def test_the_decay_of_mamba_keeps_and_writes_by_rounding_only() -> None:
    """exp(ΔA) is 1 or 0 in float32 only; with exact decays inside (0, 1) a memory fades."""
    rates = torch.tensor([2.0**-26, 2.0**-24, 104.0, 86.0])
    assert torch.exp(-rates).tolist() == [1.0, 1 - 2.0**-24, 0.0, pytest.approx(4.47e-38, rel=1e-2)]
    decays = {"keep": Fraction(7, 8), "0": Fraction(1, 9), "1": Fraction(1, 9)}
    drives = {"keep": 0, "0": 0, "1": 1}
    for repeats in (1, 10, 100):
        one, other = (
            diagonal_state([write] + ["keep"] * repeats, decays, drives, Fraction(5)) for write in "10"
        )
        assert one - other == Fraction(7, 8) ** repeats


def test_period_of_real_diagonals_doubles_with_every_layer() -> None:
    """Two layers in [−1, 1] reach period 4, so powers of two are what they count modulo."""

    def step(state: tuple[int, int]) -> tuple[int, int]:
        # λ₁ = −1, u₁ = 1; then λ₂ = 1 − 2 h₁, u₂ = h₁: the second flips when the first is 1
        return 1 - state[0], state[1] * (1 - 2 * state[0]) + state[0]

    assert eventual_cycle(step, (0, 0)) == (0, 4)
    with pytest.raises(InputError, match="limit is 10 steps"):
        eventual_cycle(lambda n: n + 1, 0, limit=10)


def test_the_gap_of_commuted_tokens_for_all_parameters() -> None:
    """A polynomial identity in λ, u and h₀: no choice of complex parameters escapes it."""
    names = ["g", "k", "v", "w"]
    decays = {name: sp.Symbol(f"lambda_{name}") for name in names}
    drives = {name: sp.Symbol(f"u_{name}") for name in names}
    initial = sp.Symbol("h_0")
    for repeats in range(4):
        one, other = commutator_words("g", "k", ["v", "w"], repeats)
        gap = diagonal_state(one, decays, drives, initial) - diagonal_state(other, decays, drives, initial)
        assert sp.expand(gap - commutator_gap("g", "k", ["v", "w"], repeats, decays, drives)) == 0


def test_two_centres_of_rotation_make_states_run_away() -> None:
    """λ_g = i, λ_k = −1 about different points: (g k g³ k)ᴹ translates by −2M(1 + i)(p_g − p_k)."""
    decays = {"g": sp.I, "k": sp.Integer(-1)}
    centre_g, centre_k, initial = sp.symbols("p_g p_k h_0")
    drives = {"g": (1 - sp.I) * centre_g, "k": 2 * centre_k}
    word = ["g", "k", "g", "g", "g", "k"]
    assert sp.expand(diagonal_state("gggg", decays, drives, initial) - initial) == 0
    for repeats in range(1, 4):
        moved = diagonal_state(word * repeats, decays, drives, initial) - initial
        assert sp.expand(moved + repeats * 2 * (1 + sp.I) * (centre_g - centre_k)) == 0


def test_one_reflection_a_token_cannot_count_modulo_three_for_all_parameters() -> None:
    """Along its vector a Householder step is scalar: cᴺ⁺² − cᴺ is λᴺ (λ + 1) ((λ − 1) h₀ + b)."""
    decay, drive, initial = sp.symbols("lambda b h_0")
    for length in range(5):
        ahead = diagonal_state("c" * (length + 2), {"c": decay}, {"c": drive}, initial)
        behind = diagonal_state("c" * length, {"c": decay}, {"c": drive}, initial)
        expected = decay**length * (decay + 1) * ((decay - 1) * initial + drive)
        assert sp.expand(ahead - behind - expected) == 0


def test_merging_two_of_three_points_that_are_permuted_needs_norm_above_one() -> None:
    """The codes are an equilateral triangle; the linear part of 1→1, 2→2, 3→2 on its plane is forced."""
    corner = torch.eye(3, dtype=torch.float64)
    before = torch.stack([corner[0] - corner[1], corner[2] - corner[1]])
    after = torch.stack([corner[0] - corner[1], torch.zeros(3, dtype=torch.float64)])
    plane = torch.linalg.qr(before.T)[0]
    forced = torch.linalg.solve(before @ plane, after @ plane)
    # closed form 2/√3: the direction 1 − 2 keeps its length while its part along 3 − 2 is lost
    assert torch.linalg.matrix_norm(forced, ord=2).item() == pytest.approx(2 / 3**0.5, abs=1e-14)


def test_s3_confuses_a_diagonal_model_that_forgets() -> None:
    """The words have different products in S3; the states of a random model with |λ| = 0.999 meet."""
    group = symmetric_group(3)
    swap, turn = group.index("213"), group.index("231")
    rng = np.random.default_rng(0)
    decays = {name: 0.999 * np.exp(2j * np.pi * rng.random(8)) for name in "gke"}
    drives = {name: rng.normal(size=8) for name in "gke"}
    one, other = commutator_words("g", "k", ["e"], 60_000)
    elements = {"g": swap, "k": turn, "e": group.identity}
    assert group.multiply(*(elements[x] for x in one)) != group.multiply(*(elements[x] for x in other))
    apart = diagonal_state(one, decays, drives, 0.0) - diagonal_state(other, decays, drives, 0.0)
    # exactly 1e-26 (0.999⁶⁰⁰⁰⁰) times a number of order 1; rounding, 1e-16 per step over 1000, adds 1e-13
    assert np.abs(apart).max() < 1e-12


def test_a_memory_is_tracked_by_a_diagonal_in_zero_one() -> None:
    """Flip-flop: λ = 1 keeps, λ = 0 with u writes; exact, one explicit layer."""
    rng = np.random.default_rng(0)
    word = rng.choice(["keep", "write 0", "write 1"], size=3000, p=[0.9, 0.05, 0.05])
    decays, drives = {"keep": 1, "write 0": 0, "write 1": 0}, {"keep": 0, "write 0": 0, "write 1": 1}
    held, state = 0, 0
    for token in word:
        held = held if token == "keep" else int(token[-1])
        state = diagonal_state([token], decays, drives, state)
        assert state == held


ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "what_can_be_tracked.md").read_text(encoding="utf-8")
ERRORS_PAGE = (ROOT / "docs" / "error_control.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE + ERRORS_PAGE, flags=re.DOTALL))
def test_the_code_of_the_page_runs(code: str) -> None:
    exec(code, {})
