"""Where an analysis writes and what stands in its JSON beside the numbers: run, settings, environment."""

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil

from automata.checks import check_type
from automata.data_files import read_file
from automata.errors import InputError, printable
from implicit.models.interface import SequenceModel
from implicit.runs.files import refuse_links, tensor_bytes
from implicit.runs.loading import STORED_RUNS, Run


@dataclass(frozen=True)
class RunIdentity:
    """Which run a result is about."""

    name: str  # the name of its folder
    task: str  # name of the task
    model: str  # name of the model
    parameters: int  # number of trained numbers
    training_length: int | None  # tokens per sequence in training; None if a model in memory does not say
    seed: int | None  # of the training run; None of a model in memory
    weights_sha256: str  # hash of the weights, that of model.safetensors in the run folder
    # whether the weights were compiled from the task (`implicit.compiled`), not trained; then training length
    # and seed say nothing
    compiled: bool = False

    @classmethod
    def of(cls, run: Run) -> "RunIdentity":
        """Return the identity of a loaded run."""
        return cls(
            name=run_name(run),
            task=printable(run.task.name),
            model=run.config.model,
            parameters=run.model.parameter_count(),
            training_length=run.config.length if run.length_known else None,
            seed=None if run.in_memory else run.config.seed,
            weights_sha256=weights_sha256(run.model),
            compiled=run.config.compiled is not None,
        )

    @property
    def title(self) -> str:
        """The run in the words of a figure's title."""
        if self.compiled:
            return f"{self.model} on {self.task}, compiled, not trained"
        length = "" if self.training_length is None else f", trained at length {self.training_length}"
        seed = "" if self.seed is None else f" with seed {self.seed}"
        return f"{self.model} on {self.task}{length}{seed}"


def run_name(run: Run) -> str:
    r"""Return what a run is called in results and in their folders: its folder's name, escaped.

    Example:
        >>> from dataclasses import replace
        >>> from implicit.runs.loading import load_run
        >>> print(run_name(replace(load_run("parity"), path=Path("runs/r\u200cb"))))
        r\u200cb
    """
    return printable(run.name)


def weights_sha256(model: SequenceModel) -> str:
    """Return the SHA-256 of a model's weights as a run folder stores them."""
    return hashlib.sha256(tensor_bytes(model.state_dict())).hexdigest()


