"""Proved bounds of a compiled model: docs/compiled_automata_proofs.md for its very weights."""

import math
from dataclasses import dataclass

import numpy as np

from automata.errors import InputError
from implicit.compiled.weights import Places, Wiring, constants_of
from implicit.models.implicit_model import ImplicitModel
from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.functions import exp, silu, softplus, sqrt

_ONE = Ball.exact(1.0)


@dataclass(frozen=True)
class Terms:
    """Both sides of the inequalities, for one choice of ρ and π."""

    rho: Ball  # ρ
    pi: Ball  # π
    slack: Ball  # ζ, how far the direction of a latent may be off
    root_b: Ball  # √b
    pre_on: Ball  # K S⁻ − θ
    most_write: Ball  # X⁺
    off: Ball  # M
    least_on: Ball  # A
    most_other: Ball  # P + 2W
    most_negative: Ball  # W
    any_defect: Ball  # H
    least_first: Ball  # A₀


@dataclass(frozen=True, kw_only=True)
class Block:
    """Numbers of a compiled block, in exact arithmetic or all values that floats may make of them."""

    n: int  # states
    m: int  # outcomes
    N: int  # the inner width
    per_state: int  # b, the most outcomes of one state
    per_answer: int  # c, the most outcomes with one answer
    damping: float  # τ
    epsilon: float  # ε
    K: Ball  # slope of what is written, in lengths of the latent
    theta: Ball  # θ, its threshold
    kappa: Ball  # κ
    decay: Ball  # λ per token
    defect: Ball  # η
    most_start: Ball  # the most that the constant channels ever say, s (η₀ + κλ/(1 − λ))
    gate: Ball  # g, of open channels
    R: Ball  # out_proj's entry times √(N/d)


@dataclass(frozen=True, kw_only=True)
class BlockNumbers(Block):
    """The numbers of section 2 of the page, by the names that they have there; ``least_start`` is s η₀."""

    least_start: Ball

    def terms(self, leftover: float, leak: float) -> Terms:
        """Return the sides of the inequalities for ρ and π."""
        rho, pi = Ball.exact(leftover), Ball.exact(leak)
        decay, kappa, K, theta = self.decay, self.kappa, self.K, self.theta
        root_b = sqrt(Ball.exact(self.per_state))
        defect = Ball.exact(self.defect.magnitude)
        any_defect = defect * (Ball.exact(0.28) * float(self.n) + K * sqrt(Ball.exact(self.m)))
        slack = Ball.exact(1.8) / self.R
        slack = slack + Ball.exact(self.epsilon) / (Ball.exact(self.damping) * self.damping)
        pre_on = K * ((_ONE - pi) / sqrt(_ONE + rho * rho) - root_b * slack) - theta
        most_write = K * (_ONE + rho + root_b * slack) - theta
        off = theta - K * (rho + root_b * slack)
        faded = kappa * decay / (_ONE - decay)
        negative = faded * float(self.n) * off * exp(-off) + any_defect
        return Terms(
            rho=rho,
            pi=pi,
            slack=slack,
            root_b=root_b,
            pre_on=pre_on,
            most_write=most_write,
            off=off,
            least_on=kappa * decay * silu(pre_on) - negative,
            most_other=faded * decay * most_write + self.most_start + 2.0 * negative,
            most_negative=negative,
            any_defect=any_defect,
            least_first=self.least_start - any_defect,
        )

    def first_inequalities(self, t: Terms) -> dict[str, bool]:
        """Return whether (1) to (6) are proved, each by its words."""
        rho, pi = t.rho, t.pi
        return {
            "(1) the state that is on writes": bool(t.pre_on.lower > 0),
            "(2) the others write next to nothing": bool(t.off.lower >= 2),
            "(3) the last state outweighs the rest": bool(
                t.least_on.lower > 0 and (t.most_other - rho * t.least_on).upper <= 0
            ),
            "(4) what is negative is a leak": bool((t.most_negative - pi * t.least_on).upper <= 0),
            "(5) the first token reads the start": bool(
                t.least_first.lower > 0
                and (t.any_defect - rho * t.least_first).upper <= 0
                and (t.any_defect - pi * t.least_first).upper <= 0
            ),
            "(6) rest and leak are small": bool(
                rho.upper <= 0.25 and pi.upper <= 0.01 and (rho * rho + pi - rho).upper <= 0
            ),
        }

    def least_reading(self, t: Terms) -> Ball:
        """Return min(A, A₀)."""
        return Ball.exact(min(float(t.least_on.lower), float(t.least_first.lower)))

    def dominance(self, t: Terms) -> Ball:
        """Return R⁻: what the layer adds to the latent has at least so many times its greatest length."""
        size = _ONE + t.rho + 2.0 * t.pi
        gated = self.gate * self.least_reading(t)
        return self.R / sqrt(size * size + Ball.exact(self.N) * self.epsilon / (gated * gated))

    def contraction(self, t: Terms, dominance: Ball) -> Ball:
        """Return μ."""
        along = (
            self.R
            * sqrt(Ball.exact(self.n + 1))
            * Ball.exact(self.defect.magnitude)
            * 1.1
            * self.K
            * t.root_b
        )
        return (along / (self.least_reading(t) * sqrt(Ball.exact(self.epsilon))) + 1.0) / (dominance - 2.0)

    def apart(self, t: Terms) -> Ball:
        """Return by how much (9) holds."""
        right = (_ONE - t.pi - t.rho) / sqrt(_ONE + t.rho * t.rho)
        return right - sqrt(Ball.exact(2 * self.per_answer)) * t.slack

    def coupling(self, t: Terms, dominance: Ball, contraction: Ball) -> Ball:
        """Return q of theorem 3."""
        faded = _ONE / (_ONE - self.decay)
        off = 2.0 * t.off * exp(-t.off) * sqrt(Ball.exact(self.m)) * faded
        gain = 1.1 * self.K * self.decay * self.kappa / t.least_on * (_ONE + 2.0 * t.pi)
        near = (t.rho + self.decay * faded + off) * (_ONE + Ball.exact(4.0) / (dominance - 1.0))
        far = 5.0 * t.root_b / (dominance - 1.0) * (faded + off)
        return gain * (near + far) + 2.06 * t.root_b * contraction


