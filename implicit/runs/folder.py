"""The files of a run: which there are, when each is written, and how each is read back.

| file                | content                                          | written             |
|---------------------|--------------------------------------------------|---------------------|
| `config.json`       | the `TrainConfig`: rebuilds task and model       | at the start        |
| `environment.json`  | versions, platform, threads, commit, seed        | at the start        |
| `metrics.jsonl`     | one JSON object per evaluation                  | at every evaluation |
| `checkpoint/`       | weights, state of the optimiser, progress        | while unfinished    |
| `implicit-ssm.lock` | nothing; locked by the process that trains       | while it trains     |
| `model.safetensors` | the final weights; a run with it is finished     | at the end          |
| `sha256.json`       | hashes of what is finished, also in `checkpoint/` | before the weights |
"""

import contextlib
import errno
import hashlib
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterator
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from filelock import FileLock, Timeout
from pydantic import BaseModel, Field

from automata.checks import shown
from automata.data_files import MOST_VALUES, leftovers, strict_json
from automata.errors import InputError, warn_caller
from automata.tasks.specification import TaskSource
from implicit.cells.contract import close, evaluating, words_of
from implicit.cells.interface import is_ours
from implicit.config.flat import flatten
from implicit.config.references import check_outside, named_code
from implicit.config.run import TrainConfig
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.modes import Solve
from implicit.runs.environment import describe_environment
from implicit.runs.files import (
    HASHES,
    declared_tensors,
    identity,
    read_json,
    read_stored,
    refuse_links,
    write_bytes,
    write_json,
    write_tensors,
)

LOCK, METRICS, ENVIRONMENT = "implicit-ssm.lock", "metrics.jsonl", "environment.json"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def held(folder: Path, begun: Callable[[], bool]) -> Iterator[None]:
    """Keep other processes from training in a folder, while the context lasts or the process lives.

    The operating system holds the lock, which ends with the process. A warning tells of a file system without
    locks. A folder that was made here is removed in the end unless a run has begun in it.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    if (folder / LOCK).is_dir() or ((folder / LOCK).is_file() and not _is_lock(folder / LOCK)):
        raise InputError(f"{folder / LOCK} is not of a run; move it away, or give another folder")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"out is {folder}, where another process trains at this moment; "
            "wait until it ends, or give another folder"
        ) from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise InputError(f"{folder / LOCK} is a link; remove it, or give another folder") from None
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        warnings.warn(f"{folder} lies on a file system without locks; start one process there", stacklevel=3)
    try:
        yield
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        if not begun():
            with contextlib.suppress(OSError):
                for place in made:
                    place.rmdir()


def left_by_a_beginning(folder: Path) -> set[str]:
    """Return the names of files in a folder that a run left which was stopped as it began.

    Others of such names are the user's: metrics with entries, an environment that no run wrote.
    """
    found = {path.name for path in leftovers(folder)}
    found |= {LOCK} if (folder / LOCK).is_file() and _is_lock(folder / LOCK) else set()
    metrics = folder / METRICS
    found |= {METRICS} if metrics.is_file() and not metrics.stat().st_size else set()
    with contextlib.suppress(InputError, OSError):
        described = read_json(folder / ENVIRONMENT)
        found |= {ENVIRONMENT} if isinstance(described, dict) and "implicit-ssm" in described else set()
    return found


def _is_lock(file: Path) -> bool:
    """Return whether a file is empty, or holds what filelock writes where the system has no locks."""
    with file.open("rb") as opened:
        return re.fullmatch(rb"(\d+\n\S+\n(\d+\n)?)?", opened.read(400)) is not None


def _drawn(config: TrainConfig) -> str | None:
    """Return a hash of a batch of a task that the configuration only names; None of another one."""
    if not (isinstance(config.task, dict) and "object" in config.task):
        return None
    batch = config.build_task().batch(8, config.length, np.random.default_rng(0))
    return hashlib.sha256(batch.tokens.tobytes() + batch.targets.tobytes()).hexdigest()


_EARLY = Solve("simultaneous", stopping=Stopping(max_iterations=8))  # no fixed point, but the same each time


def _answered(model: SequenceModel) -> list[float] | None:
    """Return numbers of what a user's model answers to few tokens; None where they would say nothing."""
    found: list[list[float]] = []
    if not is_ours(model):
        quiet = contextlib.suppress(Exception), warnings.catch_warnings(action="ignore")
        with quiet[0], quiet[1], evaluating(model), torch.random.fork_rng([]), torch.no_grad():
            for _ in range(2):  # one that draws random numbers answers otherwise each time
                logits = model.run(words_of(model, 0), solve=_EARLY).logits.double().cpu()
                found.append((logits @ torch.arange(logits.shape[-1]).double().cos()).flatten().tolist())
    return found[0] if len(found) == 2 and found[0] == found[1] and np.isfinite(found[0]).all() else None