def json_ready(value: Any) -> Any:
    """Return a value as JSON takes it: arrays as lists, numbers that are not finite as None."""
    if isinstance(value, Mapping):
        return {str(key): json_ready(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return json_ready(value.tolist())
    if isinstance(value, list | tuple):
        return [json_ready(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def loaded_runs(runs: Run | Iterable[Run]) -> list[Run]:
    """Return one run or several with different names as a list.

    InputError for what is no run, no run at all, or two of the same name.
    """
    check_type("run", runs, (Run, Iterable), "give a loaded one, implicit.load_run(...)")
    several = [runs] if isinstance(runs, Run | str) else list(runs)  # a text is refused below
    if not several:
        raise InputError("runs is empty; give at least one loaded run, implicit.load_run(...)")
    require_different_names(several)
    return several


def require_different_names(runs: Sequence[Run]) -> None:
    """Refuse two runs whose folders have the same name, by which results tell them apart."""
    seen = set()
    for run in runs:
        check_type("run", run, Run, "give a loaded one, implicit.load_run(...)")
        name = run_name(run)
        if name in seen:
            raise InputError(
                f"run name {name} is given twice; rename a run folder, or give Run.of another name"
            )
        seen.add(name)


def default_folder(run: Run, analysis: str) -> Path:
    """Return where an analysis of a run writes unless told otherwise.

    ``RUN/analysis/<analysis>``; for a run stored in the package, or a model in memory,
    ``out/<run>/<analysis>``. A link there that leads out of the run folder is refused.
    """
    if run.in_memory or run.path.resolve().is_relative_to(STORED_RUNS.resolve()):
        return Path("out") / run.name / analysis
    refuse_links(run.path, f"analysis/{analysis}")
    return run.path / "analysis" / analysis


FILES = (".json", ".png", ".pdf", ".caption.txt")
"""Endings of the files of an answer, behind its name."""


def check_writable(folder: Path, field: str = "out", files: Iterable[str] = ()) -> None:
    """Refuse an output folder that cannot be made or written, before any work is done; nothing is written.

    So is one that holds folders in the place of the files.
    """
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"{field} is {folder}, but {there} is not a folder; give another path")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{field} is {folder}, but {there} may not be written; give another path")
    for name in files:
        if (folder / name).is_dir():
            raise InputError(f"{folder / name} is a folder; move it away, or give another place")


def refuse_other_runs(file: Path, runs: Sequence[Run], places: Iterable[str] = FILES) -> None:
    """Refuse to replace what is not of these runs: whoever asks again about the same ones replaces results.

    Files that no analysis wrote are left alone: JSON without hashes of weights, and pictures without JSON.
    Results below the folder of the run itself can only be of that run; all that lies in its ``analysis`` is
    ours. The file is the JSON of the results, which need not exist; the hashes of the weights stand in it.
    """
    folders = [run.path.resolve() for run in runs if not run.in_memory]
    ours = [folder / "analysis" for folder in folders]
    if any(file.resolve().is_relative_to(folder) for folder in ours):
        return
    found = refuse_others_files(file, (one for one in places if file.parent.resolve() / one not in ours))
    if any(file.resolve().is_relative_to(folder) for folder in folders):
        return
    if found and set(found) != {weights_sha256(run.model) for run in runs}:
        names = ", ".join(sorted(set(found.values())))
        raise InputError(
            f"out is {file.parent}, which holds {file.name} of other weights ({names}); "
            "give another folder with --out"
        )


def refuse_others_files(file: Path, places: Iterable[str]) -> dict[str, str]:
    """Return the hashes of weights in the JSON of results, with names; refuse to write where it has none.

    Places are names beside it, or endings of its name; whoever made them, it was no analysis.
    """
    try:
        found = dict(_identities(json.loads(read_file(file))))
    except (OSError, ValueError, RecursionError):
        found = {}
    names = (f"{file.stem}{place}" if place.startswith(".") else place for place in places)
    there = [one for one in (file.with_name(name) for name in names) if one.exists()]
    if there and not found:
        raise InputError(f"{there[0]} was not written by an analysis; move it away, or give another folder")
    return found


def _identities(content: Any, name: str = "a run") -> Iterator[tuple[str, str]]:
    """Every hash of weights in JSON, with the name of the run that stands beside it or above it."""
    if isinstance(content, list):
        for entry in content:
            yield from _identities(entry, name)
    elif isinstance(content, dict):
        if isinstance(content.get("weights_sha256"), str):
            yield content["weights_sha256"], str(content.get("name", name))
        for key, entry in content.items():
            yield from _identities(entry, key)


def full_caption(caption: str, runs: Sequence[RunIdentity], settings: Mapping[str, Any]) -> str:
    """Return a caption with the runs, their seeds and the settings."""
    listed = "; ".join(f"{run.name}: {run.title}, {run.parameters} parameters" for run in runs)
    chosen = ", ".join(f"{name.replace('_', ' ')} {_in_words(value)}" for name, value in settings.items())
    lines = [f"Training runs: {len(runs)} ({listed}).", f"Settings: {chosen}." if chosen else ""]
    return "\n\n".join(filter(None, [caption, "\n".join(filter(None, lines))]))


def _in_words(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@contextlib.contextmanager
def written_together(folder: Path) -> Iterator[Path]:
    """Give a fresh folder; in the end its files move into another one together, or none does.

    Those that they replace are removed first: killed at any moment, new files never lie beside old ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.iterdir():
        owner = re.fullmatch(r"\.unfinished-(\d{1,9})-\w+", left.name)
        if owner and not psutil.pid_exists(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)  # of a process that was killed
    with TemporaryDirectory(prefix=f".unfinished-{os.getpid()}-", dir=folder) as fresh:
        yield Path(fresh)
        targets = {
            file: folder / file.relative_to(fresh) for file in Path(fresh).rglob("*") if file.is_file()
        }
        for target in targets.values():
            target.unlink(missing_ok=True)
        for file, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(file, target)
