"""After how many reveals the linear filter leaves a floating-point format: predicted, and run in that format.

The log-mass falls by h per reveal (``decay``), from 0. So subnormal numbers begin after about −log(smallest
normal number)/h reveals, and all is 0 after about −log(half the smallest subnormal number)/h, with a spread
of √(V × length)/h. On hardware that flushes subnormal numbers, as GPUs' matrix units may, the first of
these lengths is the last. ``docs/belief.md`` says how accurate the filter is until then.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from automata.checks import check_number, check_type
from automata.errors import InputError
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from theory.belief.filters import BayesFilter
from theory.belief.reachable import TokenSource, check_source


@dataclass(frozen=True)
class UnderflowLengths:
    """Numbers of reveals until something happens, one for each sequence, −1 where it did not.

    Attributes:
        subnormal: the mass is below the smallest normal number.
        zero: it is 0.
        inaccurate: the belief is off by more than a tolerance, in total variation, for the first time.
        early_error: the mean total variation while the mass is normal.
    """

    subnormal: Tensor
    zero: Tensor
    inaccurate: Tensor
    early_error: float


def format_information(dtype: torch.dtype) -> torch.finfo:
    """Return what PyTorch knows of a floating-point format.

    InputError for an integer type, or what is no type of PyTorch.
    """
    remedy = "give a floating-point type such as torch.float32"
    check_type("dtype", dtype, torch.dtype, remedy)
    if not dtype.is_floating_point:
        raise InputError(f"dtype is {dtype}; {remedy}")
    return torch.finfo(dtype)


def predicted_underflow(rate: float, dtype: torch.dtype) -> tuple[float, float]:
    """Return the numbers of reveals until subnormal numbers begin, and until the mass rounds to 0.

    InputError if the rate, in nats per reveal, is not above 0, or the type not a floating-point one.

    Example:
        One bit per reveal:

        >>> import math
        >>> [round(n, 6) for n in predicted_underflow(math.log(2), torch.float32)]
        [126.0, 150.0]
    """
    if not check_number("rate", rate) > 0:
        raise InputError(f"rate is {rate}; give one above 0, as without decay nothing underflows")
    info = format_information(dtype)
    normal, rounds_to_zero = np.log(info.smallest_normal), np.log(info.smallest_normal) + np.log(info.eps / 2)
    return float(-normal / rate), float(-rounds_to_zero / rate)


def observed_underflow(
    automaton: ProbabilisticAutomaton,
    source: TokenSource,
    dtype: torch.dtype,
    sequences: int,
    longest: int,
    rng: np.random.Generator,
    *,
    tolerance: float = 0.05,
    flush: bool = False,
) -> UnderflowLengths:
    """Run the linear filter in a format beside the exact one, and count reveals.

    Each product is rounded to the format; sums are PyTorch's, which accumulates those of 16 bits in float32
    and rounds once. A belief is inaccurate whose total variation from the exact one is above the tolerance;
    ``flush`` sets subnormal numbers to zero while this runs. InputError if the source is none of this
    automaton's, the type no floating-point one, or this processor cannot flush subnormal numbers.
    """
    check_source(automaton, source)
    format_information(dtype)
    tokens = source.sample(sequences, longest, rng)
    _, values = automaton.sample(tokens, rng)
    belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    observations = belief.observations(tokens, values)
    operators = belief.operators.to(dtype)
    if flush and not torch.set_flush_denormal(True):
        raise InputError("flush is True, and this processor cannot flush subnormal numbers; leave it out")
    try:
        return _count(belief, operators, observations, tolerance)
    finally:
        if flush:
            torch.set_flush_denormal(False)


def _count(
    belief: BayesFilter, operators: Tensor, observations: Tensor, tolerance: float
) -> UnderflowLengths:
    sequences = len(observations)
    info = torch.finfo(operators.dtype)
    linear = belief.initial.to(operators.dtype).expand(sequences, -1)
    exact = belief.initial.expand(sequences, -1)
    reveals = torch.zeros(sequences, dtype=torch.int64)
    events = {name: torch.full((sequences,), -1) for name in ("subnormal", "zero", "inaccurate")}
    errors, counted = 0.0, 0
    for position in range(observations.shape[1]):
        seen = observations[:, position]
        exact = belief.update(exact, seen)
        linear = (operators[seen] * linear[:, None, :]).sum(dim=-1)
        reveals += seen >= belief.actions
        wide = linear.double()
        mass = wide.sum(dim=-1)
        read = wide / torch.where(mass > 0, mass, 1.0)[:, None]
        variation = (read - exact).abs().sum(dim=-1) / 2
        normal = mass >= info.smallest_normal
        errors += float(variation[normal].sum())
        counted += int(normal.sum())
        happened = {"subnormal": ~normal, "zero": mass == 0, "inaccurate": variation > tolerance}
        for name, now in happened.items():
            events[name] = torch.where((events[name] < 0) & now, reveals, events[name])
        if (mass == 0).all():
            break
    return UnderflowLengths(**events, early_error=errors / max(counted, 1))
