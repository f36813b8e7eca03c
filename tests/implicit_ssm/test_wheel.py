"""A wheel contains all that the commands read, and nothing that was not meant to be installed.

It is made of a copy of the packages, by the build backend itself, without network.
"""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("implicit_ssm", "automata", "theory", "implicit", "analysis", "paper_figures")
READ = ("*.py", "*.pyi", "py.typed", "*.json", "*.jsonl", "*.safetensors", "*.yaml", "_local", "_tracking")
"""Files that commands read, with those that task files of `lm-eval` include; no README beside the code."""


def test_the_wheel_contains_what_the_packages_read(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in (*PACKAGES, "tests", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, "made"], cwd=tmp_path, check=True, capture_output=True)
    wheel = set(zipfile.ZipFile(next(tmp_path.glob("made/*.whl"))).namelist())
    found = [path for name in PACKAGES for kind in READ for path in (ROOT / name).rglob(kind)]
    for folder in ("paper_figures/figures", "analysis/certificates/claims"):
        found += (ROOT / folder).glob("*.md")
    files = {str(path.relative_to(ROOT)) for path in found}
    assert {"implicit/stored_runs/parity/model.safetensors", "paper_figures/results/jacobians.json"} < files
    assert wheel == files | {name for name in wheel if ".dist-info/" in name}
