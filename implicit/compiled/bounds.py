"""The inequalities of docs/compiled_automata.md, enclosed in ball arithmetic for the weights of one model."""

import math
from dataclasses import dataclass

import numpy as np

from automata.errors import InputError
from implicit.compiled.weights import Places, constants_of
from implicit.compiled.wiring import Wiring
from implicit.models.implicit_model import ImplicitModel
from theory.rigorous.balls.ball import Ball, as_ball
from theory.rigorous.balls.elementary import sqrt
from theory.rigorous.balls.functions import exp, silu, softplus

_LEAST_DAMPING = 0.1
ONE = Ball.exact(1.0)


@dataclass(frozen=True)
class Bounds:
    """What is proved of a compiled model in exact arithmetic, on every word of every length.

    Attributes:
        leftover: ρ; all that the memory holds beside the last state weighs at most so much of it.
        leak: π; the part of it that is negative.
        contraction: by which an undamped iteration of one token shrinks distances, within twice the length
            of a latent; the iteration enters that ball from any start.
        coupling: by which an undamped sweep over all tokens shrinks the error at least, once the sweep has
            passed a token; 1 or more if that is not proved, infinite for a damped iteration.
        margin: least distance of the right answer's logit to any other, as a share of the former.

    Example:
        >>> from automata.tasks import make_task
        >>> from implicit.compiled import Wiring, compile_automaton
        >>> machine = make_task("S3").machine()
        >>> bounds = bounds_of(compile_automaton(machine), Wiring.one_hot(machine))
        >>> bounds.margin > 0.75, bounds.contraction < 0.01, bounds.coupling < 0.75
        (True, True, True)
    """

    leftover: float
    leak: float
    contraction: float
    coupling: float
    margin: float

    def extra_sweeps(self, rtol: float) -> int | None:
        """Return how many sweeps after the L-th are enough to a relative tolerance; None if not proved.

        Example:
            >>> Bounds(0.2, 1e-6, 0.01, 0.7, 0.8).extra_sweeps(1e-4)
            31
        """
        if not self.coupling < 1:
            return None
        return math.ceil(math.log(4.1 / rtol) / -math.log(self.coupling)) + 1


def bounds_of(model: ImplicitModel, wiring: Wiring) -> Bounds:
    """Prove the inequalities for a compiled model, with its weights the numbers that their floats are.

    Args:
        model: as `compile_automaton` returns it.
        wiring: that it is compiled from.

    Raises:
        InputError: if the model is not of this wiring, its configuration is another than that of the proof,
            or one of the inequalities does not hold; the message names it.

    Example:
        >>> from automata.tasks import make_task
        >>> from implicit.compiled import Wiring, compile_automaton
        >>> parity = make_task("parity").machine()
        >>> model = compile_automaton(parity)
        >>> bounds_of(model, Wiring.one_hot(parity)).leftover < 0.25
        True
        >>> model.mixers[0].D.data += 0.01
        >>> bounds_of(model, Wiring.one_hot(parity))
        Traceback (most recent call last):
        automata.errors.InputError: the compiled model is not proved right: ...
    """
    _require_wired_once(wiring)
    config = model.config
    if config.layers != 1 or config.mlp_size or not config.residual:
        raise InputError("the model is not one layer with a residual and without MLP; compile it again")
    if config.damping < _LEAST_DAMPING:
        raise InputError(f"damping is {config.damping}; give at least {_LEAST_DAMPING}")
    block = _Block.of(model, wiring)
    leftover, leak = block.smallest()
    return block.proved(leftover, leak)


