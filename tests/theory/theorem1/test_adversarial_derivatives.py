"""The word that `check_theorem1` finds for derivatives that are wrong, of Φ and of G, and well hidden."""

import pytest
import torch
from torch import Tensor

from tests.theory.theorem1.adversarial import (
    BOTH,
    HALF,
    OPEN,
    OWN,
    SIZE,
    WIDE,
    WIDE_W,
    Case,
    W,
    case,
    claiming,
    entry,
    equal_columns,
    fixed_signs,
    hidden_from,
    implicit,
    random,
    random_states,
    states_of,
)
from theory import State, Transition, check_theorem1


def wrong_root(h: Tensor) -> Tensor:
    """|h| as √(h²): its derivative at 0 is NaN, and its value is not."""
    return (h**2).sqrt() + h / 2


MANY = [random(SIZE, seed=s) for s in range(6)]
FOUR = fixed_signs(2, 4, WIDE)
LATENT_FOUR = fixed_signs(3, 4, WIDE)
TWINS = equal_columns(FOUR)
DIRECT_TWINS = equal_columns(fixed_signs(0, 3, WIDE))
LATENT_HIDDEN = hidden_from(torch.cat([FOUR @ WIDE_W.mT, LATENT_FOUR]))

DERIVATIVES: dict[str, Case] = {
    "a diagonal map whose derivative claims one entry more": case(
        claiming(lambda h: h / 2, HALF + entry(0, 1)), OPEN
    ),
    "a coupling of 4 % that the derivative denies": case(
        claiming(lambda h: h / 2 + 0.02 * (W @ h), HALF), OPEN
    ),
    "a coupling of 10⁻⁷ that the derivative denies": case(
        claiming(lambda h: h / 2 + 1e-7 * (W @ h), HALF), OPEN
    ),
    "a slope of 10⁴ in tanh, whose differences are off by their curvature": case(
        lambda h: (1e2 * h).tanh() + h, OWN
    ),
    "tanh with the derivative of W tanh": case(lambda h: claiming(lambda v: v / 2, W)(h).tanh(), OPEN),
    "a claimed entry that the four ±1 directions of a known seed miss": case(
        lambda h: h.tanh() / 2 + claiming(lambda v: 0 * v, hidden_from(FOUR))(h), OPEN, random_states(WIDE)
    ),
    "the reverse: a mixing map whose derivative claims to be diagonal": case(
        lambda h: h.tanh() / 2 + claiming(lambda v: hidden_from(FOUR) @ v, 0 * WIDE_W)(h),
        OPEN,
        random_states(WIDE),
    ),
    "two wrong entries of one row that cancel under ±1 half of the time": case(
        lambda h: h.tanh() / 2 + claiming(lambda v: 0 * v, entry(3, *TWINS, WIDE))(h),
        OPEN,
        random_states(WIDE),
    ),
    "a difference of two entries that ones and three signs of a known seed miss": case(
        lambda h: h.tanh() / 2 + entry(3, *DIRECT_TWINS, WIDE) @ h, BOTH, random_states(WIDE)
    ),
    "∂Φ/∂z wrong where neither seed's four ±1 directions look": case(
        implicit(
            lambda z, h: z / 2 + claiming(lambda v: 0 * v, 0.3 * LATENT_HIDDEN)(z) + WIDE_W @ h,
            lambda z, h: h / 2 + z.tanh(),
            WIDE,
        ),
        OPEN,
        random_states(WIDE),
    ),
    "∂Φ/∂s wrong in one entry": case(
        implicit(
            lambda z, h: z / 3 + claiming(lambda v: W @ v, W + entry(1, 2))(h),
            lambda z, h: h / 2 + z.tanh(),
            SIZE,
        ),
        OPEN,
    ),
    "∂G/∂z wrong": case(
        implicit(
            lambda z, h: (z / 3 + W @ h).tanh(), lambda z, h: h / 2 + claiming(lambda v: v / 2, W)(z), SIZE
        ),
        OPEN,
    ),
    "∂G/∂z wrong in one entry of a diagonal": case(
        implicit(
            lambda z, h: (z / 3 + W @ h).tanh(),
            lambda z, h: h / 2 + claiming(lambda v: v / 2, HALF - entry(0, 0))(z),
            SIZE,
        ),
        BOTH,
        verdict="inconclusive",
    ),
    "a derivative wrong at one state only": case(
        lambda h: torch.where((h == MANY[1]).all(), claiming(lambda v: W @ v.tanh(), 2 * W)(h), W @ h.tanh()),
        BOTH,
        states_of(*MANY[:4]),
        verdict="inconclusive",
    ),
    "rounding to 10⁻³ with the derivative of the identity": case(
        claiming(lambda h: torch.round(1e3 * h) / 1e3, 2 * HALF), OPEN
    ),
    "h + 10⁻⁹ sin(10⁹ h): a derivative that no difference quotient has": case(
        lambda h: W @ (h + 1e-9 * (1e9 * h).sin()), OPEN
    ),
    "∂Φ/∂z is NaN at the fixed point": case(
        implicit(lambda z, h: (z**2).sqrt() / 2, lambda z, h: W @ h.tanh() + z, SIZE), OPEN
    ),
    "J is NaN at one state": case(
        lambda h: W @ wrong_root(h),
        BOTH,
        states_of(torch.zeros(SIZE).double(), *MANY[:3]),
        verdict="inconclusive",
    ),
}


@pytest.mark.parametrize(
    ("transition", "states", "verdict", "kind"), DERIVATIVES.values(), ids=DERIVATIVES.keys()
)
def test_the_word_for(transition: Transition, states: list[State], verdict: str, kind: str) -> None:
    report = check_theorem1(transition, states)
    assert (report.conclusions.value, report.kind.value) == (verdict, kind), report.kind_sentence


def test_a_derivative_that_differences_deny_is_named() -> None:
    denied = check_theorem1(*DERIVATIVES["a coupling of 4 % that the derivative denies"][:2])
    assert "finite differences contradict J at 4" in denied.kind_sentence
