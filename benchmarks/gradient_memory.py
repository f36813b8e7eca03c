"""Memory of the backward pass, by the number of self-iterations before it.

Every rule starts from the fixed point, found beforehand in float64, and then takes n iterations, none fewer.
So the right gradients are known for every n: that of the implicit function theorem for `Implicit`, and the
first terms of its Neumann series for `Unrolled` and `Phantom`, which are the whole of it at 64 terms.
"""

import copy
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from analysis.framework.needs import as_implicit
from benchmarks.frame import Benchmark, Case, Contender, Headline, require_close
from implicit import load_run
from implicit.fixed_point import Stopping
from implicit.gradients import GradientRule, Implicit, Phantom, Unrolled
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from implicit.training.streams import Stream, draw_batch

RUN, SEQUENCES, LENGTH = "parity", 8, 32
ITERATIONS = (4, 16, 64)
WHOLE = 64  # terms from which on the series is the implicit gradient: what is left is below 1e-6 of it
ADJOINT = Stopping(rtol=1e-5, max_iterations=1000)
TOLERANCE = 1e-4
"""Error of float32 gradients over the largest entry; the adjoint is solved to a tenth of that."""


def cases() -> Iterator[Case]:
    run = load_run(RUN)
    model = as_implicit(run)
    tokens, labels = draw_batch(run.task, SEQUENCES, LENGTH, 0, Stream.TEST, LENGTH)[:2]
    double = copy.deepcopy(model).double()
    start = fixed_points(double, tokens)
    exact = gradient(double, tokens, labels, start, Implicit(stopping=Stopping(rtol=1e-11)), 1)
    for iterations in ITERATIONS:
        rules: dict[str, GradientRule] = {
            "unrolled": Unrolled(iterations),
            "phantom, 4 steps": Phantom(4, model.solver.damping),
            "implicit": Implicit(stopping=ADJOINT),
        }
        right = {
            "unrolled": gradient(double, tokens, labels, start, rules["unrolled"], iterations),
            "phantom, 4 steps": gradient(double, tokens, labels, start, Unrolled(4), 4),
            "implicit": exact,
        }
        if iterations >= WHOLE:
            right["unrolled"] = exact
        works = {
            name: partial(gradient, model, tokens, labels, start.float(), rule, iterations)
            for name, rule in rules.items()
        }
        yield Case(
            parameters={"run": RUN, "sequences": SEQUENCES, "length": LENGTH, "iterations": iterations},
            check=partial(check, works, right),
            contenders=tuple(Contender(name, work, memory=True) for name, work in works.items()),
            turns=5,
        )


@torch.no_grad()
def fixed_points(model: FixedPointModel, tokens: Tensor) -> Tensor:
    solution = model.fixed_points(
        tokens, solve=Solve("simultaneous", stopping=Stopping(rtol=1e-12, max_iterations=2000))
    )
    solution.require_converged()
    return solution.value


def gradient(
    model: FixedPointModel, tokens: Tensor, labels: Tensor, start: Tensor, rule: GradientRule, iterations: int
) -> Tensor:
    """The gradient of the cross-entropy in all parameters, one after the other, ``[parameters]``."""
    # Nothing is within a tolerance of zero, so that no iteration is saved.
    stopping = Stopping(rtol=0, max_iterations=iterations)
    solve = Solve("simultaneous", start=start, stopping=stopping, gradient=rule)
    output = model.run(tokens, solve=solve)
    loss = cross_entropy(output.logits.flatten(0, 1), labels.flatten(), reduction="sum")
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def check(works: dict[str, partial[Tensor]], right: dict[str, Tensor]) -> None:
    """Every gradient is what it should be, computed in float64 by another rule where there is one."""
    for name, work in works.items():
        require_close(f"{name}: the gradient is off", work().double(), right[name], TOLERANCE)


BENCHMARK = Benchmark(
    "gradient_memory",
    "Peak memory of a gradient, by the number of self-iterations",
    cases,
    checked="gradients equal those in float64 to 1e-4",
    headlines=tuple(
        Headline(
            f"Memory of a gradient through {iterations} self-iterations, parity, 8 x 32 tokens",
            "unrolled",
            "implicit",
            {"iterations": iterations},
            quantity="peak_bytes",
        )
        for iterations in (ITERATIONS[0], ITERATIONS[-1])
    ),
)
