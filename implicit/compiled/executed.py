"""What a compiled model answers when it is run: docs/compiled_automata.md, section 7, for its very weights.

The theorems of the other sections are about real numbers. Here every operation that the program executes for
a token may be off as `theory.rigorous.float_format` says, in whichever order sums are taken. Boxes around
what is written, read and decided are found that the program does not leave, on words of every length.

| code     | symbol | meaning                                                                              |
|----------|--------|--------------------------------------------------------------------------------------|
| ``once`` | Γ      | relative error of a write as the memory says it, whatever its age                     |
| ``open`` | ν      | of what a channel says, from its gate through the gated norm to the latent             |
| ``unit`` | ν_d    | of an entry that a norm returns, common to all entries or its own                     |
| ``sums`` | ν₂     | of the sum of latents that a state is written by, relative to the terms                |
"""

from dataclasses import dataclass

import numpy as np

from automata.errors import InputError
from implicit.compiled.bounds import LEAST_DAMPING, one_epsilon
from implicit.compiled.weights import Constants, Places, constants_of
from implicit.compiled.wiring import Wiring
from implicit.models.implicit_model import ImplicitModel
from implicit.ops.ssd.chunked import CHUNK_SIZE
from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.elementary import sqrt
from theory.rigorous.balls.functions import exp, silu, softplus
from theory.rigorous.float_format import FORMATS, FloatFormat

ROUNDINGS_OF_A_WRITE = CHUNK_SIZE + 16
"""The most roundings between a write and what the memory says of it, if no chunk lies between them."""
LARGEST_RTOL = 1e-3
"""The default bound on the relative tolerance; a looser one leaves latents farther from where they belong."""
UNDERFLOW = Ball.exact(2.0**-90)
"""More than all that denormals lose in one token: fewer than 2²⁰ results of less than 2⁻¹²⁶ each."""
_ONE = Ball.exact(1.0)


@dataclass(frozen=True)
class ExecutedBounds:
    """Boxes that the executed program does not leave, on every word of every length.

    Attributes:
        dtype: of the weights and of the arithmetic.
        ulps: what is assumed of functions of one number.
        rtol: the largest relative tolerance that the statements hold for.
        leftover: ρ; all outcomes but the right one get at most so much of what that one gets.
        leak: π; the negative part of it.
        least_write: what is written at the state that is entered, from here …
        most_write: … to here.
        leaked: what is written at any other state is negative or 0 and no larger than this.
        least_read: the least that the right outcome gets, after the first token.
        least_first: the same at the first token.
        dominance: R⁻; what the layer adds to the latent has at least so many times √d_model.
        length: no latent is longer than so many times √d_model.
        off: ζ; the direction of a latent differs from one of the cone of its outcome by at most so much.
        margin: least distance of the right answer's logit to any other, as a share of the latent's length.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.compiled import compile_automaton
        >>> machine = make_task("S3").machine()
        >>> bounds = executed_bounds_of(compile_automaton(machine), Wiring.one_hot(machine))
        >>> bounds.margin > 0.7, bounds.leak < 1e-2, bounds.least_write > 28
        (True, True, True)
    """

    dtype: str
    ulps: int
    rtol: float
    leftover: float
    leak: float
    least_write: float
    most_write: float
    leaked: float
    least_read: float
    least_first: float
    dominance: float
    length: float
    off: float
    margin: float


