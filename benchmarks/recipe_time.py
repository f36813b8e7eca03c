"""What training takes by the recipes of today and of before: ``python -m benchmarks.recipe_time [TASK ...]``.

Code and recipe of before are those of a commit of this repository, taken out into a temporary folder. Both
trainings of a task are started at the same moment, one process and one thread each; the longer one goes on
without the other. Their processor time holds the start of Python and validation, but not the first two steps,
in which each tree compiles what it compiles: these are taken beforehand. The ratio is reported only if the
model of today keeps the state as long as is asked of its recipe; what the model of before reaches at its
training length is stored beside it.

A task that is stored for this commit, that of before, the seed and the machine is not done again; one that
was interrupted begins anew. Changes since the commit are not looked at: to measure them, give another
``--out``.
"""

import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from automata.errors import InputError, unknown_name
from benchmarks.machine import describe_machine
from implicit import evaluate, load_run
from implicit.command_line import CommandParser, run_command
from implicit.config.recipes import recipe
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.files import write_bytes

REPOSITORY = Path(__file__).parent.parent
RESULTS = REPOSITORY / "benchmarks" / "results" / "recipe_time.json"
BEFORE = "b376dda"
"""The commit of the recipes of before; those of A4, S4 and the generators of A5 are younger."""
MODEL, SEQUENCES = "implicit-mamba2", 512
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Asked:
    """What the model of today has to reach, in the sequential mode at the tolerance of its training.

    Attributes:
        length: tokens of fresh sequences.
        accuracy: of their last ten.
    """

    length: int
    accuracy: float


ASKED = {"parity": Asked(512, 1.0), "S3": Asked(512, 1.0), "S5-generators": Asked(1024, 0.99)}


