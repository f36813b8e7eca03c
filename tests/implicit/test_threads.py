"""Commands take one thread for a small model, say so, and leave the process as it was."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from analysis.jacobian import ANALYSIS
from automata.errors import InputError
from implicit import threads
from implicit.train import main

TRAIN = ["--task", "parity", "--model", "lstm", "--d-model", "4", "--steps", "1", "--warmup-steps", "1"]
TRAIN += ["--quiet"]


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("flags", "environment", "taken", "said"),
    [
        ([], {}, 1, "threads: 1, enough for a small model; --threads takes more\n"),
        (["--threads", "2"], {}, 2, ""),
        (["--threads", "3"], {}, 3, "threads: 3, as --threads says\n"),
        ([], {"OMP_NUM_THREADS": "2"}, 2, ""),
    ],
)
def test_training_takes_one_thread_unless_told_otherwise(
    flags: list[str],
    environment: dict[str, str],
    taken: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    main([*TRAIN, "--out", str(tmp_path / "run"), *flags])
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["threads"] == taken
    assert capsys.readouterr().err == said


def test_a_question_takes_one_thread_and_a_large_model_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["parity-small", "--states", "1", "--sequences", "1", "--length", "2"]
    for most, taken in ((1_000_000, 1), (100, 2)):
        monkeypatch.setattr(threads, "MOST_PARAMETERS", most)
        assert ANALYSIS.main([*flags, "--out", str(tmp_path)]) == 0
        assert json.loads((tmp_path / "jacobian.json").read_text())["environment"]["threads"] == taken
        assert ("threads: 1" in capsys.readouterr().err) == (taken == 1)


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5", "5000", "9" * 5000])
def test_what_is_no_number_of_threads_is_refused(given: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"^threads is {given}; give a whole number from 1 to 1024$"):
        main([*TRAIN, "--out", str(tmp_path / "run"), "--threads", given])
    assert not (tmp_path / "run").exists()
