"""What simultaneous and sequential evaluation of the stored parity model cost at three lengths."""

from collections.abc import Mapping
from functools import partial

from torch import Tensor

from benchmarks.frame import Benchmark, IncorrectError
from benchmarks.solvers import Solved, cases_of, require_converged
from implicit.modes import Mode, SequenceSolution

SIZES = tuple(("parity", 16, length, 1e-3, 3) for length in (32, 128, 256))
MODES: tuple[Mode, Mode] = ("simultaneous", "sequential")


def evaluations(solution: SequenceSolution, mode: Mode) -> dict[str, float]:
    """Evaluations of Φ of one token; what is solved together goes on until the last of it is done."""
    batch, length = solution.iterations.shape
    if mode == "simultaneous":
        return {"token_evaluations": int(solution.iterations.max()) * batch * length}
    return {"token_evaluations": int(solution.iterations.max(dim=0).values.sum()) * batch}


def check(solutions: Mapping[Mode, Solved], labels: Tensor) -> None:
    require_converged(solutions)
    for mode, (_, decoded) in solutions.items():
        right = (decoded == labels).double().mean().item()
        if right < 1:
            raise IncorrectError(f"{mode}: only {right:.2%} of the answers are right")


BENCHMARK = Benchmark(
    "fixed_point_modes",
    "Simultaneous against sequential evaluation of the parity model",
    partial(cases_of, SIZES, MODES, 1000, check, evaluations),
    checked="all tokens converge and all answers are right",
)
