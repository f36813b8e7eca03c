"""Every notebook runs from top to bottom in this interpreter, and its stored outputs are fit to be read."""

import sys
from pathlib import Path

import nbformat
import pytest
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient

NOTEBOOKS = sorted(Path(__file__).parents[2].joinpath("notebooks").glob("*.ipynb"))
SECONDS = 300
"""For a cell; a whole notebook is to take less than two minutes on two cores of its own."""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel of this interpreter, whatever kernels the machine has."""
    write_kernel_spec(tmp_path / "kernels" / "this-interpreter")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return "this-interpreter"


@every_notebook
def test_runs_without_an_exception(path: Path, kernel: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    # Raises CellExecutionError, with the cell and its traceback, for the first exception.
    NotebookClient(notebook, timeout=SECONDS, kernel_name=kernel, resources=resources).execute()
    executed = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert executed == list(range(1, len(executed) + 1))


@every_notebook
def test_stored_outputs_are_complete_and_name_no_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [out for cell in code for out in cell.outputs if out.get("name") == "stderr"]
    assert sum("image/png" in out.get("data", {}) for cell in code for out in cell.outputs) >= 3
    text = path.read_text(encoding="utf-8")
    for place in ("/home/", "/root/", "/Users/", "/tmp/", "\\\\Users", sys.prefix):
        assert place not in text
    assert len(text) < 1_000_000  # what code browsers still draw
