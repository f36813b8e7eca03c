"""How far an experiment is and how long it still takes, read from its store alone.

Whoever looks sees the same, whether the work is done in this process, in others, or on a cluster.
"""

import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import mean

from tqdm import tqdm

from automata.errors import InputError
from implicit.runs.folder import RunFolder
from paper_figures.experiments.grid import TRAINING, Experiment
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record, Store

REFRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Progress:
    """How far an experiment is.

    Attributes:
        ended: names of the points that are done or failed, in the order of the grid.
        failed: how many of them failed.
        points: how many there are.
        seconds_left: of the work that is left and of which something tells how long it takes, if one worker
            did it.
        known: whether that is all that is left.

    Example:
        >>> Progress(("a", "b"), failed=1, points=3, seconds_left=90.0).sentence(workers=1)
        '2 of 3 runs, 1 failed, about 01:30 left'
    """

    ended: tuple[str, ...]
    failed: int
    points: int
    seconds_left: float
    known: bool = True

    def sentence(self, workers: int) -> str:
        """Say it, for a number of workers."""
        parts = [f"{len(self.ended)} of {self.points} runs"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if len(self.ended) < self.points:
            parts.append(f"{self.time_left(workers)} left")
        return ", ".join(parts)

    def time_left(self, workers: int) -> str:
        """Return the time left, shared by workers of which none stands idle."""
        if not self.seconds_left and not self.known:
            return "unknown time"
        busy = max(1, min(workers, self.points - len(self.ended)))
        seconds = round(self.seconds_left / busy)
        return f"{'about' if self.known else 'more than'} {tqdm.format_interval(seconds)}"


class Observer:
    """Reads the progress of an experiment again and again; what ended is read once.

    Example:
        >>> from pathlib import Path
        >>> from paper_figures.experiments.grid import Grid
        >>> grid = Grid({"seed": [0, 1]}, {"task": "parity", "model": "lstm"})
        >>> Observer(Experiment("e", (grid,), ()), Store(Path("nowhere"))).look()
        Progress(ended=(), failed=0, points=2, seconds_left=0.0, known=False)
    """

    def __init__(self, experiment: Experiment, store: Store) -> None:
        self.experiment = experiment
        self.store = store
        self._read: dict[tuple[str, str], Record] = {}

    def look(self) -> Progress:
        """Read how far the experiment is now."""
        ended, failed = [], 0
        left: list[tuple[str, str]] = []
        took: dict[tuple[str, str], list[float]] = defaultdict(list)
        begun_left = 0.0
        for point in self.experiment.points:
            model = str(point.all_settings["model"])
            records = self._records(point)
            for name, record in records.items():
                took[name, model].append(record.seconds)
            training = records.get(TRAINING)
            if training is not None and (
                training.status == "failed" or len(records) == 1 + len(self.experiment.measurements)
            ):
                ended.append(point.name)
                failed += any(record.status == "failed" for record in records.values())
                continue
            names = [TRAINING, *(measurement.name for measurement in self.experiment.measurements)]
            missing = [name for name in names if name not in records]
            if TRAINING in missing and (projected := self._projected(point)) is not None:
                whole, rest = projected
                took[TRAINING, model].append(whole)
                begun_left += rest
                missing.remove(TRAINING)
            left.extend((name, model) for name in missing)
        means = [_mean(part, took) for part in left]
        return Progress(
            tuple(ended),
            failed,
            len(self.experiment.points),
            begun_left + sum(seconds for seconds in means if seconds is not None),
            None not in means,
        )

    def _records(self, point: Point) -> dict[str, Record]:
        for measurement in (None, *self.experiment.measurements):
            name = TRAINING if measurement is None else measurement.name
            if (point.identifier, name) not in self._read:
                record = self.store.read(point, measurement)
                if record is not None:
                    self._read[point.identifier, name] = record
        return {name: record for (of, name), record in self._read.items() if of == point.identifier}

    def _projected(self, point: Point) -> tuple[float, float] | None:
        """Seconds of the whole training that is under way and of what is left of it, from its metrics."""
        folder = RunFolder(self.store.run_folder(point))
        try:
            metrics = folder.read_metrics()
        except InputError:
            return None
        if not metrics:
            return None
        seconds, step = metrics[-1]["seconds"], metrics[-1]["step"]
        whole = seconds * point.config.steps / step
        return whole, 0.0 if folder.finished else whole - seconds


def _mean(part: tuple[str, str], took: dict[tuple[str, str], list[float]]) -> float | None:
    """What a training or a measurement took so far: that of the same model, or else that of any."""
    name, _ = part
    known = took.get(part) or [s for (of, _), times in took.items() if of == name for s in times]
    return mean(known) if known else None


@contextmanager
def shown(experiment: Experiment, store: Store, workers: int) -> Iterator[None]:
    """Show the progress on standard error for as long as the context lasts.

    A bar where there is a terminal; otherwise a line whenever a run ended, as a log wants it.

    Example:
        >>> from pathlib import Path
        >>> with shown(Experiment("nothing", (), ()), Store(Path("nowhere")), workers=1):
        ...     pass
    """
    observer, over = Observer(experiment, store), threading.Event()
    first = observer.look()
    seen = set(first.ended)
    bar = tqdm(
        total=first.points,
        initial=len(first.ended),
        disable=None,  # where there is no terminal
        leave=False,
        bar_format="{desc} |{bar}| {elapsed}",
    )

    def refresh() -> None:
        progress = observer.look()
        bar.n = len(progress.ended)
        bar.set_description_str(f"{experiment.name}: {progress.sentence(workers)}")
        new = [name for name in progress.ended if name not in seen]
        if bar.disable:
            for name in new:
                print(f"{experiment.name}: {name} ended; {progress.sentence(workers)}", file=sys.stderr)
        seen.update(new)

    def keep_refreshing() -> None:
        while not over.wait(REFRESH_SECONDS):
            refresh()

    thread = threading.Thread(target=keep_refreshing, daemon=True)
    with bar:
        refresh()
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            refresh()
