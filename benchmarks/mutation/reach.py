"""Which tests reach which line: coverage with a context for every test, measured once per area."""

import ast
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest


@dataclass
class Reach:
    """What the tests of an area reach.

    Example:
        >>> reach = Reach({"slow": 2.0, "quick": 0.1}, {"demo.py": {2: {"slow", "quick"}}})
        >>> reach.tests("demo.py", "def double(x):\\n    return 2 * x", line=2)
        ['quick', 'slow']
        >>> reach.tests("demo.py", "def double(x):\\n    return 2 * x", line=1)  # run when it is imported
        ['quick', 'slow']
    """

    seconds: dict[str, float] = field(default_factory=dict)  # processor time of every test that passed
    # of every file, the tests that reach a line
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)  # tests that do not pass without any fault

    def tests(self, file: str, source: str, line: int) -> list[str]:
        """Return the tests that reach the statement around a line, the quickest first.

        A statement that runs when the module is imported, such as a constant, is reached by all tests of the
        test files that reach a function of the file.
        """
        reached = self.lines.get(file, {})
        extent = statement_lines(source, line)
        wanted = reached if extent is None else [one for one in extent if one in reached]
        found = set().union(*(reached[one] for one in wanted))
        if extent is None:
            places = {test.partition("::")[0] for test in found or self.seconds}
            found = {test for test in self.seconds if test.partition("::")[0] in places}
        return sorted(found & self.seconds.keys(), key=lambda test: (self.seconds[test], test))


def statement_lines(source: str, line: int) -> range | None:
    """Return the lines of the innermost statement of a function around a line; None outside of functions.

    Of a statement with a body only the head counts.

    Example:
        >>> source = "N = 3\\ndef f(\\n    x,\\n    y=N,\\n):\\n    if (x >\\n        y):\\n        return 1"
        >>> [statement_lines(source, line) for line in (1, 4, 7, 8)]
        [None, None, range(6, 8), range(8, 9)]
    """
    found = None
    for function in _functions(ast.parse(source)):
        for node in ast.walk(function):
            if isinstance(node, ast.stmt) and node is not function and not isinstance(node, ast.ClassDef):
                body = getattr(node, "body", None) or getattr(node, "cases", None)
                end = node.end_lineno if body is None else max(node.lineno, _first_line(body[0]) - 1)
                if node.lineno <= line <= (end or node.lineno):
                    found = range(node.lineno, (end or node.lineno) + 1)
    return found


def _functions(tree: ast.AST) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _first_line(node: ast.AST) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 0)


class ReachPlugin:
    """A pytest plugin that fills a `Reach`."""

    def __init__(self, files: list[str]) -> None:
        self.reach = Reach()
        self.files = {str(Path(file).resolve()): file for file in files}
        self.coverage = coverage.Coverage(data_file=None, include=list(self.files), config_file=False)

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """A context for the test with its fixtures."""
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        yield
        self.reach.seconds[item.nodeid] = time.process_time() - began
        self.coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.reach.failed.append(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.reach.failed.append(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Read who reached what."""
        self.coverage.stop()
        data = self.coverage.get_data()
        for path, file in self.files.items():
            contexts: Mapping[int, list[str]] = data.contexts_by_lineno(path)
            self.reach.lines[file] = {line: {one for one in by if one} for line, by in contexts.items()}