Metrics = dict[str, Any]
"""One entry of ``metrics.jsonl``."""
MOST_ENTRIES = 10**6
"""In a file of metrics."""


_Share = Annotated[float, Field(ge=0, le=1)]


class _Measured(BaseModel):
    accuracy: _Share
    majority_baseline: _Share | None = None


class _Entry(BaseModel):
    """The fields of an entry that are read, with their kinds; older runs lack some."""

    step: int = Field(ge=0, lt=2**63)
    length: int = 0
    loss: float = 0
    seconds: float = 0
    validation: dict[Annotated[str, Field(pattern="^[0-9]{1,19}$")], _Measured] = {}


def read_entries(file: Path, *, partial: bool = False) -> list[Metrics]:
    """Return the entries of a file of metrics; with ``partial``, without a last line not written whole."""
    try:
        text = read_stored(file).decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file} is not text; restore it or train again") from None
    if text.count("\n") > MOST_ENTRIES or sum(map(text.count, ",[{")) > MOST_VALUES:
        raise InputError(
            f"{file} has more than {MOST_ENTRIES} lines or {MOST_VALUES} values; restore it or train again"
        )
    metrics = []
    for number, line in enumerate(StringIO(text[: text.rfind("\n") + 1] if partial else text), start=1):
        try:
            entry = strict_json(line, "line")
            _Entry.model_validate(entry, strict=True)
        except ValueError:
            raise InputError(
                f"{file}: line {number} is not a JSON object with a step, accuracies from 0 to 1 and numbers "
                "as loss, seconds and length; restore it or train again"
            ) from None
        metrics.append(entry)
    return metrics


