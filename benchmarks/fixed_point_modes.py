"""What simultaneous and sequential evaluation of the stored parity model cost at three lengths."""

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from analysis.framework.needs import as_implicit
from benchmarks.frame import Benchmark, Case, Contender, IncorrectError
from benchmarks.solvers import WATCHED_LENGTHS, Solved, require_converged, solve, watched
from implicit import load_run
from implicit.fixed_point import Stopping
from implicit.modes import Mode, SequenceSolution
from implicit.training.streams import Stream, draw_batch

RUN = "parity"
SEQUENCES = 16
LENGTHS = (32, 128, 256)
MODES: tuple[Mode, Mode] = ("simultaneous", "sequential")
STOPPING = Stopping(rtol=1e-3, max_iterations=1000)


def cases() -> Iterator[Case]:
    run = load_run(RUN)
    model = as_implicit(run)
    model.without_kernels()  # modes are compared, not PyTorch with a kernel
    for length in LENGTHS:
        tokens, labels = draw_batch(run.task, SEQUENCES, length, 0, Stream.TEST, length)[:2]
        solutions = {mode: solve(model, tokens, mode, STOPPING) for mode in MODES}
        yield Case(
            parameters={"run": RUN, "sequences": SEQUENCES, "length": length, "rtol": STOPPING.rtol},
            check=partial(check, solutions, labels),
            contenders=tuple(
                Contender(
                    mode,
                    partial(solve, model, tokens, mode, STOPPING),
                    {"token_evaluations": evaluations(solutions[mode][0], mode)},
                    allocator="torch" if length <= WATCHED_LENGTHS[mode] else None,
                    watched=watched(model, tokens, mode, solutions[mode][0], STOPPING.rtol),
                )
                for mode in MODES
            ),
            turns=3,
        )


def evaluations(solution: SequenceSolution, mode: Mode) -> int:
    """Evaluations of Φ of one token; what is solved together goes on until the last of it is done."""
    batch, length = solution.iterations.shape
    if mode == "simultaneous":
        return int(solution.iterations.max()) * batch * length
    return int(solution.iterations.max(dim=0).values.sum()) * batch


def check(solutions: dict[Mode, Solved], labels: Tensor) -> None:
    """Both modes converge at every token and decode the same answers, the right ones."""
    require_converged(solutions)
    for mode, (_, decoded) in solutions.items():
        right = (decoded == labels).double().mean().item()
        if right < 1:
            raise IncorrectError(f"{mode}: only {right:.2%} of the answers are right")


BENCHMARK = Benchmark(
    "fixed_point_modes",
    "Simultaneous against sequential evaluation of the parity model",
    cases,
    checked="all tokens converge and all answers are right",
)
