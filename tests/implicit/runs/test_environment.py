"""The description of the environment: complete, and silent about who and where."""

import inspect
import json
import socket
import subprocess
from pathlib import Path

import pytest

from implicit.runs import environment
from implicit.runs.environment import describe_environment


@pytest.fixture(autouse=True)
def git_is_asked_every_time(what_takes_long_is_spared: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_commit", inspect.unwrap(environment._commit))


def test_names_no_machine_or_path() -> None:
    text = json.dumps(describe_environment())
    assert socket.gethostname() not in text
    assert str(Path.home()) not in text
    assert "/" not in text


def test_commit_is_of_the_repository_that_tracks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    monkeypatch.setattr(environment, "__file__", str(tmp_path / "environment.py"))
    assert describe_environment()["commit"] is None
    git("init")
    (tmp_path / "environment.py").write_text("first\n")
    (tmp_path / "other.py").write_text("other\n")
    git("add", "other.py")
    git("commit", "-m", "other")
    assert describe_environment()["commit"] is None  # as in an installed copy inside another project
    git("add", "environment.py")
    git("commit", "-m", "first")
    assert describe_environment()["commit"] == git("rev-parse", "HEAD")
    (tmp_path / "environment.py").write_text("second\n")
    assert describe_environment()["commit"] == git("rev-parse", "HEAD") + "-dirty"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert describe_environment()["commit"] is None
