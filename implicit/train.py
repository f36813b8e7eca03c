"""Train a model: ``python -m implicit.train --task parity --model implicit-mamba2 --out runs/parity``.

Killed at any moment and started again, a run ends with the same bits as one that was never interrupted (on
the same machine, with the same versions and number of threads).
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic.fields import FieldInfo

from automata.errors import InputError, printable
from automata.tasks.registry import TASKS
from implicit.command_line import (
    CommandParser,
    add_allow_code_flag,
    add_config_flags,
    given_fields,
    run_command,
)
from implicit.config.flat import flat_fields, groups
from implicit.config.recipes import RECIPES, recipe
from implicit.config.references import named_code
from implicit.config.run import TrainConfig
from implicit.models.interface import FixedPointModel
from implicit.models.registry import MODELS, model_class, size_fields, size_names
from implicit.runs.files import read_settings
from implicit.runs.folder import RunFolder
from implicit.runs.loading import initial_model, load_run
from implicit.threads import add_threads_flag, chosen_threads
from implicit.training.train import begin_from, run_ending, run_fall, run_shortfall, train

__all__ = ["main", "train"]

_TASK_HELP = "name of the task, or module:name of one of your own; --list shows the names"

_NO_FLAGS = ("task", "sizes", "compiled", "initial")
_OF_IMPLICIT = (
    "bounded_",
    "free_",
    "phantom_",
    "random_starts",
    "contraction_",
    "forgetting_weight",
    "image_ball_weight",
    "evaluation_rtol",
    "evaluation_max_iterations",
)
_OF_CARRIED = ("carried_", "forgetting_weight")
_FIELDS = {group: flat_fields(TrainConfig, group) for group in (None, *groups(TrainConfig))}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes."""
    arguments = _parser(_sizes_of_named_model(argv), _asked_about(argv)).parse_args(argv)
    if arguments.list:
        _print_names()
        return
    if not arguments.out and not arguments.show_config:
        raise InputError("out is missing; give a run folder with --out")
    folder = RunFolder(Path(arguments.out or ""))
    fields: dict[str, Any] = {}
    for group in _FIELDS.values():
        fields.update(given_fields(arguments, group))
    fields.update(_given_task(arguments.regex, arguments.task_file))
    sizes = given_fields(arguments, {**size_fields(), **_sizes_of_named_model(argv)})
    if arguments.settings is not None:
        fields = read_settings(Path(arguments.settings), fields, allow_code=arguments.allow_code)
        by_model = fields.pop("sizes", {})
        sizes = {**by_model.get(fields.get("model"), {}), **sizes}
    resumes = arguments.resume or arguments.end
    if arguments.initial_weights is not None and not resumes:
        begins_with = load_run(arguments.initial_weights, allow_code=arguments.allow_code)
        fields.setdefault("model", begins_with.config.model)
    if resumes:
        config = _resumed_config(folder, fields, sizes, arguments.allow_code)
    else:
        config = _new_config(fields, sizes)
    config = _with_initial_weights(config, arguments, fields, sizes)
    if arguments.show_config:
        print("\n".join(f"{name} = {json.dumps(value)}" for name, value in config.flat().items()))
        return
    was_finished = folder.begun and folder.finished
    threads = chosen_threads(
        arguments.threads, lambda: initial_model(config, config.build_task()).parameter_count()
    )
    with threads, _unfinished_in_one_line(folder, config):
        options = arguments.progress, arguments.tensorboard, arguments.device
        run = train(config, folder.path, *options, callback=(lambda _: True) if arguments.end else None)
    last = run.metrics[-1] if run.metrics else {}
    if not (last.get("validation") and {"seconds", "loss"} <= last.keys()):
        raise InputError(
            f"{folder.metrics_file} does not end with loss, seconds and validation; restore it or train again"
        )
    shortfall = run_shortfall(run) if was_finished else None  # else `train` warned
    general = None if was_finished or config.task in [*RECIPES] else _GENERAL
    accuracies = ", ".join(
        f"{measured['accuracy']:.4f} at length {length}{_baseline(measured)}"
        for length, measured in last["validation"].items()
    )
    told = (
        f"{run.path} {_FINISHED_BEFORE if was_finished else 'is finished'}: step {last['step']}, "
        f"{last['seconds']:.0f} s, loss {last['loss']:.4f}{_length(last)}, "
        f"validation accuracy {accuracies}"
        + "".join(
            f"; {why}" for why in (run_ending(run), shortfall, run.bounded_end, run_fall(run), general) if why
        )
    )
    print(printable(told))


_GENERAL = "no recipe exists for this task; --show-config prints the settings that it takes"
_FINISHED_BEFORE = "was finished before, and nothing was trained (another --out begins a new run)"


