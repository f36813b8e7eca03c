"""What does training make of compiled weights? ``python -m benchmarks.compiled_start [NAME ...]``.

S3 is compiled, noise is added to every tensor, and the model is trained for some hundred steps as S3 is, but
in the free phase, simultaneously and at one length from the first step on: there is nothing to be learned in
small steps.
Before and after, it is asked how it answers, how it holds its states, and where its weights are. The control
begins with random weights of the same sizes. What is done is stored, and not done again.
"""

import json
import math
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from analysis import mechanism
from analysis.framework.output import json_ready
from analysis.framework.visited_states import sample_sequences
from automata.errors import InputError, unknown_name
from benchmarks.machine import describe_machine
from implicit.command_line import CommandParser, run_command
from implicit.compiled import compile_run
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.files import write_bytes
from implicit.runs.loading import Run, initial_model
from implicit.train import train
from implicit.training import begin_from
from implicit.training.initial import load_initial_weights

RESULTS = Path(__file__).parent / "results" / "compiled_start.json"
TASK = "S3"
SEEDS = (0, 1, 2)
NOISES: tuple[float | None, ...] = (0.0, 0.001, 0.01, 0.1, None)
"""None stands for random weights."""
TRAINING: dict[str, Any] = {
    "batch_size": 16,
    "length": 16,
    "steps": 300,
    "warmup_steps": 100,
    "start_length": None,
    "bounded_steps": 0,
    "free_mode": "simultaneous",
    "evaluate_every": 300,
    "evaluation_sequences": 16,
    "evaluation_max_iterations": 40,
}
LIMIT = 40
"""Self-iterations per token in all measurements: what takes more is counted as not converged."""
READ = {"sequences": 32, "length": 100}
"""Words for accuracy and margin."""
LOOK: dict[str, Any] = {
    "sequences": 4,
    "length": 12,
    "pairs": 8,
    "follow": 8,
    "states": 4,
    "max_iterations": LIMIT,
}
"""Settings of `analysis.mechanism`."""

CASES: dict[str, tuple[float | None, dict[str, Any]]] = {
    **{"random" if noise is None else f"noise-{noise:g}": (noise, {}) for noise in NOISES},
    "noise-0-no-warm-up": (0.0, {"warmup_steps": 1}),
    "noise-0-no-penalty": (0.0, {"contraction_weight": 0.0}),
}
"""Noise, and what is otherwise than in `TRAINING`."""


def case_config(noise: float | None, otherwise: dict[str, Any], seed: int, compiled: Run) -> TrainConfig:
    """Return the configuration of a training.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     compiled = compile_run("S3", Path(folder) / "run")
        ...     config = case_config(0.1, {"warmup_steps": 7}, 2, compiled)
        >>> config.optimizer.warmup_steps, config.initial.noise, config.seed, config.sizes["d_conv"]
        (7, 0.1, 2, 1)
    """
    config = recipe(TASK, "implicit-mamba2", **{**TRAINING, **otherwise}, seed=seed)
    begun = begin_from(config, compiled, noise or 0.0)
    sizes = {**begun.sizes, "max_iterations": LIMIT}
    return begun.updated(sizes=sizes, **({"initial": None} if noise is None else {}))


@torch.no_grad()
def answers(run: Run) -> dict[str, float]:
    """Return how many answers on fresh words are right, by how much, and the loss."""
    tokens, labels = sample_sequences(run.task, READ["sequences"], READ["length"], seed=0)
    output = run.model.run(tokens)
    assert output.solution is not None
    logits = output.logits
    right = logits.gather(-1, labels[..., None])[..., 0]
    others = logits.scatter(-1, labels[..., None], -math.inf).max(-1).values
    return {
        "accuracy": float((logits.argmax(-1) == labels).double().mean()),
        "accuracy_of_the_last_ten": float((logits.argmax(-1) == labels)[:, -10:].double().mean()),
        "margin": float(((right - others) / logits.abs().max(-1).values).median()),
        "loss": float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())),
        "share_converged": output.solution.share_converged,
        "iterations": float(output.solution.iterations.double().mean()),
    }


def held(run: Run) -> dict[str, Any]:
    """Return how the model holds the states, as `analysis.mechanism` finds it."""
    (found,) = mechanism.compare([run], **LOOK).runs
    codes = found.held
    return {
        "kept_in": found.kept_in,
        "between": codes.between,
        "dimension": codes.dimension,
        "unevenness": codes.unevenness,
        **found.dynamics.numbers(),
    }


def weights(start: SequenceModel, end: SequenceModel, compiled: SequenceModel) -> dict[str, Any]:
    """Return where the weights are, in shares of the norm of each compiled tensor, tensors counting alike."""
    found: dict[str, Any] = {"by_tensor": {}}
    totals = dict.fromkeys(("start", "end", "moved", "back", "start_zeros", "end_zeros"), 0.0)
    counted = with_zeros = 0
    for name, target in compiled.state_dict().items():
        norm = float(target.norm())
        if not norm:
            continue
        first, last = start.state_dict()[name], end.state_dict()[name]
        zero = target == 0
        relative = {
            "start": _share(first - target, norm),
            "end": _share(last - target, norm),
            "moved": _share(last - first, norm),
            "length": float(last.norm() / first.norm()),
        }
        found["by_tensor"][name] = relative
        counted += 1
        totals["back"] += float(((last - first) * (target - first)).sum()) / norm**2
        for each in ("start", "end", "moved"):
            totals[each] += relative[each] ** 2
        if zero.any():
            with_zeros += 1
            totals["start_zeros"] += _share(first[zero], norm) ** 2
            totals["end_zeros"] += _share(last[zero], norm) ** 2
    for each in ("start", "end", "moved"):
        found[each] = math.sqrt(totals[each] / counted)
    for each in ("start_zeros", "end_zeros"):
        found[each] = math.sqrt(totals[each] / with_zeros)
    lengths = math.sqrt(totals["moved"] * totals["start"])
    found["cosine_back"] = totals["back"] / lengths if lengths else None
    return found


