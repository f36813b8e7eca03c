"""The marker `slow`, from what tests were measured to cost; `make test-fast` leaves such tests out.

`python -m pytest -n 2 --measure` runs the tests that are chosen and stores what they cost in processor
seconds, so that a busy machine does not change it; set-up and the processes that they start are included.
What several tests share is stored by itself, as ``file::fixture``: whichever of them is the first to set it
up, all are slow. A test that was never measured counts as fast.
"""

import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

STORED = Path(__file__).with_name("slow.json")
SLOW = 0.1
"""Processor seconds from which on a test is slow, so that `make test-fast` takes under 90 s on two cores."""

_started = pytest.StashKey[float]()
_shared = pytest.StashKey[dict[str, float]]()


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
        if any(costs.get(name, 0.0) >= SLOW for name in _names(item)):
            item.add_marker("slow")


def _names(item: pytest.Item) -> Iterator[str]:
    """Under which the costs of a test are stored: its own, and those of the fixtures of its file."""
    yield item.nodeid
    file = item.nodeid.partition("::")[0]
    yield from (f"{file}::{fixture}" for fixture in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_started], item.stash[_shared] = _processor_seconds(), {}
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Count what lasts longer than a test by itself; what it asks for was set up before."""
    started = _processor_seconds()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function" and fixturedef.baseid:
            cost = _processor_seconds() - started
            request._pyfuncitem.stash[_shared][f"{fixturedef.baseid}::{fixturedef.argname}"] = cost


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        shared = item.stash[_shared]
        own = _processor_seconds() - item.stash[_started] - sum(shared.values())
        report.user_properties.append(("processor_seconds", {item.nodeid: own, **shared}))
    return report


class Ledger:
    """Gathers what the tests cost, from the processes that run them, and stores it at the end."""

    def __init__(self) -> None:
        self.costs: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            costs = dict(report.user_properties)["processor_seconds"]
            assert isinstance(costs, dict)
            for name, cost in costs.items():
                self.costs[name] = max(cost, self.costs.get(name, 0.0))  # both processes may set a fixture up

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
