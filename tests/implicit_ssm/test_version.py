"""One version, wherever it is asked for; each package is typed, and says who it is."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from implicit_ssm import version
from implicit_ssm.version import read_version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = ("implicit_ssm", "automata", "theory", "implicit", "analysis", "paper_figures")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_package_has_the_version_of_the_project_and_types(name: str) -> None:
    package = import_module(name)
    assert package.__version__ == PROJECT["version"]
    assert package.__file__ is not None
    assert Path(package.__file__).with_name("py.typed").read_bytes() == b""


def test_an_installed_package_asks_its_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "version", {"implicit-ssm": "3.2.1"}.__getitem__)
    assert read_version(tmp_path / "pyproject.toml") == "3.2.1"
    other = tmp_path / "pyproject.toml"
    other.write_text('[project]\nname = "other"\nversion = "7"\n')  # installed into another project's folder
    assert read_version(other) == "3.2.1"


def test_neither_checkout_nor_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "DISTRIBUTION", "what-is-not-installed")
    assert read_version(tmp_path / "pyproject.toml") == "unknown"


def test_the_citation_and_the_changelog_name_the_version() -> None:
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{PROJECT['version']}] - " in (ROOT / "CHANGELOG.md").read_text()
