"""The mutants of an area, one after another, in a copy of the repository, each stored at once.

pytest-testmon runs the tests that reach what a mutant changes, the quickest first.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tqdm import tqdm

from benchmarks.mutation.areas import Area, python_files
from benchmarks.mutation.mutants import Mutant, sample
from benchmarks.mutation.record import Results

Outcome = Literal["killed", "survived", "timed out"]
_PYTEST = [
    *(sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "testmon.pytest_testmon", "--testmon"),
    "-oaddopts=--doctest-modules --import-mode=importlib",
]
_NOTHING_FAILED = (0, 5)  # exit codes of pytest: all tests passed, or there was none


def sweep(root: Path, name: str, area: Area, size: int, seed: int, results: Results, again: bool) -> None:
    """Try the mutants of an area that are not stored yet, and those that survived once more if ``again``.

    A test that fails without any fault is left out, and told on standard error.
    """
    drawn = sample({file: (root / file).read_text() for file in area.files(root)}, size, seed)
    results.keep(name, {mutant.name for mutant in drawn})
    stored = results.read()["areas"][name]
    missed = {one for one, entry in stored.items() if entry["outcome"] in ("survived", "not reached")}
    due = [mutant for mutant in drawn if mutant.name not in stored or (again and mutant.name in missed)]
    if not due:
        return
    with copy_of_repository(root) as copy:
        trials = Trials(copy, area)
        for test in trials.failing:  # it would notice every mutant
            tqdm.write(f"{name}: left out, for it fails without any fault: {test}", file=sys.stderr)
        for mutant in tqdm(due, desc=name, disable=None):
            began = _processor_seconds()
            entry = {
                "outcome": trials.run(mutant),
                "operator": mutant.operator.removeprefix("operator_"),
                "line": mutant.line,
                "change": mutant.change,
                "seconds": round(_processor_seconds() - began, 1),
            }
            results.add(name, mutant.name, entry)


@contextmanager
def copy_of_repository(root: Path) -> Iterator[Path]:
    """A copy of the files that git knows or would add, for as long as the block lasts."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
    )
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                (copy / name).write_bytes((root / name).read_bytes())
        yield copy


class Trials:
    """Runs tests of an area in a copy: once as it is, to learn what they reach, then with mutants.

    ``patience`` is seconds of processor time beyond three times what all tests take without a fault.
    """

    def __init__(self, copy: Path, area: Area, patience: float = 30.0) -> None:
        self.copy = copy
        tests = {test for test in python_files(copy, area.tests) if Path(test).name.startswith("test_")}
        # Where examples of a module come first, pytest loads it itself, beside the one that its package has
        # imported: what a test then patches in the one is not seen in the other.
        self.places = [*sorted(tests), *sorted(set(area.files(copy)) - tests)]
        began = _processor_seconds()
        learnt = self._pytest(limit=3600)
        if learnt.returncode not in (0, 1):
            raise RuntimeError(f"the tests could not be run: {learnt.stdout}{learnt.stderr}")
        self.failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", learnt.stdout, re.MULTILINE)
        self.limit = patience + 3 * (_processor_seconds() - began)

    def run(self, mutant: Mutant) -> Outcome:
        """Put a fault in, run tests until one fails, and take it out again.

        Where no test is seen to reach it, such as a constant that others import, all of them run.
        """
        path = self.copy / mutant.file
        original = path.read_bytes()
        path.write_text(mutant.source)
        options = ["-x", "--testmon-nocollect", *(f"--deselect={test}" for test in self.failing)]
        try:
            found = self._pytest(*options, limit=self.limit)
            if found.returncode in _NOTHING_FAILED and " passed" not in found.stdout:
                found = self._pytest(*options, "--testmon-noselect", limit=self.limit)
        except subprocess.TimeoutExpired:
            return "timed out"
        finally:
            path.write_bytes(original)
        if found.returncode == -signal.SIGXCPU:
            return "timed out"
        return "survived" if found.returncode in _NOTHING_FAILED else "killed"

    def _pytest(self, *options: str, limit: float) -> subprocess.CompletedProcess[str]:
        """Run tests for so many seconds of processor time; waiting, which takes none, for four times that."""
        seconds, known = int(limit) + 1, os.environ.get("PYTHONPATH", "")
        path = f"{self.copy}{os.pathsep}{known}"
        # as in a CI, where hypothesis draws the same examples each time; importing plugins takes longest
        changes = {"CI": "1", "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            [*_PYTEST, *options, *self.places],
            cwd=self.copy,
            env={**os.environ, **changes},
            capture_output=True,
            text=True,
            timeout=4 * seconds,
            check=False,
            # at the second limit the signal has no name
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 2)),
        )


def _processor_seconds() -> float:
    """Seconds of processor time of all processes that were started and ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