def executed_bounds_of(
    model: ImplicitModel, wiring: Wiring, *, rtol: float = LARGEST_RTOL, ulps: int = 4
) -> ExecutedBounds:
    """Prove that a compiled model, run in its own floating-point format, is right on every word.

    Args:
        model: as `compile_automaton` returns it, in float32 or float64.
        wiring: that it is compiled from.
        rtol: the largest relative tolerance with which it may be run.
        ulps: the largest error of a function of one number that is allowed for.

    Raises:
        InputError: if the model is not of this wiring, or one of the inequalities does not hold.

    Example:
        In half precision the rounding is larger than the margins:

        >>> from automata.tasks.registry import make_task
        >>> from implicit.compiled import compile_automaton
        >>> machine = make_task("parity").machine()
        >>> model = compile_automaton(machine)
        >>> executed_bounds_of(model, Wiring.one_hot(machine)).dtype
        'float32'
        >>> executed_bounds_of(model, Wiring.one_hot(machine), rtol=0.5)
        Traceback (most recent call last):
        automata.errors.InputError: the executed model is not proved right: ...
    """
    if not (0 <= rtol < 1 and 0 <= ulps <= 2**10):
        raise InputError(f"rtol is {rtol} and ulps {ulps}; give rtol from 0 to 1 and ulps from 0 to 1024")
    config = model.config
    if config.layers != 1 or config.mlp_size or not config.residual or not config.damping >= LEAST_DAMPING:
        raise InputError(
            "the model is not one layer with a residual, no MLP and damping from 0.1; compile it"
        )
    if config.rtol > rtol or config.max_iterations < 2:
        raise InputError(
            f"the model is configured with rtol {config.rtol} and {config.max_iterations} iterations; "
            f"give at most {rtol} and at least 2"
        )
    dtypes = {weight.dtype for weight in model.state_dict().values()}
    names = sorted(str(dtype).removeprefix("torch.") for dtype in dtypes)
    if len(names) != 1 or names[0] not in FORMATS:
        raise InputError(f"the weights are {', '.join(names)}; give a model in float32 or float64")
    form = FloatFormat(names[0], FORMATS[names[0]].unit_roundoff, ulps)
    program = ExecutedBlock.of(
        constants_of(model, wiring), wiring, form, damping=config.damping, epsilon=one_epsilon(model)
    )
    with np.errstate(all="ignore"):  # beyond the range of floats nothing holds: NaN compares as false
        return program.proved(rtol)


@dataclass(frozen=True)
class Writes:
    """What good writes are: box at the state that is entered, and at all others.

    Example:
        >>> Writes(Ball.exact(28.0), Ball.exact(45.0), Ball.exact(1e-5)).least.contains(28.0)
        True
    """

    least: Ball
    most: Ball
    leaked: Ball


@dataclass(frozen=True)
class ExecutedBlock:
    """The numbers of a block as they may come out when they are computed, and the steps of the proof.

    Attributes:
        form: of the arithmetic.
        n: states.
        m: outcomes.
        d: d_model.
        N: the inner width.
        per_state: b, the most outcomes of one state.
        per_answer: c, the most outcomes with one answer.
        damping: τ.
        epsilon: ε.
        K: slope of what is written, in lengths of the latent.
        theta: θ, its threshold.
        kappa: κ, all values that it may have.
        decay: λ per token, all values.
        defect: η, a bound of |κ + D| with what rounding leaves there.
        start: what the constant channels say at the first token, all values.
        most_start: the most that they ever say.
        gate: of open channels, all values.
        R: out_proj's entry times √(N/d).

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.compiled.gains import Gains
        >>> from implicit.compiled.weights import constants_for
        >>> wiring = Wiring.one_hot(make_task("parity").machine())
        >>> form = FORMATS["float32"]
        >>> constants = constants_for(wiring, Gains())
        >>> block = ExecutedBlock.of(constants, wiring, form, damping=1.0, epsilon=1e-5)
        >>> bool(block.defect.upper < 1e-4), block.decay.contains(1 / 16)
        (True, True)
    """

    form: FloatFormat
    n: int
    m: int
    d: int
    N: int
    per_state: int
    per_answer: int
    damping: float
    epsilon: float
    K: Ball
    theta: Ball
    kappa: Ball
    decay: Ball
    defect: Ball
    start: Ball
    most_start: Ball
    gate: Ball
    R: Ball

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
        once = _once(form) + float(summed.upper)
        decay = exp(-(step * rate)) * function * _about(2 * once)
        kappa = silu(number["c"]) * function * step * silu(number["b"]) * function
        at_start = silu(number["constant"]) * function

        def rest(skip: Ball) -> Ball:
            """All values of κ + D with rounding that is relative to the terms."""
            return (kappa + skip).widened((Ball.exact(kappa.magnitude + skip.magnitude) * once).upper)

        first = (at_start * rest(number["skip_start"])).widened(UNDERFLOW.midpoint)
        older = kappa * decay / (_ONE - decay) * _about(once) * at_start
        embedded = _ONE / sqrt(_ONE / float(d) + epsilon) * _about(_unit(form, d))
        gate = silu(number["gate"] * embedded * _about(form.gamma(d + 4))) * function
        assert u < 2.0**-7  # for which the counts above are made
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

    def proved(self, rtol: float) -> ExecutedBounds:
        """Prove the inequalities.

        Raises:
            InputError: naming the first that does not hold.
        """
        leftover = leak = off = 0.0
        for _ in range(80):  # nothing rests on how these are found
            writes = self.writes(Ball.exact(leftover), Ball.exact(leak), Ball.exact(off))
            later, first = self.readings(writes)
            needed = [max(float(pair[i].upper) for pair in (later, first)) for i in (0, 1)]
            dominance = min(float(pair[3].lower) for pair in (later, first))
            reached = float(self.off(Ball.exact(dominance), rtol).upper)
            leftover, leak, off = (1.0001 * found for found in (*needed, reached))
            _require(max(leftover, leak) < 1 and dominance >= 8, "the last state outweighs the rest")
        rho, pi, zeta = Ball.exact(leftover), Ball.exact(leak), Ball.exact(off)
        _require(leftover <= 0.25 and leak < 1, "what is left over is at most a quarter")
        writes = self.writes(rho, pi, zeta)
        _require(bool(writes.least.lower > 0), "the state that is entered is written")
        _require(bool(writes.leaked.lower >= 0 and writes.leaked.upper < 1), "others are hardly written")
        later, first = self.readings(writes)
        for words, reading in (("a memory", later), ("the beginning", first)):
            _require(bool(reading[2].lower > 0), f"{words} is read")
            _require(bool((reading[0] - rho).upper <= 0), f"{words} outweighs the rest")
            _require(bool((reading[1] - pi).upper <= 0), f"what is negative beside {words} is a leak")
        dominance = min(float(later[3].lower), float(first[3].lower))
        _require(dominance >= 8, "the layer outweighs the latent")
        _require(bool((self.off(Ball.exact(dominance), rtol) - zeta).upper <= 0), "latents stay in place")
        margin = float(self.apart(rho, pi, zeta).lower)
        _require(margin > 0, "the right answer wins")
        return ExecutedBounds(
            dtype=self.form.name,
            ulps=self.form.ulps,
            rtol=rtol,
            leftover=leftover,
            leak=leak,
            least_write=float(writes.least.lower),
            most_write=float(writes.most.upper),
            leaked=float(writes.leaked.upper),
            least_read=float(later[2].lower),
            least_first=float(first[2].lower),
            dominance=dominance,
            length=float(self.length.upper),
            off=off,
            margin=margin,
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
        near, most, rest = (
            (_ONE - pi) / sqrt(_ONE + rho * rho) - around,
            _ONE + rho + around,
            rho + around,
        )
        adding = 3 * self.form.unit_roundoff
        on = self.K * (near - self.sums * most) - self.theta
        on = on - adding * (self.K * most * (1 + self.sums) + self.theta)
        above = self.K * most * (1 + self.sums) * (1 + adding) - self.theta * (1 - adding)
        off = self.theta * (1 - adding) - self.K * rest * (1 + self.sums) * (1 + adding)
        _require(bool(on.lower > 0), "(1) the state that is entered is written")
        _require(bool(off.lower >= 2), "(2) others are hardly written")
        function = self.form.function
        off = _low(off)
        return Writes(
            least=_low(silu(_low(on)) * (1 - function)),
            most=_high(above * (1 + function)),
            leaked=_high(off * exp(-off) * (1 + function)),
        )

    def readings(self, writes: Writes) -> tuple[tuple[Ball, Ball, Ball, Ball], tuple[Ball, Ball, Ball, Ball]]:
        """Return what reading gives after the first token, and at it: see `_reading`."""
        faded = _high(self.kappa * self.decay / (_ONE - self.decay))
        written = float(self.n) * writes.leaked
        # Σ|x| of a latent that may be anything, and of one that is in place, or 0.
        anything = 0.28 * float(self.n) + self.K * sqrt(Ball.exact(self.m)) * (1 + 2 * self.sums)
        any_defect = self.defect * anything * (1 + self.form.function) + float(self.n) * UNDERFLOW
        own_defect = self.defect * (writes.most + written) + float(self.n) * UNDERFLOW
        last = _low(self.kappa * self.decay * writes.least)
        older = faded * _high(self.decay) * writes.most + self.most_start
        later = self._reading(last, _high(older), _high(faded * written + any_defect))
        first = self._reading(_low(self.start), Ball.exact(0.0), _high(own_defect))
        return later, first

    def _reading(self, right: Ball, rest: Ball, wrong: Ball) -> tuple[Ball, Ball, Ball, Ball]:
        """What the outcomes get.

        Args:
            right: the least that is said of the right outcome.
            rest: the most that is said of others rightly: older writes, the start.
            wrong: the most that rounding and leaks say, of either sign.

        Returns:
            What the others get, its negative part, both as shares of what the right outcome gets, what that
            is at least, and R⁻.
        """
        spread = self.gate.upper / self.gate.lower - 1
        open_ = Ball.exact(1.01 * (self.form.gamma(self.N + 8) + float(spread)))
        gets = _low((_ONE - open_) * right - (_ONE + open_) * wrong)
        others = (_ONE + open_) * (rest + wrong)
        size = _high((right + rest + wrong) / gets)
        gated = _low(self.gate) * gets
        long = self.R / sqrt(size * size + Ball.exact(self.N) * self.epsilon / (gated * gated))
        return others / gets, (_ONE + open_) * wrong / gets, gets, long * (1 - _unit(self.form, self.N))

    def off(self, dominance: Ball, rtol: float) -> Ball:
        """Return ζ for R⁻: how far the direction of a latent may be from the cone."""
        u, M = self.form.unit_roundoff, self.length
        tau = Ball.exact(self.damping)
        least = Ball.exact((1 - self.epsilon) * (1 - self.unit) * (1 - 2.0**-50))
        turned = 1.01 * M / dominance + 8 * u + 12 * u * M / (tau * tau * least)
        turned = _high(turned + (1.01 * rtol * M + 2.0**-50) / least)
        shortest = _low((Ball.exact(0.97) - turned) * tau * least)
        _require(bool(turned.upper <= 0.4), "latents stay in place")
        return turned / (Ball.exact(0.97) - turned) + Ball.exact(self.epsilon) / (2.0 * shortest * shortest)

    def apart(self, rho: Ball, pi: Ball, zeta: Ball) -> Ball:
        """Return the margin of the right logit."""
        right = (_ONE - pi - rho) / sqrt(_ONE + rho * rho)
        rounding = 2.0 * self.form.gamma(self.d + 4) * sqrt(Ball.exact(self.m))
        return right - sqrt(Ball.exact(2 * self.per_answer)) * zeta - rounding


def _once(form: FloatFormat) -> float:
    """Γ: the roundings of a write, and up to three exponentials of its age."""
    return (form.gamma(ROUNDINGS_OF_A_WRITE) + 3 * form.function) * 1.01


def _unit(form: FloatFormat, features: int) -> float:
    """ν of a norm: half the error of the mean square, a root and an inverse root, and three products."""
    return (0.5 * form.gamma(features + 8) + 2 * form.function + 3 * form.unit_roundoff) * 1.01


def _about(relative: float) -> Ball:
    return Ball.around(1.0, relative)


def _low(ball: Ball) -> Ball:
    return Ball.exact(float(ball.lower))


def _high(ball: Ball) -> Ball:
    return Ball.exact(float(ball.upper))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InputError(f"the executed model is not proved right: {what} fails; give other gains or dtype")