LEAST_DAMPING = 0.1
"""Below it the proof says nothing."""


@dataclass(frozen=True)
class Bounds:
    """Proved bounds of a compiled model in exact arithmetic, on every word of every length.

    Attributes:
        leftover: ρ; all that the memory holds beside the last state weighs at most so much of it.
        leak: π; the part of it that is negative.
        contraction: μ, by which an undamped iteration of one token shrinks distances, within twice the length
            of a latent; the iteration enters that ball from any start.
        coupling: q, by which an undamped sweep over all tokens shrinks the error at least, once the sweeps
            have passed a token; infinite for a damped iteration, and nothing is proved by 1 or more.
        margin: least distance of the right answer's logit to any other at the fixed point, as a share of it.
    """

    leftover: float
    leak: float
    contraction: float
    coupling: float
    margin: float

    def extra_sweeps(self, rtol: float) -> int | None:
        """Return how many sweeps after the L-th are enough to a relative tolerance; None if not proved.

        In exact arithmetic, the last sweep counted, which only measures. In float32 a tolerance of 1e-6 is
        below what rounding leaves of some residuals, and is never met there.
        """
        if not self.coupling < 1:
            return None
        return math.ceil(math.log(4.1 / rtol) / -math.log(self.coupling)) + 1


def bounds_of(model: ImplicitModel, wiring: Wiring) -> Bounds:
    """Prove the inequalities for a model of `compile_automaton`, with its weights as their floats are.

    InputError if the model is not of this wiring, its configuration is another than that of the proof, or one
    of the inequalities does not hold; the message names it.

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
    return proved(numbers_of(model, wiring))


def proved(block: BlockNumbers) -> Bounds:
    """Prove the inequalities for the numbers of a block."""
    with np.errstate(
        all="ignore"
    ):  # beyond the range of floats nothing holds: a comparison with NaN is false
        return _proved(block, *_candidates(block))


def _proved(block: BlockNumbers, leftover: float, leak: float) -> Bounds:
    terms = block.terms(leftover, leak)
    for what, holds in block.first_inequalities(terms).items():
        if not holds:
            raise _not_proved(what)
    dominance = block.dominance(terms)
    if not (dominance.lower >= 8 and (1.5 * dominance - block.R).lower >= 0):
        raise _not_proved("(7) the layer outweighs the latent")
    contraction = block.contraction(terms, dominance)
    if not contraction.upper < 1:
        raise _not_proved("(8) the iteration contracts")
    if not block.apart(terms).lower > 0:
        raise _not_proved("(9) the right answer wins")
    simultaneous = block.damping == 1 and (terms.slack * terms.root_b).upper <= 0.05
    return Bounds(
        leftover=leftover,
        leak=leak,
        contraction=float(contraction.upper),
        coupling=float(block.coupling(terms, dominance, contraction).upper) if simultaneous else math.inf,
        margin=float((Ball.exact(1.0) - terms.rho / (Ball.exact(1.0) - terms.pi)).lower),
    )


def numbers_of(model: ImplicitModel, wiring: Wiring) -> BlockNumbers:
    """Read the numbers of the inequalities from a model; refuse one that is not as the proof assumes."""
    once = (wiring.reads.sum(0), wiring.writes.sum(0), wiring.initial.sum(), wiring.answers.sum(0))
    if not all(bool(np.all(count == 1)) for count in once):
        raise InputError("the wiring is not one-hot; give that of Wiring.one_hot")
    config = model.config
    if config.layers != 1 or config.mlp_size or not config.residual:
        raise InputError("the model is not one layer with a residual and without MLP; compile it again")
    if config.damping < LEAST_DAMPING:
        raise InputError(f"damping is {config.damping}; give at least {LEAST_DAMPING}")
    number = {name: Ball.exact(value) for name, value in vars(constants_of(model, wiring)).items()}
    places = Places.of(wiring)
    d, N = places.d_model, places.inner
    epsilon = one_epsilon(model)
    step, one = softplus(number["dt"]), Ball.exact(1.0)
    decay = exp(-(exp(number["a_log"]) * step))
    kappa = silu(number["c"]) * step * silu(number["b"])
    constant = silu(number["constant"])
    at_start = kappa + number["skip_start"]
    return BlockNumbers(
        n=wiring.memory,
        m=wiring.latent,
        N=N,
        per_state=int(wiring.writes.sum(1).max()),
        per_answer=int(wiring.answers.sum(1).max()),
        damping=config.damping,
        epsilon=epsilon,
        K=number["slope"] * sqrt(Ball.exact(d)),
        theta=-number["threshold"],
        kappa=kappa,
        decay=decay,
        defect=kappa + number["skip"],
        least_start=at_start * constant,
        most_start=(at_start + kappa * decay / (one - decay)) * constant,
        gate=silu(number["gate"] / sqrt(one / float(d) + epsilon)),
        R=number["out"] * sqrt(Ball.exact(N) / float(d)),
    )


def one_epsilon(model: ImplicitModel) -> float:
    """The ε of all norms of the block, which the proof takes to be one."""
    norms = [module for module in model.modules() if hasattr(module, "epsilon")]
    found = {float(norm.epsilon) for norm in norms}  # type: ignore[arg-type]
    if len(found) != 1:
        raise InputError(f"the norms of the model have several epsilons, {sorted(found)}; compile it again")
    return found.pop()


def _candidates(block: BlockNumbers) -> tuple[float, float]:
    """Numbers for ρ and π that the inequalities seem to hold for; nothing rests on how they are found."""
    leftover, leak = 0.0, 0.0
    for _ in range(60):
        terms: Terms = block.terms(leftover, leak)
        first = float(terms.any_defect.upper / terms.least_first.lower)
        leftover = 1.0001 * max(float(terms.most_other.upper / terms.least_on.lower), first)
        leak = 1.0001 * max(float(terms.most_negative.upper / terms.least_on.lower), first)
        if not (0 <= leftover < 1 and 0 <= leak < 1):
            raise _not_proved("(3) the last state outweighs the rest")
    return leftover, leak


def _not_proved(what: str) -> InputError:
    return InputError(f"the compiled model is not proved right: {what} fails; give other gains")
