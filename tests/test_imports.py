"""Imports point downward and go in no circle: the contracts of pyproject.toml, and single modules.

The contracts are import-linter's; theirs about circles compares siblings at every depth. What it cannot see
is a module that imports its own package while the package's ``__init__`` imports it.
"""

import subprocess
import sys
from pathlib import Path

import grimp
import networkx
import pytest
from importlinter.cli import lint_imports

PACKAGES = ("implicit_ssm", "automata", "theory", "implicit", "analysis", "paper_figures", "benchmarks")


def circles(imports: "networkx.DiGraph[str]") -> list[list[str]]:
    """Return the modules that import each other, directly or through others."""
    return [sorted(group) for group in networkx.strongly_connected_components(imports) if len(group) > 1]


@pytest.fixture(scope="module")
def imports() -> "networkx.DiGraph[str]":
    # Imports for the type checker only are a dependency of the reader too: they count.
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=False, cache_dir=None)
    imported = graph.find_modules_directly_imported_by
    return networkx.DiGraph([(name, found) for name in graph.modules for found in imported(name)])


def test_the_contracts_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert lint_imports(no_cache=True) == 0, capsys.readouterr().out


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_through_others(package: str, imports: "networkx.DiGraph[str]") -> None:
    inside = [module for module in imports if module.split(".")[0] == package]
    assert inside, f"{package} was not read"
    assert circles(imports.subgraph(inside)) == []


def test_a_circle_would_be_found() -> None:
    assert circles(networkx.DiGraph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])) == [["a", "b", "c"]]


ONCE = """
import implicit.language
import implicit.language.modeling

def test_once():
    assert implicit.language.LanguageModel is implicit.language.modeling.LanguageModel
"""


def test_pytest_runs_no_module_a_second_time(tmp_path: Path) -> None:
    """Its own import of a file runs it anew, if the package of the file has imported it just before."""
    (tmp_path / "test_once.py").write_text(ONCE)
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", "test_once"]
    files = ["implicit/language/modeling.py", str(tmp_path / "test_once.py")]
    command, root = [sys.executable, "-m", "pytest", *options, *files], Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