def _length(last: Mapping[str, Any]) -> str:
    """The length of the last training batch, where validation has another."""
    length = last.get("length")
    return "" if length is None or [*last["validation"]] == [str(length)] else f" at length {length}"


def _baseline(measured: Mapping[str, Any]) -> str:
    """Say what the most frequent answer reaches; runs of older versions do not tell."""
    baseline = measured.get("majority_baseline")
    return "" if baseline is None else f" (the most frequent answer: {baseline:.4f})"


@contextmanager
def _unfinished_in_one_line(folder: RunFolder, config: TrainConfig) -> Iterator[None]:
    """Say of an interrupted run where it goes on, or that it is finished."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as stop:
        if folder.begun:
            where = "is finished"
            if not folder.finished:
                where = f"is not finished: step {folder.stored_step:,} of at most {config.steps:,} is stored"
                if isinstance(stop, SystemExit):  # Ctrl-C is followed by a line that says so
                    where += "; run the same command again to go on"
            print(f"{printable(folder.path)} {where}", file=sys.stderr)
        raise


def _given_early(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the flags that decide which other flags there are."""
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    finder.add_argument("-h", "--help", action="store_true")
    for name in ("model", "task", "regex", "task-file"):
        finder.add_argument(f"--{name}", nargs="?")
    return finder.parse_known_args(argv)[0]


def _sizes_of_named_model(argv: Sequence[str] | None) -> dict[str, FieldInfo]:
    """The sizes that a model of the user's own has and no other: they get flags, too."""
    name = _given_early(argv).model or ""
    if ":" not in name:
        return {}
    fields, known = model_class(name).config_class.model_fields, size_fields()
    return {size: fields[size] for size in size_names(name) if size not in known}


def _asked_about(argv: Sequence[str] | None) -> TrainConfig | None:
    """Return the recipe of the model and the task that ``--help`` stands beside; None without all three."""
    given = _given_early(argv)
    task = _given_task(given.regex, given.task_file).get("task", given.task)
    if not (given.help and given.model and task):
        return None
    return recipe(task, given.model)


def _useless(config: TrainConfig) -> Iterator[str]:
    """Yield the fields that the model or the task cannot use."""
    model, task = model_class(config.model), config.build_task()
    implicit = issubclass(model, FixedPointModel)
    for name in (name for fields in _FIELDS.values() for name in fields):
        of_implicit = name.startswith(_OF_IMPLICIT) and not implicit
        of_carried = name.startswith(_OF_CARRIED) and (model.state_grows or not task.continues)
        of_one = name == "image_ball_weight" and config.model != "implicit-mamba2"
        of_easy = name == "hard_fraction" and not getattr(task, "easy_tokens", ())
        if of_implicit or of_carried or of_one or of_easy:
            yield name


def _with_values(fields: Mapping[str, FieldInfo], config: TrainConfig) -> dict[str, FieldInfo]:
    """Return the fields with the values of a configuration for defaults."""
    values, shown = {**config.flat(), **config.sizes}, {}
    for name, field in fields.items():
        shown[name] = copy(field)
        shown[name].default_factory, shown[name].default = None, values[name]
    return shown


