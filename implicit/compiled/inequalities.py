"""The inequalities of docs/compiled_automata_proofs.md, section 3, in ball arithmetic."""

from dataclasses import dataclass

from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.functions import exp, silu, sqrt

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