class RunFolder:
    """The files of a run while it is being made, in a folder that need not exist yet.

    Example:
        >>> from os import listdir
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as parent:
        ...     folder = RunFolder(Path(parent) / "run")
        ...     folder.begin(TrainConfig.of(task="parity", model="lstm"))
        ...     folder.begun, folder.finished, sorted(listdir(folder.path))
        (True, False, ['config.json', 'environment.json', 'metrics.jsonl'])
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.json"
        self.environment_file = path / ENVIRONMENT
        self.metrics_file = path / METRICS
        self.lock_file = path / LOCK
        self.weights_file = path / "model.safetensors"
        self.checkpoint_file = path / "checkpoint" / "state.safetensors"

    @property
    def begun(self) -> bool:
        """Return whether there is a run here."""
        return self.config_file.is_file()

    @property
    def finished(self) -> bool:
        """Return whether the run here has its final weights."""
        return self.weights_file.is_file()

    @property
    def stored_step(self) -> int:
        """The step that an unfinished run goes on from; 0 without a readable checkpoint."""
        try:
            _, metadata = declared_tensors(self.checkpoint_file)
            return int(json.loads(metadata["progress"])["step"])
        except (InputError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
            return 0

    def read_values(self) -> dict[str, Any]:
        """Return the configuration of the run as data: nothing that it names is imported."""
        return _read_object(self.config_file)

    @property
    def identity(self) -> str:
        """The hash of the configuration as stored: `implicit.runs.files.identity`."""
        return identity(self.read_values())

    def read_config(
        self, *, allow_code: bool | Collection[str] = False, task: TaskSource | None = None
    ) -> TrainConfig:
        """Return the configuration of the run, with another task in place of its own if one is given.

        With ``allow_code`` what it names as ``module:name`` is imported: all of it, or the names allowed.
        InputError for a missing or corrupt file, one of a newer format, code that is not allowed or lies in
        the run folder, or a configuration with faults.
        """
        values = self.read_values()
        if task is not None:
            values, allow_code = {**values, "task": task}, named_code({"task": task})
        try:
            for name in named_code(values) if allow_code else ():
                check_outside(name, self.path)
            return TrainConfig.from_json(values, allow_code=allow_code)
        except InputError as error:
            raise InputError(f"{self.config_file}: {error}") from None

    def check_free(self) -> None:
        """Refuse a place where no run can be begun."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"out is {self.path}, which is a file; give a folder")
        if self.path.is_dir():
            ours = left_by_a_beginning(self.path)
            if others := sorted(path.name for path in self.path.iterdir() if path.name not in ours):
                raise InputError(
                    f"out is {self.path}, which holds other files ({others[0]}); give a new folder"
                )

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from training here: `implicit.runs.folder.held`.

        InputError if another one does, a checkpoint would be written through a link, or a folder stands where
        a file is to be written in the end.
        """
        for file in (self.metrics_file, self.weights_file, self.path / HASHES):
            if file.is_dir():
                raise InputError(f"{file} is a folder; move it away, or give another folder with --out")
        for written in (self.checkpoint_file.parent.name, "tensorboard"):
            refuse_links(self.path, written)
        return held(self.path, lambda: self.begun)

    def begin(self, config: TrainConfig, own: str = "") -> None:
        """Make the folder with its configuration, or leave everything as it was.

        ``own`` names the parts of training that were given as functions, which no configuration holds.

        Raises:
            InputError: if the path is a file or a folder with other files, or the configuration holds a path
                that is not UTF-8.
            OSError: if it cannot be written.
        """
        self.check_free()
        made = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            parts = {"own": own} if own else {}
            if (drawn := _drawn(config)) and drawn == _drawn(config):  # else it is drawn from elsewhere
                parts["batch"] = drawn
            write_json(self.environment_file, {**describe_environment(), "seed": config.seed, **parts})
            self.write_metrics([])
            # Last, for it is what makes the folder a run.
            write_json(self.config_file, config.as_json())
        except (OSError, InputError):
            with contextlib.suppress(OSError):
                for file in (self.config_file, self.environment_file, self.metrics_file):
                    file.unlink(missing_ok=True)
                for folder in made:
                    folder.rmdir()
            raise

    def check_same(self, config: TrainConfig, own: str = "") -> None:
        """Refuse to go on with another configuration, or other own parts, than the run was begun with."""
        before = self._environment.get("own", "")
        if before != own:
            raise InputError(
                f"{before or 'no part'} of training was given as a function when {self.path} was begun, and "
                f"{own or 'none'} now; give the same, or another folder for a new run"
            )
        ours = named_code(config.as_json())
        if others := [name for name in named_code(self.read_values()) if name not in ours]:
            raise InputError(f"out is {self.path}, which holds a run of {others[0]}; give another folder")
        stored = self.read_config(allow_code=ours)
        if stored.compiled is not None and config.compiled is None:
            raise InputError(
                f"out is {self.path}, which holds a compiled model, not a run to train; give another folder"
            )
        there, here = _flat_json(stored), _flat_json(config)
        told = [
            f"{name} {_told(there.get(name))} (here {_told(here.get(name))})"
            for name in {**here, **there}
            if there.get(name) != here.get(name)
        ]
        if told:
            held, go_on = (
                ("a finished", "") if self.finished else ("an unfinished", "these values to go on, or ")
            )
            has = f"out is {self.path}, where {held} run has {', '.join(told)}"
            more = ""
            if self.finished and here["steps"] > there["steps"]:
                more = f"; --initial-weights {self.path} begins that with the weights trained here"
            raise InputError(f"{has}; give {go_on}another folder{more}")

    def check_task(self, config: TrainConfig) -> None:
        """Refuse a task of one's own whose code draws other batches than when the run was begun."""
        drawn = _drawn(config) if self.environment_file.is_file() else None
        if drawn and self._environment.get("batch", drawn) != drawn:
            raise InputError(
                f"task {shown(config.task)} draws other batches than when {self.path} was begun; restore its "
                f"code, or leave 'batch' out of {self.environment_file} if nothing changed for the model"
            )

    def keep_answers(self, model: SequenceModel, when: Literal["began", "ended"]) -> None:
        """Store what a user's model answers to few tokens when its training began or ended."""
        if answered := _answered(model):
            stored = self._environment
            answers = {**stored.get("answers", {}), when: answered}
            write_json(self.environment_file, {**stored, "answers": answers})

    def check_answers(self, model: SequenceModel, when: Literal["began", "ended"]) -> None:
        """Warn of a user's model that answers otherwise than it did, with the same weights."""
        stored, now = self._environment.get("answers"), _answered(model)
        then = stored.get(when) if isinstance(stored, dict) else None
        if not (now and isinstance(then, list) and all(isinstance(number, float) for number in then)):
            return
        if len(now) != len(then) or not close(model, torch.tensor(now), torch.tensor(then)):
            warn_caller(
                f"model of {self.path} answers otherwise than when its training {when}; restore its "
                "code, and keep what training changes in parameters or buffers, which are stored",
                UserWarning,
            )

    @property
    def _environment(self) -> dict[str, Any]:
        return _read_object(self.environment_file) if self.environment_file.is_file() else {}

    def read_metrics(self) -> list[Metrics]:
        """Return the metrics, one entry per evaluation."""
        return read_entries(self.metrics_file)

    def write_metrics(self, metrics: list[Metrics]) -> None:
        """Write all metrics: the file is small, and whole at any moment."""
        write_bytes(
            self.metrics_file,
            "".join(json.dumps(entry, allow_nan=False) + "\n" for entry in metrics).encode(),
        )

    def finish(self, model: SequenceModel) -> None:
        """Write the final weights, and what a user's model answers with them; then remove the checkpoint."""
        self.keep_answers(model, "ended")
        write_tensors(self.weights_file, model.state_dict(), beside=(self.config_file, self.metrics_file))
        self.clear()

    def clear(self) -> None:
        """Remove what only an unfinished run needs, and nothing that somebody else put there."""
        folder = self.checkpoint_file.parent
        there = folder.is_dir() and not folder.is_symlink()
        ours = [*leftovers(folder), self.checkpoint_file, folder / HASHES] if there else []
        for file in (*leftovers(self.path), *ours):
            file.unlink(missing_ok=True)
        if there:
            with contextlib.suppress(OSError):  # it holds other files
                folder.rmdir()


def _read_object(file: Path) -> dict[str, Any]:
    values = read_json(file)
    if not isinstance(values, dict):
        raise InputError(f"{file} does not hold a JSON object; restore it or train again")
    return values


def _flat_json(config: TrainConfig) -> dict[str, Any]:
    """The sizes, and the fields by their flat names, as JSON values."""
    flat = flatten(TrainConfig, config.as_json())
    return {**{f"size {name}": value for name, value in flat.pop("sizes").items()}, **flat}


def _told(value: Any) -> str:
    if not isinstance(value, dict):
        return "none" if value is None else str(value)
    return ", ".join(f"{name} {shown(part)}" for name, part in value.items())
