"""Nothing that a compiled block executes overflows, and nothing that matters is too small to err by a share.

`theory.rigorous.float_format` speaks of errors as shares of results: of results that do not overflow, and of
functions that return no less than 2⁻¹⁰⁰. Bounds on the numbers of the weights are asked for, far above and
below those that `compile_automaton` writes, from which both follow, but for decays of many tokens and writes
of states that are not entered, which the proof bounds from above only. All of them are so crude that they
are computed in float64.
"""

from collections.abc import Mapping
from typing import NamedTuple

from automata.errors import InputError
from implicit.compiled.weights import Constants
from theory.rigorous.balls.ball import Ball

LARGEST_WEIGHT, LARGEST_FACTOR, LEAST_FACTOR = 2.0**15, 2.0**3, 2.0**-19
LARGEST_D_MODEL, LARGEST_INNER, LARGEST_SQUARE = 2**15, 2**19, 2.0**118
SLOWEST_DECAY = 0.9


class Factors(NamedTuple):
    """All values of what lies between a write and what the memory says of it, and of the gate."""

    step: Ball  # Δ
    rate: Ball  # −A
    decay: Ball  # λ
    b: Ball  # B
    c: Ball  # C
    start: Ball  # what the constant channels are written
    gate: Ball  # of open channels


def require_moderate_sizes(
    constants: Constants, factors: Factors, *, d_model: int, inner: int, outcomes: int
) -> None:
    """Refuse weights from which numbers follow that overflow, or whose errors are no share of them.

    With them no result reaches 2¹²⁰, and of what is smaller than 2⁻¹²⁶ a token loses less than 2⁻⁹⁰ of what
    the gates are given, times 1 more than what is written: fewer than 2⁸ results for each channel, times
    factors of at most 9³ and 16 for all ages together, and what the gate loses over the gate.

    Example:
        >>> from dataclasses import replace
        >>> from automata.machines.mealy import MealyMachine
        >>> from implicit.compiled.gains import Gains
        >>> from implicit.compiled.weights import constants_for
        >>> from implicit.compiled.wiring import Wiring
        >>> constants = constants_for(Wiring.one_hot(MealyMachine([[0]], [[0]])), Gains())
        >>> factors = Factors(*[Ball.exact(0.5)] * 7)
        >>> require_moderate_sizes(constants, factors, d_model=2, inner=2, outcomes=1)
        >>> large = replace(constants, out=1e20)
        >>> require_moderate_sizes(large, factors, d_model=2, inner=2, outcomes=1)
        Traceback (most recent call last):
        automata.errors.InputError: the executed model is not proved right: out is 1e+20, above 32768.0; ...
    """
    for name, width, largest in (("d_model", d_model, LARGEST_D_MODEL), ("inner", inner, LARGEST_INNER)):
        if width > largest:
            raise _refusal(name, width, f"above {largest}")
    for name, number in vars(constants).items():
        if not abs(number) <= LARGEST_WEIGHT:
            raise _refusal(name, number, f"above {LARGEST_WEIGHT}")
    least: Mapping[str, float] = {name: float(ball.lower) for name, ball in factors._asdict().items()}
    for name, number in {**least, "out": constants.out, "answer": constants.answer}.items():
        if not number >= LEAST_FACTOR:
            raise _refusal(name, number, f"below {LEAST_FACTOR}")
    most = {name: float(ball.upper) for name, ball in factors._asdict().items()}
    for name in ("step", "rate", "b", "c"):
        if not most[name] <= LARGEST_FACTOR:
            raise _refusal(name, most[name], f"above {LARGEST_FACTOR}")
    if not most["decay"] <= SLOWEST_DECAY:
        raise _refusal("decay", most["decay"], f"above {SLOWEST_DECAY}")
    # No factor is below 1, so that each product of some of them is at most that of all.
    write = 1 + 2 * constants.slope * (d_model * outcomes) ** 0.5 + abs(constants.threshold)
    write += abs(constants.constant)
    said = (1 + most["step"]) * (1 + most["b"]) * (1 + most["c"]) / (1 - most["decay"])
    said *= 2 * (1 + abs(constants.skip) + abs(constants.skip_start))
    added = 2 * constants.out * inner + 2 * d_model**0.5
    for name, square in (
        ("the square of a gated channel", (write * said * (1 + most["gate"])) ** 2 * inner),
        ("the square of a latent", added**2 * d_model),
    ):
        if not square <= LARGEST_SQUARE:
            raise _refusal(name, square, f"above {LARGEST_SQUARE:.3g}")


def _refusal(name: str, number: float, why: str) -> InputError:
    return InputError(
        f"the executed model is not proved right: {name} is {number:g}, {why}; give weights of moderate size"
    )
