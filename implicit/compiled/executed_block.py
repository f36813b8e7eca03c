"""The numbers of a compiled block as they may come out of floats, and the steps of the proof.

| code     | symbol | meaning                                                                              |
|----------|--------|--------------------------------------------------------------------------------------|
| ``once`` | Γ      | relative error of a write as the memory says it, whatever its age                    |
| ``open`` | ν      | of what a channel says, from its gate through the gated norm to the latent           |
| ``unit`` | ν_d    | of an entry that a norm returns, common to all entries or its own                    |
| ``sums`` | ν₂     | of the sum of latents that a state is written by, relative to the terms              |

`theory.rigorous.rounded` speaks of errors as shares of results that do not overflow, and of functions that
return no less than 2⁻¹⁰⁰. Crude bounds on the weights, computed in float64, imply both, but for decays of
many tokens and writes of states that are not entered, which the proof bounds from above only.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from automata.errors import InputError
from implicit.compiled.bounds import Block
from implicit.compiled.weights import Constants, Places, Wiring
from implicit.ops.ssd.chunked import CHUNK_SIZE
from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.functions import exp, silu, softplus, sqrt
from theory.rigorous.rounded import FloatFormat

LARGEST_WEIGHT, LARGEST_FACTOR, LEAST_FACTOR = 2.0**15, 2.0**3, 2.0**-19
LARGEST_D_MODEL, LARGEST_INNER, LARGEST_SQUARE = 2**15, 2**19, 2.0**118
SLOWEST_DECAY = 0.9


def require_moderate_sizes(
    constants: Constants, factors: Mapping[str, Ball], *, d_model: int, inner: int, outcomes: int
) -> None:
    """Refuse weights from which numbers follow that overflow, or whose errors are no share of them.

    The factors lie between a write and what the memory says of it: Δ, −A, λ, B, C, what the constant channels
    are written, and the gate of open channels. With them no result reaches 2¹²⁰, and of what is smaller than
    2⁻¹²⁶ a token loses less than 2⁻⁹⁰ of what the gates are given, times 1 more than what is written: fewer
    than 2⁸ results for each channel, times factors of at most 9³ and 16 for all ages together, and what the
    gate loses over the gate.

    Example:
        >>> from dataclasses import replace
        >>> from automata.machines.mealy import MealyMachine
        >>> from implicit.compiled.weights import Gains, Wiring, constants_for
        >>> constants = constants_for(Wiring.one_hot(MealyMachine([[0]], [[0]])), Gains())
        >>> factors = dict.fromkeys(("step", "rate", "decay", "b", "c", "start", "gate"), Ball.exact(0.5))
        >>> require_moderate_sizes(constants, factors, d_model=2, inner=2, outcomes=1)
        >>> large = replace(constants, out=1e20)
        >>> require_moderate_sizes(large, factors, d_model=2, inner=2, outcomes=1)
        Traceback (most recent call last):
        automata.errors.InputError: the executed model is not proved right: out is 1e+20, above 32768.0; ...
    """

    def require_within(name: str, number: float, least: float, most: float) -> None:
        if not least <= number <= most:  # also refuses NaN
            why = f"below {least}" if number < least else f"above {most}"
            wrong = f"{name} is {number:g}, {why}"
            raise InputError(
                f"the executed model is not proved right: {wrong}; give weights of moderate size"
            )

    require_within("d_model", d_model, 1, LARGEST_D_MODEL)
    require_within("inner", inner, 1, LARGEST_INNER)
    for name, number in vars(constants).items():
        positive = name in ("out", "answer")
        require_within(name, number, LEAST_FACTOR if positive else -LARGEST_WEIGHT, LARGEST_WEIGHT)
    most = {name: float(ball.upper) for name, ball in factors.items()}
    largest = {**dict.fromkeys(("step", "rate", "b", "c"), LARGEST_FACTOR), "decay": SLOWEST_DECAY}
    for name, ball in factors.items():
        require_within(name, float(ball.lower), LEAST_FACTOR, math.inf)
        require_within(name, most[name], LEAST_FACTOR, largest.get(name, math.inf))
    # No factor is below 1, so that each product of some of them is at most that of all.
    write = 1 + 2 * constants.slope * (d_model * outcomes) ** 0.5 + abs(constants.threshold)
    write += abs(constants.constant)
    said = (1 + most["step"]) * (1 + most["b"]) * (1 + most["c"]) / (1 - most["decay"])
    said *= 2 * (1 + abs(constants.skip) + abs(constants.skip_start))
    gated, latent = write * said * (1 + most["gate"]), 2 * constants.out * inner + 2 * d_model**0.5
    require_within("the square of a gated channel", gated**2 * inner, 0, LARGEST_SQUARE)
    require_within("the square of a latent", latent**2 * d_model, 0, LARGEST_SQUARE)


ROUNDINGS_OF_A_WRITE = CHUNK_SIZE + 16
"""The most roundings between a write and what the memory says of it, if no chunk lies between them."""
UNDERFLOW = Ball.exact(2.0**-90)
"""A bound on what denormals take in one token from the inputs of the gates (`require_moderate_sizes`)."""
TINY = 2.0**-60
"""The same of what is written, before silu, and of a margin."""
_ONE = Ball.exact(1.0)


@dataclass(frozen=True)
class Writes:
    """Boxes of good writes: at the state that is entered, and at all others."""

    least: Ball
    most: Ball
    leaked: Ball


class Reading(NamedTuple):
    """The readings of the outcomes from the memory."""

    others: Ball  # what all but the right one get, as a share of what that one gets
    negative: Ball  # the negative part of it
    least: Ball  # what the right one gets at least
    dominance: Ball  # R⁻, the least length of what the layer adds to the latent, in lengths √d


@dataclass(frozen=True, kw_only=True)
class ExecutedBlock(Block):
    """The numbers of a block as they may come out when they are computed, and the steps of the proof.

    The defect η bounds |κ + D| with what rounding leaves there.
    """

    form: FloatFormat  # of the arithmetic
    d: int  # d_model
    start: Ball  # what the constant channels say at the first token, all values

    @classmethod
    def of(
        cls, constants: Constants, wiring: Wiring, form: FloatFormat, *, damping: float, epsilon: float
    ) -> "ExecutedBlock":
        """Return the numbers for constants, whose places in the weights are those of the wiring."""
        number = {name: Ball.exact(value) for name, value in vars(constants).items()}
        places = Places.of(wiring)
        d, N = places.d_model, places.inner
        function, u = _about(form.function), form.unit_roundoff
        step = softplus(number["dt"]) * function
        rate = exp(number["a_log"]) * function * _about(form.gamma(8))
        # The chunked scan sums up to 64 log decays in float64 and takes differences.
        summed = Ball.exact(2 * 70 * 2.0**-53 * CHUNK_SIZE) * (step * rate)
        # Γ: the roundings of a write, up to three exponentials of its age, and these sums.
        once = (form.gamma(ROUNDINGS_OF_A_WRITE) + 3 * form.function) * 1.01 + float(summed.upper)
        decay = exp(-(step * rate)) * function * _about(2 * once)
        c, b = silu(number["c"]) * function, silu(number["b"]) * function
        kappa = c * step * b
        at_start = silu(number["constant"]) * function

        def rest(skip: Ball) -> Ball:
            """All values of κ + D with rounding that is relative to the terms."""
            return (kappa + skip).widened((Ball.exact(kappa.magnitude + skip.magnitude) * once).upper)

        lost = UNDERFLOW * (1 + at_start)
        first = (at_start * rest(number["skip_start"])).widened(lost.upper)
        older = kappa * decay / (_ONE - decay) * _about(once) * at_start
        embedded = _ONE / sqrt(_ONE / float(d) + epsilon) * _about(_unit(form, d))
        gate = silu(number["gate"] * embedded * _about(form.gamma(d + 4))) * function
        assert u < 2.0**-7  # for which the counts above are made
        factors = {
            "step": step,
            "rate": rate,
            "decay": decay,
            "b": b,
            "c": c,
            "start": at_start,
            "gate": gate,
        }
        require_moderate_sizes(constants, factors, d_model=d, inner=N, outcomes=wiring.latent)
        return cls(
            form=form,
            n=wiring.memory,
            m=wiring.latent,
            d=d,
            N=N,
            per_state=int(wiring.writes.sum(1).max()),
            per_answer=int(wiring.answers.sum(1).max()),
            damping=damping,
            epsilon=epsilon,
            K=number["slope"] * sqrt(Ball.exact(d)),
            theta=-number["threshold"],
            kappa=kappa * _about(once),
            decay=decay,
            defect=Ball.exact(rest(number["skip"]).magnitude),
            start=first,
            most_start=_high(first + older),
            gate=gate,
            R=number["out"] * sqrt(Ball.exact(N) / float(d)),
        )

    @property
    def unit(self) -> float:
        """ν_d."""
        return _unit(self.form, self.d)

    @property
    def sums(self) -> float:
        """ν₂."""
        return (self.unit + self.form.gamma(self.d + 4)) * (1 + 2.0**-4)

    @property
    def length(self) -> Ball:
        """M: no latent is longer than so many times √d."""
        tau, six = Ball.exact(self.damping), Ball.exact(6 * self.form.unit_roundoff)
        return _high((_ONE + self.unit) * ((tau + six) / (tau - six)))

    def writes(self, rho: Ball, pi: Ball, zeta: Ball) -> Writes:
        """Return what is written if a latent is within ζ of the cone."""
        around = sqrt(Ball.exact(self.per_state)) * zeta
        near, most, rest = ((_ONE - pi) / sqrt(_ONE + rho * rho) - around, _ONE + rho + around, rho + around)
        adding = 3 * self.form.unit_roundoff
        on = self.K * (near - self.sums * most) - self.theta
        on = on - adding * (self.K * most * (1 + self.sums) + self.theta)
        above = self.K * most * (1 + self.sums) * (1 + adding) - self.theta * (1 - adding)
        off = self.theta * (1 - adding) - self.K * rest * (1 + self.sums) * (1 + adding)
        on, above, off = on - TINY, above + TINY, off - TINY
        require(bool(on.lower > 0), "(1) the state that is entered is written")
        require(bool(off.lower >= 2), "(2) others are hardly written")
        require(bool(silu(_low(on)).lower >= LEAST_FACTOR), "(1) what is written is no underflow")
        function = self.form.function
        off = _low(off)
        return Writes(
            least=_low(silu(_low(on)) * (1 - function)),
            most=_high(above * (1 + function)),
            leaked=_high(off * exp(-off) * (1 + function)),
        )

    def readings(self, writes: Writes) -> tuple[Reading, Reading]:
        """Return what reading gives after the first token, and at it: see `_reading`."""
        faded = _high(self.kappa * self.decay / (_ONE - self.decay))
        written = float(self.n) * writes.leaked
        # Σ|x| of a latent that may be anything, and of one that is in place, or 0.
        anything = 0.28 * float(self.n) + self.K * sqrt(Ball.exact(self.m)) * (1 + 2 * self.sums)
        lost = float(self.n) * UNDERFLOW * (1 + writes.most)
        any_defect = self.defect * anything * (1 + self.form.function) + lost
        own_defect = self.defect * (writes.most + written) + lost
        last = _low(self.kappa * self.decay * writes.least)
        older = faded * _high(self.decay) * writes.most + self.most_start
        later = self._reading(last, _high(older), _high(faded * written + any_defect))
        first = self._reading(_low(self.start), Ball.exact(0.0), _high(own_defect))
        return later, first

    def _reading(self, right: Ball, rest: Ball, wrong: Ball) -> Reading:
        """Bound the readings: of the right outcome from below, of others, rounding and leaks from above."""
        spread = self.gate.upper / self.gate.lower - 1
        open_ = Ball.exact(1.01 * (self.form.gamma(self.N + 8) + float(spread)))
        gets = _low((_ONE - open_) * right - (_ONE + open_) * wrong)
        others = (_ONE + open_) * (rest + wrong)
        size = _high((right + rest + wrong) / gets)
        gated = _low(self.gate) * gets
        long = self.R / sqrt(size * size + Ball.exact(self.N) * self.epsilon / (gated * gated))
        dominance = long * (1 - _unit(self.form, self.N))
        return Reading(others / gets, (_ONE + open_) * wrong / gets, gets, dominance)

    def off(self, dominance: Ball, rtol: float) -> Ball:
        """Return ζ for R⁻: how far the direction of a latent may be from the cone."""
        u, M = self.form.unit_roundoff, self.length
        tau = Ball.exact(self.damping)
        least = Ball.exact((1 - self.epsilon) * (1 - self.unit) * (1 - 2.0**-50))
        turned = 1.01 * M / dominance + 8 * u + 12 * u * M / (tau * tau * least)
        turned = _high(turned + (1.01 * rtol * M + 2.0**-50) / least)  # the latter is what underflows
        shortest = _low((Ball.exact(0.97) - turned) * tau * least)
        require(bool(turned.upper <= 0.4), "latents stay in place")
        return turned / (Ball.exact(0.97) - turned) + Ball.exact(self.epsilon) / (2.0 * shortest * shortest)

    def apart(self, rho: Ball, pi: Ball, zeta: Ball) -> Ball:
        """Return the margin of the right logit."""
        right = (_ONE - pi - rho) / sqrt(_ONE + rho * rho)
        rounding = 2.0 * self.form.gamma(self.d + 4) * sqrt(Ball.exact(self.m)) + TINY
        return right - sqrt(Ball.exact(2 * self.per_answer)) * zeta - rounding


def _unit(form: FloatFormat, features: int) -> float:
    """ν of a norm: half the error of the mean square, a root and an inverse root, and three products."""
    return (0.5 * form.gamma(features + 8) + 2 * form.function + 3 * form.unit_roundoff) * 1.01


def _about(relative: float) -> Ball:
    return Ball.around(1.0, relative)


def _low(ball: Ball) -> Ball:
    return Ball.exact(float(ball.lower))


def _high(ball: Ball) -> Ball:
    return Ball.exact(float(ball.upper))


def require(holds: bool, what: str) -> None:
    """Refuse a model of which something, which the error names, is not proved."""
    if not holds:
        raise InputError(f"the executed model is not proved right: {what} fails; give other gains or dtype")
