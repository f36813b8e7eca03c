"""From nothing to a verified fixed point: ``python -m analysis.demo``.

Trains an implicit Mamba-2 and two controls on parity at length 32, then runs all analyses and writes a
report. An interrupted demo goes on where it stopped: runs that are finished are not trained again.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveInt
from rich.console import Console

from analysis.framework.output import check_writable, refuse_others_files, written_together
from analysis.framework.terminal import Terminal, add_output_flag
from analysis.report import PLACES, collect, print_report, write_report
from analysis.report.tasks import ReportSettings, comparison_tasks, perform_all, tasks_of, two_processes
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.runs.loading import load_run
from implicit.threads import threads_taken
from implicit.train import train

TASK = "parity"
IMPLICIT = "implicit-mamba2"
CONTROLS = ("mamba2", "lstm")


class DemoSettings(ReportSettings):
    """How the demo trains and how much it looks at."""

    training_seed: NonNegativeInt = Field(default=0, description="seed of the three training runs")
    steps: PositiveInt | None = Field(
        default=None, description="training steps of every model; those of the recipe if none"
    )


def demo_config(model: str, settings: DemoSettings) -> TrainConfig:
    """Return how a model is trained in the demo: by the recipe."""
    config = recipe(TASK, model, seed=settings.training_seed)
    if settings.steps is None:
        return config
    warmup = min(config.optimizer.warmup_steps, settings.steps)
    return recipe(TASK, model, seed=settings.training_seed, steps=settings.steps, warmup_steps=warmup)


def train_controls(folder: Path, settings: DemoSettings) -> dict[str, float]:
    """Train the controls one after the other, without progress bars, and return the seconds of each."""
    seconds = {}
    for model in CONTROLS:
        began = time.monotonic()
        train(demo_config(model, settings), folder / "runs" / model, progress=False)
        seconds[model] = time.monotonic() - began
    return seconds


def _run_demo(folder: Path, settings: DemoSettings, command: str, console: Console) -> dict[str, Any]:
    began = time.monotonic()
    console.print(
        f"Training {IMPLICIT} on {TASK}; in a second process {' and '.join(CONTROLS)}", highlight=False
    )
    with two_processes() as pool:
        controls = pool.submit(train_controls, folder, settings)
        with threads_taken(1):
            implicit_began = time.monotonic()
            train(demo_config(IMPLICIT, settings), folder / "runs" / IMPLICIT)
            parts = {f"training of {IMPLICIT}": time.monotonic() - implicit_began}
        parts |= {f"training of {model}": seconds for model, seconds in controls.result().items()}
        for part, seconds in parts.items():
            console.print(f"  {seconds:6.1f} s  {part}", highlight=False)
        runs = [load_run(folder / "runs" / model) for model in (IMPLICIT, *CONTROLS)]
        first, *rest = runs
        console.print("Analysing, two tasks at a time", highlight=False)
        with written_together(folder) as fresh:
            tasks = [*tasks_of(first, fresh, settings), *comparison_tasks(runs, fresh, settings)]
            tasks += [task for run in rest for task in tasks_of(run, fresh, settings)]
            parts |= perform_all(pool, tasks, console)
            report = collect(runs, fresh, settings, time.monotonic() - began, parts, command)
            write_report(report, fresh)
    return report


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser(
        "python -m analysis.demo",
        "Train three models on parity, verify Theorem 1 on their weights, write a report.",
    )
    add_output_flag(parser, "out/demo")
    add_config_flags(parser, DemoSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(DemoSettings, given_fields(arguments, DemoSettings))
    folder = Path(arguments.out if arguments.out is not None else "out/demo")
    check_writable(folder, files=("report.md", "report.json"))
    refuse_others_files(folder / "report.json", PLACES)
    console = Terminal()
    command = " ".join(["python -m analysis.demo", *(argv if argv is not None else sys.argv[1:])])
    print_report(_run_demo(folder, settings, command, console), folder, console)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_command, argv)


if __name__ == "__main__":
    sys.exit(main())