@dataclass(frozen=True)
class _Block:
    """The numbers of section 2 of the page, as balls."""

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
    least_start: Ball
    most_start: Ball
    gate: Ball
    R: Ball

    @classmethod
    def of(cls, model: ImplicitModel, wiring: Wiring) -> "_Block":
        constants, places = constants_of(model, wiring), Places.of(wiring)
        number = {name: Ball.exact(value) for name, value in vars(constants).items()}
        d, N, epsilon = places.d_model, places.inner, model.latent_norm.epsilon
        step = softplus(number["dt"])
        decay = exp(-(exp(number["a_log"]) * step))
        kappa = silu(number["c"]) * step * silu(number["b"])
        constant = silu(number["constant"])
        at_start = kappa + number["skip_start"]
        return cls(
            n=wiring.memory,
            m=wiring.latent,
            d=d,
            N=N,
            per_state=int(wiring.writes.sum(1).max()),
            per_answer=int(wiring.answers.sum(1).max()),
            damping=model.config.damping,
            epsilon=epsilon,
            K=number["slope"] * sqrt(Ball.exact(d)),
            theta=-number["threshold"],
            kappa=kappa,
            decay=decay,
            defect=kappa + number["skip"],
            least_start=at_start * constant,
            most_start=(at_start + kappa * decay / (ONE - decay)) * constant,
            gate=silu(number["gate"] / sqrt(ONE / float(d) + epsilon)),
            R=number["out"] * sqrt(as_ball(float(N)) / float(d)),
        )

    def smallest(self) -> tuple[float, float]:
        """Numbers for ρ and π that the inequalities seem to hold for; nothing rests on how they are found."""
        leftover, leak = 0.0, 0.0
        for _ in range(60):
            terms = self.terms(leftover, leak)
            leftover = 1.0001 * float(max(terms.most_other.upper / terms.least_on.lower, 0.0))
            leak = 1.0001 * float(max(terms.most_negative.upper / terms.least_on.lower, 0.0))
            first = float(terms.any_defect.upper / terms.least_first.lower)
            leftover, leak = max(leftover, 1.0001 * first), max(leak, 1.0001 * first)
            if not (0 <= leftover < 1 and 0 <= leak < 1):
                raise _not_proved("the memory of older tokens overrules that of the last one")
        return leftover, leak

    def terms(self, leftover: float, leak: float) -> "_Terms":
        rho, pi = Ball.exact(leftover), Ball.exact(leak)
        decay, kappa, K, theta = self.decay, self.kappa, self.K, self.theta
        root_b = sqrt(Ball.exact(self.per_state))
        # any_defect bounds what −C Δ B leaves of the new input, whatever the latent is
        defect = as_ball(float(self.defect.magnitude))
        any_defect = defect * (0.28 * self.n + K * sqrt(Ball.exact(self.m)))
        least_first = self.least_start - any_defect
        # R⁻ needs the least reading, which needs what is written, which needs ζ: ζ is bounded from R alone
        slack = Ball.exact(1.8) / self.R + Ball.exact(self.epsilon) / (
            Ball.exact(self.damping) * self.damping
        )
        on = (ONE - pi) / sqrt(1 + rho * rho) - root_b * slack
        most_on = K * (1 + rho + root_b * slack) - theta
        least_on = silu(K * on - theta)
        off = theta - K * (rho + root_b * slack)
        leaks = float(self.n) * off * exp(-off) * kappa * decay / (ONE - decay)
        history = kappa * decay * most_on * decay / (ONE - decay)
        negative = leaks + any_defect
        return _Terms(
            rho=rho,
            pi=pi,
            slack=slack,
            root_b=root_b,
            pre_on=K * on - theta,
            off=off,
            least_on=kappa * decay * least_on - negative,
            most_other=history + self.most_start + 2 * negative,
            most_negative=negative,
            any_defect=any_defect,
            least_first=least_first,
        )

    def proved(self, leftover: float, leak: float) -> Bounds:
        t = self.terms(leftover, leak)
        rho, pi = t.rho, t.pi
        holds = {
            "(1) a state that is on writes": t.pre_on.lower > 0,
            "(2) a state that is off writes next to nothing": t.off.lower >= 2,
            "(3) the last state outweighs the rest": (t.most_other - rho * t.least_on).upper <= 0,
            "(4) the negative part is a leak": (t.most_negative - pi * t.least_on).upper <= 0,
            "(5) the first token reads the start": t.least_first.lower > 0
            and (t.any_defect - rho * t.least_first).upper <= 0
            and (t.any_defect - pi * t.least_first).upper <= 0,
            "(6) the sizes of rest and leak": leftover <= 0.25
            and leak <= 0.01
            and leftover**2 + leak <= leftover,
        }
        for what, is_so in holds.items():
            if not is_so:
                raise _not_proved(what)
        least = as_ball(float(min(t.least_on.lower, t.least_first.lower)))
        size = 1 + rho + 2 * pi
        R = self.R / sqrt(
            size * size + Ball.exact(self.N) * self.epsilon / (self.gate * self.gate * least * least)
        )
        if not (R.lower >= 8 and (1.5 * R - self.R).lower >= 0):
            raise _not_proved("(7) the layer's output outweighs the latent")
        along = self.R * sqrt(Ball.exact(self.n + 1)) * float(self.defect.magnitude) * 1.1 * self.K
        along = along * t.root_b / (least * sqrt(Ball.exact(self.epsilon)))
        contraction = (1 + along) / (R - 2)
        if not contraction.upper < 1:
            raise _not_proved("(8) the iteration contracts")
        apart = (ONE - pi - rho) / sqrt(1 + rho * rho) - sqrt(Ball.exact(2 * self.per_answer)) * t.slack
        if not apart.lower > 0:
            raise _not_proved("(9) the right answer has the largest logit")
        return Bounds(
            leftover=leftover,
            leak=leak,
            contraction=float(contraction.upper),
            coupling=self.coupling(t, R, contraction),
            margin=float((ONE - rho / (ONE - pi)).lower),
        )

    def coupling(self, t: "_Terms", R: Ball, contraction: Ball) -> float:
        """Q of the page's theorem 3."""
        if self.damping < 1 or not (t.root_b * t.slack).upper <= 0.05:
            return math.inf
        older = self.decay / (ONE - self.decay)
        off = 2 * t.off * exp(-t.off) * sqrt(Ball.exact(self.m)) / (ONE - self.decay)
        gain = 1.1 * self.K * self.decay * self.kappa / t.least_on * (1 + 2 * t.pi)
        near = (t.rho + older + off) * (1 + Ball.exact(4.0) / (R - 1))
        far = 5 * t.root_b / (R - 1) * (ONE / (ONE - self.decay) + off)
        return float((gain * (near + far) + 2.06 * t.root_b * contraction).upper)


@dataclass(frozen=True)
class _Terms:
    """The two sides of the inequalities for one choice of ρ and π."""

    rho: Ball
    pi: Ball
    slack: Ball
    root_b: Ball
    pre_on: Ball
    off: Ball
    least_on: Ball
    most_other: Ball
    most_negative: Ball
    any_defect: Ball
    least_first: Ball


def _require_wired_once(wiring: Wiring) -> None:
    """Refuse a wiring that is not that of an automaton with one coordinate per state."""
    once = (wiring.reads.sum(0), wiring.writes.sum(0), wiring.initial.sum(), wiring.answers.sum(0))
    if not all(bool(np.all(count == 1)) for count in once):
        raise InputError("the wiring is not one-hot; give that of Wiring.one_hot")


def _not_proved(what: str) -> InputError:
    return InputError(f"the compiled model is not proved right: {what} fails; give other gains")
