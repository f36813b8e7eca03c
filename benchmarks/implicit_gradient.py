"""The cost of the gradient rules at the fixed points of stored runs, and how far they are from the exact one.

Timed is one backward pass through solutions that are given: the attached steps or evaluation, the adjoint,
and the gradient of all parameters. Before that, the factored gradient has to be the iterated one.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from analysis.framework.needs import as_implicit
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError
from implicit import load_run
from implicit.fixed_point import DampedPicard, Solution, Stopping
from implicit.gradients import GradientRule, Implicit, Phantom
from implicit.gradients.rules import FactoredImplicit
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve, Windowed
from implicit.training.streams import Stream, draw_batch

SIZES = (  # run, sequences, length, turns
    ("parity", 64, 32, 5),
    ("parity", 64, 128, 3),
    ("s5-generators", 96, 24, 3),
    ("s5-generators", 16, 128, 3),
)
TOLERANCE = 1e-3
"""The tolerance of the gradients: an adjoint iterated to 1e-5, with the errors that tokens hand on."""


def iterated(rtol: float) -> Implicit:
    return Implicit(solver=DampedPicard(1.0), stopping=Stopping(rtol=rtol, max_iterations=2000))


RULES: dict[str, GradientRule] = {
    "phantom-4": Phantom(4),
    "iterated to 1e-1": iterated(1e-1),
    "iterated to 1e-3": iterated(1e-3),
    "iterated to 1e-5": iterated(1e-5),
    "factored": FactoredImplicit(),
}


def cases() -> Iterator[Case]:
    for name, sequences, length, turns in SIZES:
        run = load_run(name)
        model = as_implicit(run)
        tokens, labels = draw_batch(run.task, sequences, length, 0, Stream.TEST, length)[:2]
        with torch.no_grad():
            stopping = Stopping(rtol=1e-6, max_iterations=4000)
            solution = model.fixed_points(tokens, solve=Solve(Windowed(block=None), stopping=stopping))
        works = {
            rule_name: partial(gradient, model, tokens, labels, solution, rule)
            for rule_name, rule in RULES.items()
        }
        found = {rule_name: work() for rule_name, work in works.items()}
        yield Case(
            parameters={"run": name, "sequences": sequences, "length": length},
            check=partial(check, found),
            contenders=tuple(
                Contender(
                    rule_name,
                    work,
                    {"distance_to_exact": distance(found[rule_name], found["factored"])},
                )
                for rule_name, work in works.items()
            ),
            turns=turns,
        )


def gradient(
    model: FixedPointModel, tokens: Tensor, labels: Tensor, solution: Solution, rule: GradientRule
) -> Tensor:
    """The gradient of the cross-entropy in all parameters, as one vector."""
    found = rule.attach(model.problem(tokens), model.solver, model.stopping, solution)
    loss = functional.cross_entropy(model.get_submodule("head")(found.value).flatten(0, 1), labels.flatten())
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def distance(one: Tensor, other: Tensor) -> float:
    return float(f"{(one - other).norm() / other.norm():.1e}")


def check(found: dict[str, Tensor]) -> None:
    apart = distance(found["iterated to 1e-5"], found["factored"])
    if not apart <= TOLERANCE:
        raise IncorrectError(f"factored and iterated gradients differ by {apart:.1e} of their norm")


BENCHMARK = Benchmark(
    "implicit_gradient",
    "Gradient rules at the fixed point: time and exactness",
    cases,
    checked="the factored gradient equals the one iterated to 1e-5",
    headlines=tuple(
        Headline(
            f"Implicit gradient of {label}, {sequences} x {length} tokens",
            "iterated to 1e-3",
            "factored",
            {"run": name, "sequences": sequences, "length": length},
        )
        for label, name, sequences, length in (("parity", "parity", 64, 32), ("S5", "s5-generators", 16, 128))
    ),
)
