"""Every notebook runs from top to bottom in this interpreter, and says what its stored outputs say.

What runs notebooks is imported where it is used: it takes seconds, and every process collects all tests.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.outputs import differences, text_differences

NOTEBOOKS = sorted(Path(__file__).parents[2].joinpath("notebooks").glob("*.ipynb"))
SECONDS = 300
"""For a cell; a whole notebook is to take less than two minutes on two cores of its own."""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this interpreter, whatever kernels the machine has."""
    from ipykernel.kernelspec import write_kernel_spec

    write_kernel_spec(tmp_path / "kernels" / "this-interpreter")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return "this-interpreter"


@every_notebook
def test_stored_outputs_are_those_of_executing_it(path: Path, kernel: str) -> None:
    from nbclient import NotebookClient

    stored, notebook = read(path), read(path)
    resources = {"metadata": {"path": str(path.parent)}}
    # Raises CellExecutionError, with the cell and its traceback, for the first exception.
    NotebookClient(notebook, timeout=SECONDS, kernel_name=kernel, resources=resources).execute()
    executed = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert executed == list(range(1, len(executed) + 1))
    assert differences(stored, notebook) == []


@pytest.mark.parametrize(
    ("stored", "executed", "trained", "same"),
    [
        ("residual 6e-11 in 7.1 sweeps", "residual 9e-11 in 7.1 sweeps", False, True),
        ("error of 6e-11", "error of 6e-7", False, False),
        ("a mass of 0.0124", "a mass of 0.0125", False, False),
        ("a mass of 0.01241", "a mass of 0.01242", False, True),
        ("hold at 16 states", "hold at 15 states", False, False),
        ("Theorem 1 hold", "Theorem 1 fail", False, False),
        ("accuracy 0.517", "accuracy 0.557", True, True),
        ("accuracy 0.517", "accuracy 0.817", True, False),
        ("one line", "one line\nand another", False, False),
    ],
)
def test_what_may_differ_is_the_rounding_of_another_processor(
    stored: str, executed: str, trained: bool, same: bool
) -> None:
    assert (list(text_differences(stored, executed, trained)) == []) == same


@every_notebook
def test_stored_outputs_are_complete_and_name_no_machine(path: Path) -> None:
    import nbformat

    notebook = read(path)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [out for cell in code for out in cell.outputs if out.get("name") == "stderr"]
    assert sum("image/png" in out.get("data", {}) for cell in code for out in cell.outputs) >= 3
    text = path.read_text(encoding="utf-8")
    for place in ("/home/", "/root/", "/Users/", "/tmp/", "\\\\Users", sys.prefix):
        assert place not in text
    assert len(text) < 1_000_000  # what code browsers still draw
