"""A whole training step of the S5 recipe's sizes: loss, contraction penalty and gradient, on one thread.

Before: the fixed points by simultaneous sweeps or by windows, the scan in chunks, the exact gradient by
factors of every token. After: all of them by kernels. Before anything is timed, the solve by kernels has to
converge everywhere, and its gradients have to be those of the same rule in plain PyTorch.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError
from implicit import load_run
from implicit.cells import Mamba2Cell
from implicit.config.curriculum import TRAINING_WINDOWS, Phase
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, GradientRule, Phantom
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Windowed
from implicit.penalties.contraction import Contraction
from implicit.training.objective import Objective, objective
from implicit.training.streams import Stream, TokenBatch, draw_batch

RUN, SEQUENCES, PENALTY = "s5-generators", 64, 0.003
LENGTHS = (8, 24, 40)
STOPPING = Stopping(rtol=0.01, max_iterations=60)
TOLERANCE = 0.01  # distance of gradients over their norm: two solvers, relative residuals of 1e-5, in float32
RULES: dict[str, GradientRule] = {"phantom": Phantom(4), "exact": FactoredImplicit()}


def cases() -> Iterator[Case]:
    run = load_run(RUN)
    model = run.model
    assert isinstance(model, ImplicitModel)
    for length in LENGTHS:
        batch = draw_batch(run.task, SEQUENCES, length, 0, Stream.TRAIN, 1)
        make = partial(_contender, model, batch)
        yield Case(
            parameters={"run": RUN, "sequences": SEQUENCES, "length": length, "rtol": STOPPING.rtol},
            check=partial(check, model, batch),
            contenders=(
                make("before, simultaneous, phantom", "simultaneous", "phantom", kernels=False),
                make("before, windows, phantom", TRAINING_WINDOWS, "phantom", kernels=False),
                make("before, windows, exact", TRAINING_WINDOWS, "exact", kernels=False),
                make("kernels, phantom", "auto", "phantom", kernels=True),
                make("kernels, exact", "auto", "exact", kernels=True),
            ),
            turns=3,
        )


def _contender(
    model: ImplicitModel, batch: TokenBatch, name: str, mode: "str | Windowed", rule: str, *, kernels: bool
) -> Contender:
    work = partial(step, model, batch, mode, RULES[rule], STOPPING, kernels=kernels)
    solution = work().solution
    assert solution is not None
    evaluations = round(solution.evaluations.double().mean().item(), 1)
    return Contender(name, work, {"evaluations_a_token": evaluations})


def step(
    model: ImplicitModel,
    batch: TokenBatch,
    mode: "str | Windowed",
    rule: GradientRule,
    stopping: Stopping,
    *,
    kernels: bool,
) -> Objective:
    model.without_kernels()
    if kernels:
        model.sequential_backend = "auto"
        for cell in model.cells:
            assert isinstance(cell, Mamba2Cell)
            cell.backend = "auto"
    penalties = {"contraction": Contraction(weight=PENALTY)}
    phase = Phase("free", batch.tokens.shape[1], rule, stopping, penalties, mode=mode)  # type: ignore[arg-type]
    model.zero_grad()
    result = objective(model, batch, phase, torch.Generator().manual_seed(0))
    result.total.backward()
    return result


def gradient_of(model: ImplicitModel) -> Tensor:
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


def check(model: ImplicitModel, batch: TokenBatch) -> None:
    tight = Stopping(rtol=1e-5, max_iterations=1000)
    for name, rule in RULES.items():
        solution = step(model, batch, "auto", rule, tight, kernels=True).solution
        if solution is None or solution.mode != "sequential" or solution.share_converged < 1:
            raise IncorrectError("the kernel did not solve every token")
        ours = gradient_of(model)
        step(model, batch, "simultaneous", rule, tight, kernels=False)
        theirs = gradient_of(model)
        off = float((ours - theirs).norm() / theirs.norm())
        if not off <= TOLERANCE:
            raise IncorrectError(f"the {name} gradient is off by {off:.1e} of its norm")


BENCHMARK = Benchmark(
    "training_step",
    "A training step of S5: solve, penalty and gradient, before and after the kernels for CPUs",
    cases,
    checked="every token solved, gradients by kernels within 1% of those in plain PyTorch",
    headlines=tuple(
        Headline(f"Training step of S5, 64 x {length} tokens, {title}", more, less, {"length": length})
        for length in LENGTHS[1:]
        for title, more, less in (
            ("phantom gradient", "before, simultaneous, phantom", "kernels, phantom"),
            ("exact gradient", "before, windows, exact", "kernels, exact"),
            ("exact by kernels against phantom before", "before, simultaneous, phantom", "kernels, exact"),
        )
    ),
)