def _share(difference: Tensor, norm: float) -> float:
    return float(difference.norm()) / norm


def train_case(noise: float | None, otherwise: dict[str, Any], seed: int) -> dict[str, Any]:
    """Train one model and return what it was before and after."""
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        compiled = compile_run(TASK, Path(folder) / "compiled")
        config = case_config(noise, otherwise, seed, compiled)
        task = config.build_task()
        model = initial_model(config, task).eval()
        load_initial_weights(config, model)
        start = Run(Path("start"), config, model, task, [])
        before = {"answers": answers(start), "held": held(start)}
        end = train(config, Path(folder) / "trained", progress=False)
        after = {"answers": answers(end), "held": held(end)}
        moved = weights(start.model, end.model, compiled.model)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "before": before,
        "after": after,
        "weights": moved,
        "training_loss": end.metrics[-1]["loss"],
        "seconds": round(time.process_time() - began, 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser("python -m benchmarks.compiled_start", "Train from compiled weights with noise.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"cases (default: all): {', '.join(CASES)}")
    parser.add_argument(
        "--seeds", metavar="N", type=int, default=len(SEEDS), help="seeds of each (default: 3)"
    )
    parser.add_argument(
        "--out", metavar="FILE", default=str(RESULTS), help="JSON (default: in benchmarks/results)"
    )
    arguments = parser.parse_args(argv)
    for name in arguments.names:
        if name not in CASES:
            raise unknown_name("case", name, CASES)
    if not 1 <= arguments.seeds <= len(SEEDS):
        raise InputError(f"seeds is {arguments.seeds}; give 1 to {len(SEEDS)}")
    torch.set_num_threads(1)
    file = Path(arguments.out)
    done: dict[str, Any] = json.loads(file.read_bytes())["cases"] if file.is_file() else {}
    for seed in SEEDS[: arguments.seeds]:
        for name in arguments.names or CASES:
            if str(seed) in done.get(name, {}):
                continue
            found = json_ready(train_case(*CASES[name], seed))
            done[name] = {**done.get(name, {}), str(seed): found}
            content = {
                "command": "python -m benchmarks.compiled_start",
                "environment": describe_machine(),
                "settings": {"task": TASK, "training": TRAINING, "read": READ, "look": LOOK},
                "cases": {known: done[known] for known in CASES if known in done},
            }
            write_bytes(file, (json.dumps(content, indent=1) + "\n").encode())
    Console(width=150).print(table(done))


COLUMNS: dict[str, tuple[str, ...]] = {
    "accuracy": ("answers", "accuracy"),
    "margin": ("answers", "margin"),
    "converged": ("answers", "share_converged"),
    "error left": ("held", "left_after_one"),
    "‖∂zΦ‖": ("held", "contraction"),
}
"""What is shown before and after."""
TITLES = ("start", *COLUMNS, "distance", "at zeros")


def rows(done: dict[str, Any]) -> list[list[str]]:
    """Return a row for every case, all seeds side by side, before → after; ``–`` where nothing was measured.

    Example:
        >>> answers = {"accuracy": 1.0, "margin": 0.914, "share_converged": 1.0}
        >>> when = {"answers": answers, "held": {"left_after_one": 0.067, "contraction": None}}
        >>> moved = {"start": 0.0, "end": 0.0613, "start_zeros": 0.0, "end_zeros": 0.0446}
        >>> rows({"noise-0": {"0": {"before": when, "after": when, "weights": moved}}})[0]
        ['noise-0', '1 → 1', '0.91 → 0.91', '1 → 1', '0.067 → 0.067', '– → –', '0 → 0.061', '0 → 0.045']
    """
    found = []
    for name, seeds in done.items():
        runs = [seeds[seed] for seed in sorted(seeds)]
        row = [name]
        for group, field in COLUMNS.values():
            row.append(_pair(*([run[when][group][field] for run in runs] for when in ("before", "after"))))
        for start, end in (("start", "end"), ("start_zeros", "end_zeros")):
            row.append(_pair(*([run["weights"][when] for run in runs] for when in (start, end))))
        found.append(row)
    return found


def table(done: dict[str, Any]) -> Table:
    """Lay out what was found."""
    title = "Training from compiled weights, before → after, a value for each seed"
    shown = Table(title=title, title_justify="left")
    for column in TITLES:
        shown.add_column(column, justify="left" if column == "start" else "right")
    for row in rows(done):
        shown.add_row(*row)
    return shown


def _pair(before: list[float | None], after: list[float | None]) -> str:
    one, other = (
        ", ".join("–" if value is None else f"{value:.2g}" for value in each) for each in (before, after)
    )
    return f"{one} → {other}"


if __name__ == "__main__":
    sys.exit(run_command(main))
