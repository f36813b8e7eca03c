"""The answer of a model to a word: ``python -m implicit.answer parity-small 1 0 1 1``.

The weights are float64, and the mode is sequential. So words may have any length, also on standard input
(``-``). `docs/certificates.md` says for which runs, and under which assumptions, the answer is proved.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence

import torch

from automata.errors import InputError, printable, unknown_name
from implicit.cells.plain import in_double_precision
from implicit.command_line import CommandParser, add_allow_code_flag, read_number, run_command
from implicit.fixed_point import Stopping
from implicit.models.interface import warn_unless_converged
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from implicit.threads import add_threads_flag, chosen_threads

RTOL = 1e-10
"""Far above what float64 leaves of a residual, far below what training stops at."""


@torch.no_grad()
def answers(run: Run, tokens: Iterable[str], rtol: float = RTOL) -> Iterator[str]:
    """Yield the answer after every token name; a `NotConvergedWarning` tells of one without a fixed point.

    The weights are taken in float64 on a CPU, and the limit of iterations is that of the run.
    """
    model = in_double_precision(run.model).cpu()
    numbers = {name: number for number, name in enumerate(run.task.token_names)}
    implicit = model.implicit
    limit = 1 if implicit is None else implicit.without_kernels().stopping.max_iterations
    solve, state = Solve("sequential", stopping=Stopping(rtol=rtol, max_iterations=limit)), None
    for name in tokens:
        if name not in numbers:
            raise unknown_name("token", name, list(numbers))
        output = model.run(torch.tensor([[numbers[name]]]), state, solve)
        warn_unless_converged(model, output.solution)
        state = output.state
        if (answer := int(output.answers[0, 0])) < 0:
            raise InputError(f"the logits after {printable(name)} are NaN; give a shorter word")
        yield run.task.target_names[answer]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes."""
    parser = CommandParser(
        prog="python -m implicit.answer",
        description="Print what a model answers to a word, in float64, token after token.",
    )
    parser.add_argument("run", help="run folder, or the name of a stored run")
    parser.add_argument("tokens", nargs="*", help="the word, token names; - reads them from standard input")
    add_allow_code_flag(parser)
    add_threads_flag(parser)
    parser.add_argument("--rtol", default=RTOL, metavar="X", help=f"relative tolerance (default: {RTOL})")
    arguments = parser.parse_args(argv)
    rtol = read_number("rtol", arguments.rtol, float)
    word: Iterable[str] = arguments.tokens
    if arguments.tokens == ["-"]:
        word = (name for line in sys.stdin for name in line.split())
    run, before = load_run(arguments.run, allow_code=arguments.allow_code), ""
    with chosen_threads(arguments.threads, run.model.parameter_count):
        for answer in answers(run, word, rtol):
            print(before + printable(answer), end="", flush=True)
            before = " "
    print()


if __name__ == "__main__":
    sys.exit(run_command(main))
