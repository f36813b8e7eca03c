"""Runs tests in a copy of the repository, in a child of a process that has imported the large libraries.

A child has those, but nothing of this repository: that it imports from the copy, with the fault. So a mutant
costs its tests and a second, and its fault is also in what the tests start as processes of their own.
"""

import importlib
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from benchmarks.mutation.areas import Area, python_files
from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.reach import Reach, ReachPlugin

Outcome = Literal["killed", "survived", "timed out", "not reached"]

OURS = ("automata", "theory", "implicit", "analysis", "paper_figures", "benchmarks", "tests")
SLOW_TO_IMPORT = (
    "torch",
    "scipy.optimize",
    "scipy.linalg",
    "scipy.stats",
    "numpy.testing",
    "torch.testing",
    "torch.func",
    "matplotlib.pyplot",
    "networkx",
    "pydantic",
    "hypothesis",
    "hypothesis.extra.numpy",
    "flint",
    "rich.console",
    "safetensors.torch",
)
_OPTIONS = [
    "-q",
    "-pno:cacheprovider",
    "-oaddopts=--doctest-modules --import-mode=importlib",
    "-Wignore::pytest.PytestAssertRewriteWarning",  # of hypothesis, which is imported before the fork
]


@contextmanager
def copy_of_repository(root: Path) -> Iterator[Path]:
    """A copy of the files that git knows or would add, compiled, for as long as the block lasts."""
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
    """Runs tests of an area in a copy, as it is and with mutants.

    ``patience`` is seconds of processor time beyond three times what the tests take without a fault.
    """

    def __init__(self, copy: Path, area: Area, patience: float = 30.0) -> None:
        self.copy = copy
        self.patience = patience
        self.area = area
        for name in SLOW_TO_IMPORT:
            if importlib.util.find_spec(name.partition(".")[0]):
                importlib.import_module(name)

    def reach(self) -> Reach:
        """Run all tests without a fault, and see which lines they reach."""
        files = self.area.files(self.copy)
        tests = python_files(self.copy, self.area.tests)
        places = _tests_first([*files, *(test for test in tests if Path(test).name.startswith("test_"))])

        def measure() -> dict[str, Any]:
            plugin = ReachPlugin(files)
            pytest.main([*_OPTIONS, *places], plugins=[plugin])
            return vars(plugin.reach)

        found = in_child(self.copy, measure, seconds=3600)
        if not isinstance(found, dict):
            raise RuntimeError(f"the tests could not be run: {found}")
        return Reach(**found)

    def run(self, mutant: Mutant, tests: Sequence[str], expected: float) -> Outcome:
        """Put a fault in, run tests until one fails, and take it out again.

        Tests run in this order; ``expected`` is the processor time that they take without the fault.
        """
        if not tests:
            return "not reached"
        path = self.copy / mutant.file
        original = path.read_bytes()
        places = _tests_first({test.partition("::")[0] for test in tests})
        try:
            path.write_text(mutant.source)
            seconds = self.patience + 3 * expected
            code = in_child(
                self.copy,
                lambda: int(pytest.main([*_OPTIONS, "-x", *places], plugins=[_Chosen(tests)])),
                seconds,
            )
        finally:
            path.write_bytes(original)
        if code == "timed out":
            return "timed out"
        return "survived" if code == pytest.ExitCode.OK else "killed"


def _tests_first(places: Iterable[str]) -> list[str]:
    """As in the whole suite.

    Where the examples of a module come first, pytest loads it itself, beside the one that its package has
    imported: what a test then patches in the one is not seen in the other.
    """
    return sorted(places, key=lambda place: (not place.startswith("tests/"), place))


def in_child(copy: Path, work: Callable[[], Any], seconds: float) -> Any:
    """Return what the work returns in a forked process; its traceback or "timed out" if it does not.

    The work may take so many seconds of processor time.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        answer: Any = "the process ended"
        try:
            os.close(reading)
            os.setsid()
            _prepare(copy, seconds)
            answer = work()
        except BaseException:
            answer = traceback.format_exc()
        finally:
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(pickle.dumps(answer))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        content = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM):
        return "timed out"
    return pickle.loads(content) if content else f"the process ended with status {status}"


def _prepare(copy: Path, seconds: float) -> None:
    """In the child: no output, no module of this repository, limits of time, and nothing left to chance."""
    from hypothesis import Phase, settings

    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    limit = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))  # at the second one the signal has no name
    signal.alarm(4 * limit)  # one that waits takes no processor time
    for name in [name for name in sys.modules if name.partition(".")[0] in OURS]:
        del sys.modules[name]
    os.chdir(copy)
    ours = str(Path(__file__).parents[2])
    sys.path[:] = [str(copy), *(place for place in sys.path if place not in ("", ours))]
    sys.dont_write_bytecode = True  # of a module with a fault
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    # Shrinking a failure takes longer than finding it.
    settings.register_profile(
        "mutation", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("mutation")


class _Chosen:
    """A pytest plugin that runs some tests in a given order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self.place = {test: index for index, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )
