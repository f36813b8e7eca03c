"""Fixtures of the whole suite."""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from implicit.command_line import BAD_INPUT, run_command
from implicit.runs import environment

Main = Callable[[Sequence[str] | None], None]
Refuses = Callable[[Main, list[str]], str]

LARGE = 2**26
"""Bytes of a file that is not read, as it may be gigabytes of a hole: its size and its times tell."""


def _contents(folder: Path) -> dict[str, object]:
    """Every path below a folder with what a file holds."""

    def content(path: Path) -> object:
        status = path.stat()
        large = status.st_size > LARGE
        return (status.st_size, status.st_mtime_ns, status.st_ctime_ns) if large else path.read_bytes()

    return {
        str(path.relative_to(folder)): content(path) if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    }


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs Triton where there is none."""
    if find_spec("triton") is None:
        for item in items:
            if item.get_closest_marker("triton"):
                item.add_marker(pytest.mark.skip("Triton is not installed; there are builds for Linux only"))


@pytest.fixture(scope="session", autouse=True)
def what_takes_long_is_spared() -> Iterator[None]:
    """Remember which commit this is, which every run and every result names; draw figures coarsely.

    One thread, as `make test` has: with more, commands say first how many they choose.
    """
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "_commit", cache(environment._commit))
        if figures := sys.modules.get("analysis.framework.figures"):
            # stored figures are looked at by nobody; fonts of type 42 are cut down, which takes long
            for name, value in (("savefig.dpi", 50), ("pdf.fonttype", 3)):
                patch.setitem(figures.STYLE, name, value)
        yield


@pytest.fixture
def refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Refuses:
    """Run a command that has to refuse its input; return the sentence that it refuses it with.

    Exit code 2, one line on standard error, nothing on standard output, and nothing written below tmp_path.
    """

    def run(main: Main, argv: list[str]) -> str:
        before = _contents(tmp_path)
        capsys.readouterr()
        code = run_command(main, argv)
        captured = capsys.readouterr()
        assert code == BAD_INPUT
        assert captured.out == ""
        assert captured.err.startswith("error: ")
        assert captured.err.endswith("\n")
        assert captured.err.count("\n") == 1
        assert "Traceback" not in captured.err
        assert _contents(tmp_path) == before
        return captured.err

    return run
