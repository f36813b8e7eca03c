"""Train a model: ``python -m implicit.train --task parity --model implicit-mamba2 --out runs/parity``.

Killed at any moment and started again, a run ends with the same bits as one that was never interrupted (on
the same machine, with the same versions and number of threads).
"""

import sys
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from automata.errors import InputError
from automata.tasks.registry import TASKS, make_task
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.config.curriculum import Curriculum
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.models.registry import MODEL_DESCRIPTIONS, size_fields
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, initial_model, load_run
from implicit.training.loop import take_steps

_OWN_FIELDS = {
    name: field for name, field in TrainConfig.model_fields.items() if name not in Curriculum.model_fields
}


def train(
    config: TrainConfig,
    out: str | PathLike[str],
    progress: bool = True,
    tensorboard: bool = False,
    device: str = "cpu",
) -> Run:
    """Train a model, or go on where an interrupted run of the same configuration stopped.

    Args:
        config: everything that determines the run.
        out: the run folder; made if it does not exist.
        progress: whether to show a progress bar on standard error.
        tensorboard: whether to write event files to ``out/tensorboard``.
        device: where to train, such as ``"cpu"`` or ``"cuda"``; the weights are the same only to rounding.

    Returns:
        The finished run; if it was finished before, nothing is computed.

    Raises:
        InputError: for a device that is not there, sizes that do not divide, a folder that holds something
            else or a run of another configuration, or a loss that is no longer finite.
        OSError: if the folder cannot be written; what was there stays whole.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> config = recipe("parity", "lstm", steps=3, warmup_steps=1, batch_size=8, d_model=4)
        >>> with TemporaryDirectory() as folder:
        ...     run = train(config, Path(folder) / "run", progress=False)
        >>> run.model.parameter_count(), [entry["step"] for entry in run.metrics]
        (178, [3])
    """
    folder = RunFolder(Path(out))
    task = make_task(config.task, config.hard_fraction)
    model = initial_model(config, task).to(_device(device))
    if not folder.begun:
        folder.begin(config)
    else:
        folder.check_same(config)
    if folder.finished:
        folder.clear()
        return load_run(folder.path)
    take_steps(config, task, model, folder, progress, tensorboard)
    folder.finish(model)
    return load_run(folder.path)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes.

    Example:
        >>> main(["--task", "partiy", "--model", "lstm", "--out", "runs/parity"])
        Traceback (most recent call last):
        automata.errors.InputError: task 'partiy' is unknown; did you mean 'parity'? Known: ...
    """
    arguments = _parser().parse_args(argv)
    if arguments.list:
        _print_names()
        return
    if arguments.out is None:
        raise InputError("out is missing; give a run folder with --out")
    folder = RunFolder(Path(arguments.out))
    fields, sizes = given_fields(arguments, TrainConfig), given_fields(arguments, size_fields())
    config = _resumed_config(folder, fields, sizes) if arguments.resume else _new_config(fields, sizes)
    was_finished = folder.begun and folder.finished
    run = train(config, folder.path, arguments.progress, arguments.tensorboard, arguments.device)
    last = run.metrics[-1]
    accuracies = ", ".join(
        f"{measured['accuracy']:.4f} at length {length}" for length, measured in last["validation"].items()
    )
    print(
        f"{run.path} {'was finished before' if was_finished else 'is finished'}: step {last['step']}, "
        f"{last['seconds']:.0f} s, loss {last['loss']:.4f}, validation accuracy {accuracies}"
    )


def _device(name: str) -> torch.device:
    """Return the device of that name if this machine has it."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError):
        known = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise InputError(
            f"device is {name!r}, which is not to be had here; choose from {', '.join(known)}"
        ) from None
    return device


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="python -m implicit.train",
        usage="python -m implicit.train --task NAME --model NAME --out FOLDER [flags] | --list | --help",
        description="Train a model on a task. The same command again goes on with an interrupted run.",
        epilog="The defaults shown are overruled by the recipe of the task, and both by the flags given.",
    )
    parser.add_argument("--list", action="store_true", help="show the tasks and the models, then stop")
    parser.add_argument("--out", metavar="FOLDER", help="the run folder, made if it does not exist")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --out; its other flags need not be repeated",
    )
    parser.add_argument(
        "--device", default="cpu", help="where to train: cpu, cuda, cuda:1, ... (default: cpu)"
    )
    parser.add_argument("--tensorboard", action="store_true", help="write event files to FOLDER/tensorboard")
    parser.add_argument("--quiet", dest="progress", action="store_false", help="show no progress bar")
    add_config_flags(parser, _OWN_FIELDS, title="run", exclude=["sizes"])
    add_config_flags(parser, Curriculum, title="curriculum")
    add_config_flags(parser, size_fields(), title="sizes of the model")
    return parser


def _new_config(fields: Mapping[str, Any], sizes: Mapping[str, Any]) -> TrainConfig:
    for field in ("task", "model"):
        if field not in fields:
            raise InputError(f"{field} is missing; give one with --{field}, and see --list for their names")
    return recipe(**fields, sizes=sizes)


def _resumed_config(folder: RunFolder, fields: Mapping[str, Any], sizes: Mapping[str, Any]) -> TrainConfig:
    """The stored configuration with what was given in place; `train` refuses it if that differs."""
    if not folder.begun:
        raise InputError(
            f"out is {folder.path}, which holds no run to resume; leave out --resume to begin one"
        )
    stored = folder.read_config()
    if fields.get("model", stored.model) == stored.model:
        sizes = {**stored.sizes, **sizes}
    return TrainConfig.of(**{**stored.model_dump(), **fields, "sizes": sizes})


def _print_names() -> None:
    for title, descriptions in (
        ("task", {entry.name: entry.description for entry in TASKS.values()}),
        ("model", MODEL_DESCRIPTIONS),
    ):
        table = Table(title, "what it stands for", box=None, padding=(0, 2, 0, 0))
        for name, description in descriptions.items():
            table.add_row(name, description)
        Console().print(table, "")


if __name__ == "__main__":
    sys.exit(run_command(main))