def tree_of(commit: str, folder: Path, repository: Path = REPOSITORY) -> Path:
    """Take the files of a commit out into a folder.

    Raises:
        InputError: if this is no clone of the repository with that commit.

    Example:
        >>> tree_of("0000000", Path("unused"))
        Traceback (most recent call last):
        automata.errors.InputError: commit 0000000 is not in this repository; run this in a full clone of it
    """
    answer = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=repository, capture_output=True, check=False
    )
    if answer.returncode:
        raise InputError(f"commit {commit} is not in this repository; run this in a full clone of it")
    with tarfile.open(fileobj=BytesIO(answer.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def command_for(task: str, seed: int, run: Path, *more: str) -> list[str]:
    """Return the command that trains a task by the recipe of the tree that it is run in."""
    training = [sys.executable, "-m", "implicit.train", "--task", task, "--model", MODEL]
    return [*training, "--seed", str(seed), "--out", str(run), "--quiet", *more]


def timed_together(commands: Mapping[str, tuple[list[str], Path]]) -> dict[str, dict[str, float]]:
    """Run commands at the same time, one thread each, and return what each took.

    Args:
        commands: by name, each with the folder that it is run in.

    Returns:
        By name, ``processor_seconds`` and ``wall_seconds``.

    Raises:
        InputError: if one ends with an error, with the last line that it wrote.

    Example:
        >>> took = timed_together({"nothing": ([sys.executable, "-c", "pass"], Path())})
        >>> took["nothing"]["processor_seconds"] > 0
        True
    """
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    running: dict[str, subprocess.Popen[bytes]] = {}
    took: dict[str, dict[str, float]] = {}
    faults: list[str] = []
    began = time.monotonic()
    with TemporaryDirectory() as logs:
        try:
            for name, (words, folder) in commands.items():
                with (Path(logs) / name).open("wb") as log:
                    running[name] = subprocess.Popen(words, cwd=folder, env=alone, stdout=log, stderr=log)
            while running and not faults:
                time.sleep(POLL_SECONDS)
                for name, process in list(running.items()):
                    ended_process, status, usage = os.wait4(process.pid, os.WNOHANG)
                    if not ended_process:
                        continue
                    process.returncode = os.waitstatus_to_exitcode(status)
                    del running[name]
                    took[name] = {
                        "processor_seconds": usage.ru_utime + usage.ru_stime,
                        "wall_seconds": time.monotonic() - began,
                    }
                    if process.returncode:
                        said = (Path(logs) / name).read_text().splitlines() or ["nothing"]
                        faults.append(f"training {name} ended with an error, its last line: {said[-1]}")
        finally:  # after an error or an interruption nobody waits for the others
            for process in running.values():
                process.kill()
                process.wait()
    if faults:
        raise InputError("; ".join(faults))
    return took


def compare(task: str, seed: int, trees: Mapping[str, Path], folder: Path) -> dict[str, Any]:
    """Train a task in both trees at the same time, and return what came of it."""
    runs = {name: folder / f"{task}-{name}" for name in trees}
    for name, tree in trees.items():  # compiles what the tree compiles; a folder of its own
        few = ("--steps", "2", "--warmup-steps", "1")
        timed_together({name: (command_for(task, seed, folder / f"{task}-{name}-first", *few), tree)})
    took = timed_together({name: (command_for(task, seed, runs[name]), tree) for name, tree in trees.items()})
    found: dict[str, Any] = {name: took[name] | ended(runs[name]) for name in trees}
    today, asked = found["today"], ASKED[task]
    run, stopping = load_run(runs["today"]), Stopping(recipe(task, MODEL).curriculum.free_rtol)
    today["accuracy"] = evaluate(
        run.model, run.task, asked.length, sequences=SEQUENCES, solve=Solve("sequential", stopping)
    ).accuracy
    found |= {"asked": vars(asked), "correct": today["accuracy"] >= asked.accuracy}
    if found["correct"]:
        found["ratio"] = today["processor_seconds"] / found["before"]["processor_seconds"]
    return found


def ended(run: Path) -> dict[str, Any]:
    """Return after how many updates a training ended, and its last validation at its training length.

    Example:
        >>> from importlib.resources import files
        >>> found = ended(Path(str(files("implicit"))) / "stored_runs" / "parity")
        >>> found["updates"], found["training_length"]
        (1500, 32)
    """
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    length = json.loads((run / "config.json").read_text())["length"]
    validated = last.get("validation", {}).get(str(length), {})
    return {
        "updates": last["step"],
        "training_length": length,
        "validation_accuracy": validated.get("accuracy"),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser("python -m benchmarks.recipe_time", "Time recipes beside those of before.")
    parser.add_argument("tasks", metavar="TASK", nargs="*", help=f"of {', '.join(ASKED)} (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and data (default: 0)")
    parser.add_argument(
        "--out", metavar="FILE", default=str(RESULTS), help="JSON (default: in benchmarks/results)"
    )
    arguments = parser.parse_args(argv)
    for task in arguments.tasks:
        if task not in ASKED:
            raise unknown_name("task", task, ASKED)
    if arguments.seed < 0:
        raise InputError(f"seed is {arguments.seed}; give at least 0")
    tasks = list(dict.fromkeys(arguments.tasks or ASKED))
    file = Path(arguments.out)
    stored(file)
    if not file.parent.is_dir():
        raise InputError(f"out is {file}; give a file in a folder that exists")
    known = {
        "seed": arguments.seed,
        "before_commit": BEFORE,
        "environment": {**describe_machine(), "threads": 1},
    }
    with TemporaryDirectory() as folder:
        trees = {"before": tree_of(BEFORE, Path(folder) / "tree-before"), "today": REPOSITORY}
        for task in tasks:
            done = stored(file)
            if task in done and _of_a_commit(done[task]) == _of_a_commit(known):
                continue
            found = compare(task, arguments.seed, trees, Path(folder))
            done = stored(file) | {task: {"date": datetime.now(UTC).date().isoformat(), **known, **found}}
            content = {
                "command": "python -m benchmarks.recipe_time",
                "tasks": {name: done[name] for name in ASKED if name in done},
            }
            write_bytes(file, (json.dumps(content, indent=1) + "\n").encode())
    done = stored(file)
    Console(width=120).print(table(done))
    if not all(done[task]["correct"] for task in tasks):
        sys.exit(1)


def _of_a_commit(known: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides whether a task is done: of the environment all but whether files were changed since.

    Results that are written into the repository change a file of it.
    """
    environment = dict(known.get("environment", {}))
    environment["commit"] = str(environment.get("commit")).removesuffix("-dirty")
    return known.get("seed"), known.get("before_commit"), environment


def stored(file: Path) -> dict[str, Any]:
    """Return what a file holds by task; nothing if there is none.

    Raises:
        InputError: if it is a folder, or a file of something else.

    Example:
        >>> stored(Path("nowhere.json"))
        {}
    """
    if not file.exists():
        return {}
    try:
        tasks: dict[str, Any] = json.loads(file.read_bytes())["tasks"]
        table(tasks)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise InputError(f"out is {file}, which holds no results of this command; give another") from fault
    return tasks


def table(done: Mapping[str, Any]) -> Table:
    """Lay out what was found.

    Example:
        >>> table({}).title
        'Training by the recipes of today and of before, one thread each, started together'
    """
    shown = Table(
        title="Training by the recipes of today and of before, one thread each, started together",
        title_justify="left",
    )
    for column in ("task", "processor seconds, before", "today", "ratio", "updates, before", "today"):
        shown.add_column(column, justify="left" if column == "task" else "right")
    shown.add_column("accuracy of today", justify="right")
    for task, found in done.items():
        before, today = found["before"], found["today"]
        shown.add_row(
            task,
            *(f"{one['processor_seconds']:,.0f}" for one in (before, today)),
            f"{found['ratio']:.2f}" if found["correct"] else "not right",
            *(f"{one['updates']:,}" for one in (before, today)),
            f"{today['accuracy']:.3f} at {found['asked']['length']:,}",
        )
    return shown


if __name__ == "__main__":
    sys.exit(run_command(main))
