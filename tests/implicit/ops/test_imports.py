"""The modules of the ops import each other without circles, also where an import waits inside a function."""

import ast
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[3]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, modules: set[str]) -> set[str]:
    """Every module of a set that a file imports anywhere, TYPE_CHECKING and functions included."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                within = f"{node.module}.{alias.name}"
                found.add(within if within in modules else node.module)
    return found & modules


def graph(folder: str) -> "nx.DiGraph[str]":
    files = {name_of(path): path for path in (ROOT / folder).rglob("*.py")}
    drawn: nx.DiGraph[str] = nx.DiGraph()
    drawn.add_nodes_from(files)
    for name, path in files.items():
        drawn.add_edges_from((name, other) for other in imports(ast.parse(path.read_text()), set(files)))
    return drawn


def test_no_circles() -> None:
    drawn = graph("implicit/ops")
    inside_a_function = ("implicit.ops.ssd.dispatch", "implicit.ops.ssd.triton_kernels")
    assert inside_a_function in drawn.edges
    assert list(nx.simple_cycles(drawn)) == []


def test_no_op_imports_another() -> None:
    """What several ops need lies beside their folders; the mixer of Mamba-2 is made of three of them."""
    drawn = graph("implicit/ops")
    ops = {path.parent.name for path in (ROOT / "implicit/ops").glob("*/__init__.py")}
    ops -= {"numba_shared", "triton_shared"}
    assert {"ssd", "gated_norm", "short_convolution", "sequential_solve"} <= ops
    between = {(f"{start}...".split(".")[2], f"{end}...".split(".")[2]) for start, end in drawn.edges}
    composed = {("mamba2_mixer", part) for part in ("short_convolution", "ssd", "gated_norm")}
    assert {(a, b) for a, b in between if a != b and {a, b} <= ops} == composed
