"""Every notebook runs from top to bottom in this interpreter, and says what its stored outputs say.

What runs notebooks is imported where it is used: it takes seconds, and every process collects all tests.
"""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted(Path(__file__).parents[2].joinpath("notebooks").glob("*.ipynb"))
SECONDS = 300
"""For a cell; a whole notebook is to take less than two minutes on two cores of its own."""

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

WEIGHTS = re.compile(r"weights of SHA-256 [0-9a-f]{64}")
"""The hash of weights, which rounding elsewhere changes where a notebook makes the model itself."""

TRAINED = 0.08
"""Accuracies of the control that the notebook trains: training on another processor rounds otherwise, and 640
answers, as many as the last ten tokens of 64 sequences, have a standard deviation of 0.02."""
ROUNDING = 1e-5
"""Numbers below this are errors of rounding, of which only the order of magnitude is the same elsewhere. A
fixed point in float32 was 2e-6 from the sequential one on one processor and 1e-6 on another."""
MAGNITUDES = 1000.0
LAST_DIGIT = 0.6
"""Tolerance of the second digit, or the third where there are more: 6% or 0.6% for rounding elsewhere."""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    import nbformat

    return nbformat.read(path, as_version=4)


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text(cell: Any) -> str:
    """All that a cell printed, and its value: a caption in its own words, not as an object."""
    parts = []
    for output in cell.outputs:
        value = output.get("data", {})
        parts.append(output.get("text", "") or value.get("text/markdown", "") or value.get("text/plain", ""))
    return WEIGHTS.sub("weights …", "".join(parts))


def text_differences(stored: str, executed: str, trained: bool) -> Iterator[str]:
    """Lines whose words differ, or whose numbers differ by more than they may."""
    lines, again = stored.splitlines(), executed.splitlines()
    if len(lines) != len(again):
        yield f"{len(lines)} lines, not {len(again)}"
        return
    for one, other in zip(lines, again, strict=True):
        numbers, fresh = NUMBER.findall(one), NUMBER.findall(other)
        same = NUMBER.sub("#", one) == NUMBER.sub("#", other)
        if not same or not all(near(a, b, trained) for a, b in zip(numbers, fresh, strict=True)):
            yield f"{one!r} is stored, {other!r} is found"


def near(one: str, other: str, trained: bool) -> bool:
    """Return whether two printed numbers are the same but for what another processor may change."""
    if one == other:
        return True
    a, b = float(one), float(other)
    if "." not in one + other and "e" not in one + other:  # counts, seeds, tokens and states are exact
        return False
    if max(abs(a), abs(b)) < ROUNDING:
        return a > 0 and b > 0 and 1 / MAGNITUDES < a / b < MAGNITUDES
    digits = len(re.sub(r"e.*|\D", "", other).lstrip("0"))
    return abs(a - b) <= (TRAINED if trained else LAST_DIGIT * 10.0 ** -min(digits - 1, 2) * abs(b))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A kernel of this interpreter, whatever kernels the machine has: one for all: imports take seconds."""
    import nbformat
    from ipykernel.kernelspec import write_kernel_spec
    from nbclient import NotebookClient

    folder = tmp_path_factory.mktemp("jupyter")
    write_kernel_spec(folder / "kernels" / "this-interpreter")
    nothing, resources = nbformat.v4.new_notebook(), {"metadata": {"path": str(NOTEBOOKS[0].parent)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        client = NotebookClient(nothing, timeout=SECONDS, kernel_name="this-interpreter", resources=resources)
        yield client
        client.nb = nothing
        client.execute()  # which ends the kernel


@every_notebook
def test_stored_outputs_are_those_of_executing_it(path: Path, client: Any) -> None:
    import nbformat

    stored, notebook = read(path), read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # no name of another notebook is left
    client.nb = notebook
    # Raises CellExecutionError, with the cell and its traceback, for the first exception.
    client.execute(cleanup_kc=False)
    del notebook.cells[0]
    for number, (one, other) in enumerate(zip(code(stored), code(notebook), strict=True), start=1):
        told_wrongly = text_differences(text(one), text(other), trained="train(" in one.source)
        assert list(told_wrongly) == [], f"cell {number}"


@every_notebook
def test_stored_outputs_are_complete_and_name_no_machine(path: Path) -> None:
    import nbformat

    notebook = read(path)
    nbformat.validate(notebook)
    cells = code(notebook)
    outputs = [out for cell in cells for out in cell.outputs]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [out for out in outputs if out.get("name") == "stderr"]
    assert sum("image/png" in out.get("data", {}) for out in outputs) >= 3
    text = path.read_text(encoding="utf-8")
    for place in ("/home/", "/root/", "/Users/", "/tmp/", "\\\\Users", sys.prefix):
        assert place not in text
    assert len(text) < 1_000_000  # what code browsers still draw


INNER = ("analysis.certificates",)
"""Values that notebook 06 takes apart: the documents and claims themselves."""


@every_notebook
def test_imports_are_of_public_names(path: Path) -> None:
    ours = ("automata", "theory", "implicit", "analysis", "paper_figures")
    sources = [
        "".join(line for line in cell.source.splitlines(True) if line[0] != "%") for cell in code(read(path))
    ]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    deeper = []
    for node in imports:
        assert node.module
        package, _, last = node.module.rpartition(".")
        if node.module.partition(".")[0] in ours and not node.module.startswith(INNER):
            module = import_module(node.module)
            public = hasattr(module, "__path__") or last in dir(import_module(package))
            known = getattr(module, "__all__", dir(module))
            deeper += [(node.module, name.name) for name in node.names if not (public and name.name in known)]
    assert deeper == []
