"""Compile a task into a model, without training: ``python -m implicit.compile --task S3 --out runs/s3``."""

import sys
from collections.abc import Sequence
from typing import Any

from automata.errors import InputError, printable
from implicit.command_line import CommandParser, read_number, run_command
from implicit.compiled.compile import compile_run
from implicit.compiled.weights import Gains


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes."""
    arguments = _parser().parse_args(argv)
    gains = {name: read_number(name, getattr(arguments, name), float) for name in _GAINS}
    damping = read_number("damping", arguments.damping, float)
    task: Any = arguments.task
    if arguments.task_file is not None:
        task = {"file": arguments.task_file}
    if arguments.regex is not None:
        task = {"regex": arguments.regex}
    if task is None:
        raise InputError("task is missing; give one with --task, --regex or --task-file")
    if arguments.out is None:
        raise InputError("out is missing; give a run folder with --out")
    run = compile_run(task, arguments.out, Gains(**gains), damping=damping)
    machine = run.task.machine()
    assert machine is not None  # or it would not have been compiled
    told = (
        f"{run.path}: {run.config.model} for {run.task.name}, compiled, not trained: {machine.state_count} "
        f"states, {machine.token_count} tokens, {run.model.parameter_count()} parameters"
    )
    print(printable(told))


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="python -m implicit.compile",
        description="Write a task's automaton into the weights of an implicit Mamba-2 model; no training.",
    )
    parser.add_argument("--out", metavar="FOLDER", help="the run folder, made if it does not exist")
    tasks = parser.add_mutually_exclusive_group()
    tasks.add_argument("--task", metavar="NAME", help="name of the task, or module:name of one of your own")
    tasks.add_argument("--regex", metavar="PATTERN", help="track the automaton of a regular expression")
    tasks.add_argument("--task-file", metavar="FILE", help="JSON with an automaton, a monoid, ...")
    for name, meaning in _GAINS.items():
        default = getattr(Gains, name)
        parser.add_argument(
            f"--{name}", default=default, metavar="X", help=f"{meaning} (default: {default:g})"
        )
    parser.add_argument(
        "--damping", default=1.0, metavar="X", help="of the iteration, above 0 and at most 1 (default: 1)"
    )
    return parser


_GAINS = {
    "decay": "by which the memory fades per token, at most 1/16",
    "sharpness": "slope with which the latent decides what is written, at least 64",
    "start": "share of a memory that stands for the initial state, at most 1/16",
    "dominance": "length of the layer's output, in lengths of the latent, at least 16",
}

if __name__ == "__main__":
    sys.exit(run_command(main))