def _parser(own_sizes: Mapping[str, FieldInfo], shown: TrainConfig | None = None) -> CommandParser:
    """Make the parser; where help is asked about a model and a task, of the flags that they use alone."""
    without = _NO_FLAGS if shown is None else (*_NO_FLAGS, "model", *_useless(shown))
    groups = {
        group: {name: field for name, field in fields.items() if name not in without}
        for group, fields in _FIELDS.items()
    }
    sizes = {**size_fields(), **own_sizes}
    epilog = (
        "The defaults shown are overruled by the recipe of the task, and both by the flags given. "
        "With --model and --task, --help shows the flags that they use, with the values of their recipe."
    )
    if shown is not None:
        groups = {group: _with_values(fields, shown) for group, fields in groups.items()}
        sizes = _with_values(model_class(shown.model).config_class.size_fields(), shown)
        epilog = f"The defaults are those of the recipe for this task and {shown.model}; flags overrule them."
    parser = CommandParser(
        prog="python -m implicit.train",
        usage="python -m implicit.train --task NAME --model NAME --out FOLDER [flags] | --list | --help",
        description="Train a model on a task. The same command again goes on with an interrupted run.",
        epilog=epilog,
    )
    parser.add_argument(
        "--settings", metavar="FILE", help="JSON with fields and sizes by model, as of a paper; flags win"
    )
    parser.add_argument("--list", action="store_true", help="show the tasks and the models, then stop")
    parser.add_argument(
        "--show-config", action="store_true", help="print every value that would be used, then stop"
    )
    parser.add_argument("--out", metavar="FOLDER", help="the run folder, made if it does not exist")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --out; its other flags need not be repeated",
    )
    parser.add_argument("--end", action="store_true", help="as --resume, but end the run after one more step")
    add_allow_code_flag(parser)
    parser.add_argument(
        "--device", default="cpu", help="where to train: cpu, cuda, cuda:1, ... (default: cpu)"
    )
    add_threads_flag(parser)
    parser.add_argument("--tensorboard", action="store_true", help="write event files to FOLDER/tensorboard")
    parser.add_argument("--quiet", dest="progress", action="store_false", help="show no progress bar")
    tasks = parser.add_mutually_exclusive_group()
    tasks.add_argument("--task", metavar="NAME", default=argparse.SUPPRESS, help=_TASK_HELP)
    tasks.add_argument("--regex", metavar="PATTERN", help="track the automaton of a regular expression")
    tasks.add_argument(
        "--task-file", metavar="FILE", help="JSON with an automaton, a monoid, ...: see automata/tasks"
    )
    for group, fields in groups.items():
        if fields:
            add_config_flags(parser, fields, title=group or "run")
    beginning = parser.add_argument_group("weights to begin with")
    beginning.add_argument(
        "--initial-weights",
        metavar="RUN",
        help="begin with the weights of this run, and take its model and sizes; else with those of the seed",
    )
    beginning.add_argument(
        "--initial-noise",
        metavar="X",
        help="add Gaussian noise to them, of this share of the norm of each tensor (default: 0)",
    )
    add_config_flags(parser, sizes, title="sizes of the model")
    return parser


def _given_task(regex: str | None, task_file: str | None) -> dict[str, Any]:
    """The task that the flags name, as the configuration holds it; nothing if they name none."""
    given = (("regex", regex), ("file", task_file))
    return next(({"task": {kind: text}} for kind, text in given if text is not None), {})


def _new_config(fields: Mapping[str, Any], sizes: Mapping[str, Any]) -> TrainConfig:
    if "task" not in fields:
        raise InputError(
            "task is missing; give one with --task, --regex or --task-file, and see --list for the names"
        )
    if "model" not in fields:
        raise InputError("model is missing; give one with --model, and see --list for the names")
    return recipe(**fields, sizes=sizes)


def _resumed_config(
    folder: RunFolder, fields: Mapping[str, Any], sizes: Mapping[str, Any], allow_code: bool
) -> TrainConfig:
    """The stored configuration with what was given in place; `train` refuses it if that differs."""
    if not folder.begun:
        raise InputError(
            f"out is {folder.path}, which holds no run to resume; leave out --resume and --end to begin one"
        )
    stored = folder.read_config(allow_code=allow_code or named_code(fields))
    if fields.get("model", stored.model) == stored.model:
        sizes = {**stored.sizes, **sizes}
    return stored.updated(**fields, sizes=sizes)


def _with_initial_weights(
    config: TrainConfig, arguments: argparse.Namespace, fields: Mapping[str, Any], sizes: Mapping[str, Any]
) -> TrainConfig:
    """The configuration with the weights that the flags name; a model or sizes given must be theirs."""
    run, noise = arguments.initial_weights, arguments.initial_noise
    if run is None:
        if noise is not None:
            raise InputError("initial_noise is given without initial_weights; give a run with that")
        return config
    beginning = begin_from(config, run, 0 if noise is None else noise, allow_code=arguments.allow_code)
    given = {
        "model": fields.get("model"),
        **{name: config.sizes[name] for name in sizes if name in config.sizes},
    }
    taken = {"model": beginning.model, **beginning.sizes}
    for name, value in given.items():
        if value is not None and value != taken.get(name):
            raise InputError(f"{name} is {value}, but that of {run} is {taken.get(name)}; leave it out")
    return beginning


def _print_names() -> None:
    named: dict[str, Mapping[str, Any]] = {"task": TASKS, "model": MODELS}
    for title, entries in named.items():
        width = max(map(len, entries)) + 2
        print(f"{title:<{width}}what it stands for")
        for entry in entries.values():
            print(f"{entry.name:<{width}}{entry.description}")
        print()


class _CallableModule(ModuleType):
    """This module, which ``implicit.train(config, out)`` calls as its function.

    The import of a module replaces the package's attribute of that name: the command needs the module, and
    Python users the function.
    """

    __call__ = staticmethod(train)


if __name__ == "__main__":
    sys.exit(run_command(main))
sys.modules[__name__].__class__ = _CallableModule
