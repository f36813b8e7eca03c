"""A wheel contains all that the commands read, and nothing that was not meant to be installed.

It is made of a copy of the packages, by the build backend itself, without network.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("implicit_ssm", "automata", "theory", "implicit", "analysis", "paper_figures")
READ = ("*.py", "*.pyi", "py.typed", "*.json", "*.jsonl", "*.safetensors", "*.yaml", "_local", "_tracking")
"""Files that commands read, with those that task files of `lm-eval` include; no README beside the code."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    source, made = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("made")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for name in (*PACKAGES, "tests", "benchmarks"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, made], cwd=source, check=True, capture_output=True)
    return zipfile.ZipFile(next(made.glob("*.whl"))).namelist()


def test_the_wheel_contains_what_the_packages_read(wheel: list[str]) -> None:
    files = {
        str(path.relative_to(ROOT))
        for name in PACKAGES
        for kind in READ
        for path in (ROOT / name).rglob(kind)
    }
    files |= {str(path.relative_to(ROOT)) for path in (ROOT / "paper_figures" / "figures").glob("*.md")}
    claims = ROOT / "analysis" / "certificates" / "claims"
    files |= {str(path.relative_to(ROOT)) for path in claims.glob("*.md")}
    assert {"implicit/stored_runs/parity/model.safetensors", "paper_figures/results/jacobians.json"} < files
    assert set(wheel) == files | {name for name in wheel if ".dist-info/" in name}
