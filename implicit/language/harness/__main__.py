"""Command: evaluate a causal language model of a folder with `lm-eval`, offline.

python -m implicit.language.harness MODEL --tasks local_piqa,state_tracking --data FOLDER
"""

import sys
from collections.abc import Callable, Sequence, Sized
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from automata.data_files import DATA_VARIABLE
from automata.errors import InputError, printable_lines
from implicit.command_line import CommandParser, read_number, run_command
from implicit.language.harness.catalogue import DOCUMENTS, HARNESS_TASKS, LENGTH, TASK_FILES
from implicit.language.harness.evaluation import HarnessOptions, evaluate_folder, results_table
from implicit.language.harness.shortcuts import DRAWN, shortcut_table
from implicit.language.stored_models import load_model
from implicit.runs.files import write_json


def command(argv: Sequence[str] | None = None) -> None:
    """Evaluate, print the tables of `lm-eval`, and write JSON if asked to."""
    given = _parser().parse_args(argv)
    if given.path:
        print(TASK_FILES)
        return
    if given.list:
        width = max(map(len, HARNESS_TASKS))
        for name, task in HARNESS_TASKS.items():
            print(f"{name:<{width}}  {task.sentence}")
        return
    if given.shortcuts:
        tokenize: Callable[[str], Sized] = str.encode
        if given.model is not None:
            tokenize = partial(load_model(Path(given.model))[1].encode, verbose=False)
        print(
            shortcut_table(seed=read_number("seed", given.seed, int), tokens=lambda text: len(tokenize(text)))
        )
        return
    if given.model is None:
        raise InputError("model is missing; give a folder that save_pretrained wrote")
    settings = _settings(vars(given))
    out = None if given.out is None else Path(given.out)
    if out is not None and not out.parent.is_dir():
        raise InputError(f"out is {out}, and {out.parent} is no folder; make it, or give another file")
    if out is not None and out.is_dir():
        raise InputError(f"out is {out}, which is a folder; give a file")
    found = evaluate_folder(given.model, settings)
    print(printable_lines(results_table(found)))
    account = found["fixed_points"]
    if account is not None:
        print(
            f"fixed points: {account['share_converged']:.2%} of {account['tokens']} tokens converged, after "
            f"{account['mean_iterations']:.1f} self-iterations in the mean of all"
        )
    if found["shortened"]:
        print(
            f"{found['shortened']} texts had more than {found['settings']['max_length']} tokens and lost "
            "their beginning; --max-length reads more"
        )
    if out is not None:
        write_json(out, found)


def _parser() -> CommandParser:
    parser = CommandParser("python -m implicit.language.harness", (__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        metavar="MODEL",
        help="folder of a model with its tokenizer, as save_pretrained wrote it",
    )
    add("--tasks", default="", metavar="NAME[,NAME]", help="tasks, groups or tags; --list shows them")
    add("--data", metavar="FOLDER", help=f"folder of the local sets (default: that of {DATA_VARIABLE})")
    add("--limit", metavar="N", help="only the first N documents of each task")
    add("--batch-size", default="1", metavar="N", help="texts that are read together (default: 1)")
    add(
        "--documents",
        default=str(DOCUMENTS),
        metavar="N",
        help=f"of each tracking task (default: {DOCUMENTS})",
    )
    add("--length", metavar="N", help=f"steps of tracking tasks without their own length (default: {LENGTH})")
    add(
        "--max-length",
        metavar="N",
        help="tokens of a text, of which the last are read (default: the model's)",
    )
    add("--seed", default="0", metavar="N", help="of what is drawn (default: 0)")
    add("--device", default="cpu", metavar="NAME", help="where to run: cpu, cuda, cuda:1, ... (default: cpu)")
    add("--out", metavar="FILE", help="write results, settings, versions and environment as JSON")
    add("--list", action="store_true", help="show the tasks, and end")
    add("--path", action="store_true", help="show the folder for lm_eval --include_path, and end")
    add(
        "--shortcuts",
        action="store_true",
        help=f"measure how far one comes in tracking tasks without tracking ({DRAWN} documents), and end; "
        "lengths are in tokens of MODEL, or in bytes",
    )
    return parser


def _settings(given: dict[str, Any]) -> HarnessOptions:
    """The fields that flags name; numbers are read here."""
    values = {field.name: given[field.name] for field in fields(HarnessOptions)}
    values["tasks"] = tuple(name.strip() for name in given["tasks"].split(",") if name.strip())
    for name in ("limit", "batch_size", "documents", "length", "max_length", "seed"):
        if values[name] is not None:
            values[name] = read_number(name, values[name], int)
    return HarnessOptions(**values)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for bad input."""
    return run_command(command, argv)


if __name__ == "__main__":
    sys.exit(main())
