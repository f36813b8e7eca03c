"""What the three modes of evaluation cost on the stored runs, from the training length to 64 times it.

Before anything is timed, the windowed mode has to give the sequential mode's answer: the same status and the
same decoded token everywhere.
"""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.frame import Benchmark, Case, Contender, IncorrectError
from implicit import ImplicitMamba2, load_run
from implicit.fixed_point import Stopping
from implicit.model import Mode, SequenceSolution
from implicit.streams import Stream, draw_batch

MODES: tuple[Mode, ...] = ("simultaneous", "sequential", "windowed")
SIZES = (  # run, sequences, length, relative tolerance, turns
    ("parity", 8, 32, 1e-3, 5),
    ("parity", 8, 128, 1e-3, 3),
    ("parity", 8, 512, 1e-3, 3),
    ("parity", 1, 512, 1e-3, 3),
    ("parity", 1, 2048, 1e-3, 3),
    # 120 classes: at 1e-3 a near tie of two of them is decided by the error that the tolerance allows
    ("s5-generators", 8, 32, 1e-4, 3),
    ("s5-generators", 8, 64, 1e-4, 3),
)


def cases() -> Iterator[Case]:
    for name, sequences, length, rtol, turns in SIZES:
        run = load_run(name)
        model = run.model
        assert isinstance(model, ImplicitMamba2)
        tokens, _ = draw_batch(run.task, sequences, length, 0, Stream.TEST, length)
        stopping = Stopping(rtol=rtol, max_iterations=4000)
        solutions = {mode: solve(model, tokens, mode, stopping) for mode in MODES}
        yield Case(
            parameters={"run": name, "sequences": sequences, "length": length, "rtol": rtol},
            check=partial(check, solutions),
            contenders=tuple(
                Contender(
                    mode,
                    partial(solve, model, tokens, mode, stopping),
                    {"evaluations_a_token": round(solutions[mode].evaluations.double().mean().item(), 1)},
                )
                for mode in MODES
            ),
            turns=turns,
        )


@torch.no_grad()
def solve(model: ImplicitMamba2, tokens: Tensor, mode: Mode, stopping: Stopping) -> SequenceSolution:
    return model.solve(tokens, mode, stopping=stopping)


def check(solutions: dict[Mode, SequenceSolution]) -> None:
    """Every token converges in every mode, and the windowed mode decodes what the sequential one decodes."""
    for mode, solution in solutions.items():
        if solution.share_converged < 1:
            raise IncorrectError(f"{mode}: only {solution.share_converged:.2%} of the tokens converged")
    decoded = {mode: solution.logits.argmax(-1) for mode, solution in solutions.items()}
    differ = int((decoded["windowed"] != decoded["sequential"]).sum())
    if differ:
        raise IncorrectError(f"windowed and sequential decode {differ} tokens differently")


BENCHMARK = Benchmark("solvers", "Modes of evaluation: token evaluations and time", cases)
