"""A finished run, small enough to be made in a moment."""

import shutil
from pathlib import Path

import pytest

from implicit.train import train
from tests.small_models import small_config


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished LSTM run; read it only."""
    folder = tmp_path_factory.mktemp("stored") / "run"
    config = small_config(batch_size=4, length=6, steps=4, evaluate_every=2, checkpoint_every=2)
    train(config, folder, progress=False)
    return folder


@pytest.fixture
def run_folder(stored_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that run, to tamper with: ``run`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(stored_run, tmp_path / "run")
