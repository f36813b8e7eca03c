"""Proved bounds of a compiled model: docs/compiled_automata_proofs.md for its very weights."""

import math
from dataclasses import dataclass

import numpy as np

from automata.errors import InputError
from implicit.compiled.inequalities import BlockNumbers, Terms
from implicit.compiled.weights import Places, Wiring, constants_of
from implicit.models.implicit_model import ImplicitModel
from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.functions import exp, silu, softplus, sqrt

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
