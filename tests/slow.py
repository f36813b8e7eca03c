"""The marker `slow`, from what tests were measured to cost; `make test-fast` leaves such tests out.

`python -m pytest -n 2 --measure` runs the tests that are chosen and stores what they cost in processor
seconds, so that a busy machine does not change it; set-up and the processes that they start are included.
A test that was never measured counts as fast.
"""

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest

STORED = Path(__file__).with_name("slow.json")
SLOW = 0.1
"""Processor seconds from which on a test is slow, so that `make test-fast` takes under 90 s on two cores."""

SHARED = {
    "tests/analysis/certificates/arb/test_deltanet.py": "certified",
    "tests/analysis/certificates/attraction/test_every_start.py": "found",
    "tests/analysis/certificates/theorem1/test_attraction.py": "content",
    "tests/analysis/certificates/words/test_certificate.py": "content",
    "tests/analysis/test_all_lengths.py": "content",
    "tests/analysis/test_demo.py": "folder",
    "tests/benchmarks/certificate_mutations/test_sweep.py": "made",
    "tests/implicit/ops/test_triton_compilation.py": "report",
}
"""Fixtures of a module that take seconds: what uses them is slow, whichever test happens to be the first."""

_started = pytest.StashKey[float]()


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def stored_costs() -> dict[str, float]:
    """Return the processor seconds of the slow tests by their ids."""
    costs: dict[str, float] = json.loads(STORED.read_text()) if STORED.exists() else {}
    return costs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", action="store_true", help="store what the tests cost in tests/slow.json")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--measure") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ledger())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    costs = stored_costs()
    for item in items:
        shared = SHARED.get(item.nodeid.partition("::")[0]) in getattr(item, "fixturenames", ())
        if shared or costs.get(item.nodeid, 0.0) >= SLOW:
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_started] = _processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("processor_seconds", _processor_seconds() - item.stash[_started]))
    return report


class Ledger:
    """Gathers what the tests cost, from the processes that run them, and stores it at the end."""

    def __init__(self) -> None:
        self.costs: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            cost = dict(report.user_properties)["processor_seconds"]
            assert isinstance(cost, float)
            self.costs[report.nodeid] = cost

    def pytest_sessionfinish(self) -> None:
        """Replace what is stored of the tests that ran; keep the others, and only the slow ones."""
        costs = {
            name: round(cost, 1 if cost >= 1 else 2)
            for name, cost in {**stored_costs(), **self.costs}.items()
        }
        slow = {name: cost for name, cost in sorted(costs.items()) if cost >= SLOW}
        STORED.write_text(json.dumps(slow, indent=0, ensure_ascii=False) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what other limits would leave to `make test-fast`."""
        for limit in (0.1, SLOW, 0.5, 1.0):
            fast = [cost for cost in self.costs.values() if cost < limit]
            terminalreporter.write_line(
                f"under {limit:4} processor seconds: {len(fast)} of {len(self.costs)}, {sum(fast):.0f} s"
            )
