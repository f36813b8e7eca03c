"""The layout of theory/: no circles of imports, names that exist, and a page that names files that exist."""

import ast
import importlib
import re
from pathlib import Path

import networkx as nx
import pytest

import theory

ROOT = Path(theory.__file__).parent


def modules() -> dict[str, Path]:
    names = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def imports() -> "nx.DiGraph[str]":
    """Every import between modules of theory/, those for type checkers and inside functions included."""
    known = modules()
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(known)
    for module, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets: list[str] = []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: relative import"
                assert node.module
                deeper = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [name if name in known else node.module for name in deeper]
            elif isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            graph.add_edges_from((module, target) for target in targets if target in known)
    return graph


@pytest.mark.parametrize("depth", [2, 3, 99], ids=["sub-packages", "their parts", "modules"])
def test_no_circles_of_imports(depth: int) -> None:
    merged: nx.DiGraph[str] = nx.DiGraph()
    for source, target in imports().edges:
        pair = [".".join(name.split(".")[:depth]) for name in (source, target)]
        if pair[0] != pair[1]:
            merged.add_edge(*pair)
    assert merged.number_of_edges() > 15  # the graph was read
    assert list(nx.simple_cycles(merged)) == []


def packages() -> list[str]:
    return sorted(name for name, path in modules().items() if path.name == "__init__.py")


@pytest.mark.parametrize("package", packages())
def test_every_package_exports_names_that_exist(package: str) -> None:
    found = importlib.import_module(package)
    assert found.__all__, package
    assert [name for name in found.__all__ if not hasattr(found, name)] == []


def test_the_page_names_files_that_exist() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    table = page[page.index("## 8. Files") :]
    rows = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 15
    assert [name for name in named if not (ROOT / name).exists()] == []
    # And every file at the top, and every sub-package, is named.
    there = {f"{path.name}/" if path.is_dir() else path.name for path in ROOT.iterdir()}
    there -= {"__init__.py", "__init__.pyi", "__pycache__/", "README.md", "py.typed"}
    assert there <= {name if "/" not in name else f"{name.split('/')[0]}/" for name in named}
