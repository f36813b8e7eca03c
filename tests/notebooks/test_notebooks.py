"""Every notebook runs from top to bottom in this interpreter, and says what its stored outputs say.

What runs notebooks is imported where it is used: it takes seconds, and every process collects all tests.
"""

import base64
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread, imsave

from tests.notebooks.outputs import code, differences

NOTEBOOKS = sorted(Path(__file__).parents[2].joinpath("notebooks").glob("*.ipynb"))
SECONDS = 300
"""For a cell; a whole notebook is to take less than two minutes on two cores of its own."""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


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


def replaced(cell: int, old: str, new: str) -> Callable[[Any], None]:
    """Falsify what a cell printed, or its value."""

    def change(notebook: Any) -> None:
        changed = False
        for output in code(notebook)[cell - 1].outputs:
            place, name = (output, "text") if "text" in output else (output.get("data", {}), "text/plain")
            name = "text/markdown" if "text/markdown" in place else name
            if old in place.get(name, ""):
                place[name] = place[name].replace(old, new, 1)
                changed = True
        assert changed, f"cell {cell} does not say {old}"

    return change


def other_picture(notebook: Any) -> None:
    """Give the Jacobians the picture of the residuals."""
    pictures = [out for cell in code(notebook) for out in cell.outputs if "image/png" in out.get("data", {})]
    pictures[-1]["data"]["image/png"] = pictures[-2]["data"]["image/png"]


def mirrored_picture(notebook: Any) -> None:
    """Exchange the panels of the explicit and the implicit model."""
    (output,) = [
        out for cell in code(notebook) for out in cell.outputs if "image/png" in out.get("data", {})
    ][-1:]
    picture = imread(io.BytesIO(base64.b64decode(output["data"]["image/png"])))
    buffer = io.BytesIO()
    imsave(buffer, np.roll(picture, picture.shape[1] // 2, axis=1), format="png")
    output["data"]["image/png"] = base64.b64encode(buffer.getvalue()).decode()


FALSIFIED = {
    "a state": replaced(2, "'13542'", "'13524'"),
    "an order of a subgroup": replaced(4, "[120, 60]", "[120, 24]"),
    "a token": replaced(6, "tokens: 1 1", "tokens: 1 0"),
    "an accuracy": replaced(8, "1.0000", "0.9000"),
    "a share": replaced(8, "100.00%", "99.00%"),
    "the iterations": replaced(8, "in 7.1", "in 9.1"),
    "an accuracy of the control": replaced(10, "0.517", "0.817"),
    "a verdict": replaced(12, "Theorem 1 hold", "Theorem 1 fail"),
    "a count of states": replaced(12, "hold at 16", "hold at 15"),
    "a mass": replaced(12, "0.012", "0.12"),
    "a magnitude": replaced(12, "error of 6e-11", "error of 6e-7"),
    "agreement": replaced(13, "tokens=1.0", "tokens=0.9"),
    "a picture": other_picture,
    "the sides of a picture": mirrored_picture,
}


FALSIFIED_ELSEWHERE = {
    "a period": ("02_why_diagonal_models_cannot", replaced(4, "longest period 1", "longest period 3")),
    "a caption": ("02_why_diagonal_models_cannot", replaced(10, "512 fresh sequences", "51 fresh sequences")),
    "right answers": ("02_why_diagonal_models_cannot", replaced(17, "10,000 of 10,000", "9,998 of 10,000")),
    "unconverged tokens": ("03_fixed_points", replaced(5, "178 of 256", "78 of 256")),
    "a gradient": ("03_fixed_points", replaced(10, "k = 4: 0.0011", "k = 4: 0.0021")),
    "a share of errors": ("04_length_generalization_on_s5", replaced(7, "63 of 64", "64 of 64")),
    "an accuracy of a budget": ("05_self_iterations_at_test", replaced(2, "8: 0.949", "8: 0.999")),
    "what explains": ("05_self_iterations_at_test", replaced(4, "60.8%", "90.8%")),
    "what a verdict counts": ("06_proofs", replaced(4, "invertible at 4", "invertible at 3")),
    "that it was refused": ("06_proofs", replaced(5, "refused: statements", "accepted: statements")),
    "a proved margin": ("06_proofs", replaced(10, "a margin of at least 6.3", "a margin of at least 6.8")),
    "a printed line": ("07_a_repl_is_a_word_problem", replaced(2, "c 3", "c 2")),
    "true sessions": ("07_a_repl_is_a_word_problem", replaced(4, "720 of 720", "719 of 720")),
    "a shortcut": ("07_a_repl_is_a_word_problem", replaced(8, "0.2125", "0.3125")),
    "a probability": ("07_a_repl_is_a_word_problem", replaced(12, "at the end 0.616", "at the end 0.716")),
    "a decay": ("08_who_can_hold_a_belief", replaced(4, "predicted 0.29817", "predicted 0.39817")),
    "an underflow": ("08_who_can_hold_a_belief", replaced(5, "697.4 predicted", "797.4 predicted")),
    "an overflow": ("08_who_can_hold_a_belief", replaced(8, "at number 150", "at number 15")),
    "a posterior": ("08_who_can_hold_a_belief", replaced(9, "0.00 or 0.50", "0.00 or 0.25")),
    "a decoded belief": ("08_who_can_hold_a_belief", replaced(11, "off by 0.23", "off by 0.03")),
}
"""What a reader would be told wrongly by another notebook than the first."""


@pytest.mark.parametrize(
    ("stem", "falsify"),
    [("01_tour", change) for change in FALSIFIED.values()] + [*FALSIFIED_ELSEWHERE.values()],
    ids=[*FALSIFIED, *FALSIFIED_ELSEWHERE],
)
def test_a_falsified_output_is_noticed(stem: str, falsify: Callable[[Any], None]) -> None:
    path = next(path for path in NOTEBOOKS if path.stem == stem)
    notebook, falsified = (read(path) for _ in range(2))
    assert differences(notebook, notebook) == []
    falsify(falsified)
    assert len(differences(falsified, notebook)) == 1


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
