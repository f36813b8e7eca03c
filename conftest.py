"""Settings that have to be made before the first test module is imported."""

import gc
import os
import random
import secrets
from collections.abc import Generator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

# Without a GPU, Triton kernels run in its interpreter, which is chosen when Triton is first imported.
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

ROOT = Path(__file__).parent
PACKAGES = ("automata", "theory", "implicit", "analysis", "paper_figures", "benchmarks", "website")
SLOW = frozenset(ROOT.joinpath("tests", "slow.txt").read_text(encoding="utf-8").split())
"""Files, and tests without their parameters, that take a tenth of a second or more."""

NEED_TRITON = [
    "implicit/ops/triton_*",
    "implicit/ops/*/triton_*",
]
NEED_NUMBA = [
    "implicit/enclosed/numba_*",
    "implicit/modes/fused.py",
    "implicit/ops/sequential_solve/solve.py",
    "implicit/ops/*numba_*",
    "implicit/ops/*/numba_*",
]
NEED_MKDOCS = ["website/docstrings.py", "website/hooks.py"]
collect_ignore_glob = [
    *([] if find_spec("triton") else NEED_TRITON),
    *([] if find_spec("numba") else NEED_NUMBA),
    *([] if find_spec("mkdocs") else NEED_MKDOCS),
]


def pytest_collect_file(file_path: Path) -> None:
    """Import the package of a file before the file.

    With ``--import-mode=importlib`` pytest would import the package on its way, and then run a file that the
    package has imported a second time: half the program would have the first classes, half the second.
    """
    parts = file_path.relative_to(ROOT).parts[:-1] if file_path.is_relative_to(ROOT) else ()
    if file_path.suffix == ".py" and parts and parts[0] in PACKAGES:
        import_module(".".join(parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what collecting imports, neither meanwhile nor later: it all stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)  # tests leave little behind: look less often
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests, which `make test-fast` leaves out."""
    for item in items:
        if not SLOW.isdisjoint((item.nodeid.partition("::")[0], item.nodeid.partition("[")[0])):
            item.add_marker("slow")


_drawn = random.Random()
secrets.randbits = lambda k: _drawn.getrandbits(k)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a test draw the same seeds in every run, where users get seeds of the operating system."""
    _drawn.seed(item.nodeid)
