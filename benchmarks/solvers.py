"""The cost of the three modes of evaluation on the stored runs, from the training length to 64 times it.

Before anything is timed, the windowed mode has to give the sequential mode's answer: the same status and the
same decoded token everywhere.
"""

from collections.abc import Iterator, Mapping
from functools import partial

import torch
from torch import Tensor

from analysis.framework.needs import as_implicit
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError
from implicit import load_run
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Mode, SequenceSolution, Solve
from implicit.training.streams import Stream, draw_batch

Solved = tuple[SequenceSolution, Tensor]  # fixed points, and what is decoded from them, ``[batch, length]``

MODES: tuple[Mode, ...] = ("simultaneous", "sequential", "windowed")
SIZES = (  # run, sequences, length, relative tolerance, turns
    ("parity", 8, 32, 1e-3, 5),
    ("parity", 8, 128, 1e-3, 3),
    ("parity", 8, 512, 1e-3, 3),
    ("parity", 1, 512, 1e-3, 3),
    ("parity", 1, 2048, 1e-3, 3),
    ("s3", 8, 32, 1e-3, 3),
    ("s3", 8, 128, 1e-3, 3),
    ("s3", 8, 512, 1e-3, 3),
    # 120 classes: at 1e-3 a near tie of two of them is decided by the error that the tolerance allows
    ("s5-generators", 8, 32, 1e-4, 3),
    ("s5-generators", 8, 64, 1e-4, 3),
    ("s5-generators", 4, 256, 1e-4, 3),
)
AIMED_LENGTH = 512


def cases() -> Iterator[Case]:
    for name, sequences, length, rtol, turns in SIZES:
        run = load_run(name)
        model = as_implicit(run)
        model.without_kernels()  # modes are compared, not PyTorch with a kernel
        tokens = draw_batch(run.task, sequences, length, 0, Stream.TEST, length).tokens
        stopping = Stopping(rtol=rtol, max_iterations=4000)
        solutions = {mode: solve(model, tokens, mode, stopping) for mode in MODES}
        yield Case(
            parameters={"run": name, "sequences": sequences, "length": length, "rtol": rtol},
            check=partial(check, solutions),
            contenders=tuple(
                Contender(
                    mode,
                    partial(solve, model, tokens, mode, stopping),
                    {"evaluations_a_token": round(solutions[mode][0].evaluations.double().mean().item(), 1)},
                )
                for mode in MODES
            ),
            turns=turns,
        )


@torch.no_grad()
def solve(model: FixedPointModel, tokens: Tensor, mode: Mode, stopping: Stopping) -> Solved:
    output = model.run(tokens, solve=Solve(mode, stopping=stopping))
    assert output.solution is not None
    return output.solution, output.logits.argmax(-1)


def check(solutions: Mapping[Mode, Solved]) -> None:
    for mode, (solution, _) in solutions.items():
        if solution.share_converged < 1:
            raise IncorrectError(f"{mode}: only {solution.share_converged:.2%} of the tokens converged")
    differ = int((solutions["windowed"][1] != solutions["sequential"][1]).sum())
    if differ:
        raise IncorrectError(f"windowed and sequential decode {differ} tokens differently")


BENCHMARK = Benchmark(
    "solvers",
    "Modes of evaluation: token evaluations and time",
    cases,
    checked="all tokens converge, windowed decodes what sequential decodes",
    headlines=tuple(
        Headline(
            f"Fixed points of {label}, {sequences} x {length} tokens",
            "simultaneous",
            "windowed",
            {"run": name, "sequences": sequences, "length": length},
            quantity=quantity,
            aim=aim if length == AIMED_LENGTH else "",
        )
        for label, name, sequences, length in (
            ("parity", "parity", 8, 512),
            ("parity", "parity", 1, 2048),
            ("S3", "s3", 8, 512),
            ("S5", "s5-generators", 8, 64),
            ("S5", "s5-generators", 4, 256),
        )
        for quantity, aim in (("evaluations_a_token", "at least 5"), ("seconds", "at least 3"))
    ),
)
