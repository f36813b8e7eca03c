"""Bounds of a compiled model as it is run: docs/compiled_automata_floats.md.

Every operation that the program executes for a token may be off as `theory.rigorous.rounded` says, in any
order of sums.
"""

from dataclasses import dataclass

import numpy as np

from automata.errors import InputError
from implicit.compiled.bounds import LEAST_DAMPING, one_epsilon
from implicit.compiled.executed_block import ExecutedBlock, require
from implicit.compiled.weights import Wiring, constants_of
from implicit.models.implicit_model import ImplicitModel
from theory.rigorous.balls.ball import Ball
from theory.rigorous.rounded import FORMATS, FloatFormat

LARGEST_RTOL = 1e-3
"""The default bound on the relative tolerance; a looser one leaves latents farther from where they belong."""


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
    """Prove that a model of `compile_automaton`, run in its own float32 or float64, is right on every word.

    It may be run with any relative tolerance up to ``rtol``, and functions of one number may err by ``ulps``.
    InputError if the model is not of this wiring, or one of the inequalities does not hold.

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
    constants = constants_of(model, wiring)
    with np.errstate(all="ignore"):  # beyond the range of floats nothing holds: NaN compares as false
        block = ExecutedBlock.of(constants, wiring, form, damping=config.damping, epsilon=one_epsilon(model))
        return _proved(block, rtol)


def _proved(block: ExecutedBlock, rtol: float) -> ExecutedBounds:
    """Prove the inequalities, or raise an error that names the first that does not hold."""
    leftover = leak = off = 0.0
    for _ in range(80):  # nothing rests on how these are found
        writes = block.writes(Ball.exact(leftover), Ball.exact(leak), Ball.exact(off))
        later, first = block.readings(writes)
        needed = [max(float(part.upper) for part in pair) for pair in zip(later[:2], first[:2], strict=True)]
        dominance = min(float(reading.dominance.lower) for reading in (later, first))
        reached = float(block.off(Ball.exact(dominance), rtol).upper)
        leftover, leak, off = (1.0001 * found for found in (*needed, reached))
        require(max(leftover, leak) < 1 and dominance >= 8, "the last state outweighs the rest")
    rho, pi, zeta = Ball.exact(leftover), Ball.exact(leak), Ball.exact(off)
    require(leftover <= 0.25 and leak < 1, "what is left over is at most a quarter")
    writes = block.writes(rho, pi, zeta)
    require(bool(writes.least.lower > 0), "the state that is entered is written")
    require(bool(writes.leaked.lower >= 0 and writes.leaked.upper < 1), "others are hardly written")
    later, first = block.readings(writes)
    for words, reading in (("a memory", later), ("the beginning", first)):
        require(bool(reading.least.lower > 0), f"{words} is read")
        require(bool((reading.others - rho).upper <= 0), f"{words} outweighs the rest")
        require(bool((reading.negative - pi).upper <= 0), f"what is negative beside {words} is a leak")
    dominance = min(float(later.dominance.lower), float(first.dominance.lower))
    require(bool(block.length.upper <= 1.01), "latents do not grow")
    require(dominance >= 8, "the layer outweighs the latent")
    require(bool((block.off(Ball.exact(dominance), rtol) - zeta).upper <= 0), "latents stay in place")
    margin = float(block.apart(rho, pi, zeta).lower)
    require(margin > 0, "the right answer wins")
    return ExecutedBounds(
        dtype=block.form.name,
        ulps=block.form.ulps,
        rtol=rtol,
        leftover=leftover,
        leak=leak,
        least_write=float(writes.least.lower),
        most_write=float(writes.most.upper),
        leaked=float(writes.leaked.upper),
        least_read=float(later.least.lower),
        least_first=float(first.least.lower),
        dominance=dominance,
        length=float(block.length.upper),
        off=off,
        margin=margin,
    )
