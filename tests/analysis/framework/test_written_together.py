"""An analysis that is killed leaves its old results or its new ones, never both, wherever files change."""

import contextlib
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from analysis.convergence import ANALYSIS

FILES = {f"convergence.{kind}" for kind in ("caption.txt", "json", "pdf", "png")}


class Killed(BaseException):
    """Stands for the end of the process."""


class KilledAt:
    """Replaces calls of functions that change files; the n-th does not come back."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise Killed
            return function(*arguments, **options)

        return call


def test_new_results_never_lie_beside_old_ones(
    make_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, settings = make_run("implicit-mamba2", contracting=True), ANALYSIS.settings(sequences=3, length=6)
    outcome = ANALYSIS.measure(run, settings)
    quick = dataclasses.replace(ANALYSIS, measure=lambda *_: outcome, draw=lambda *_: Figure((1, 1)))
    for number in range(1, 100):
        for name in FILES:
            (tmp_path / name).write_bytes(b"old")
        killed = KilledAt(number)
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(os, name, killed(getattr(os, name)))
            with contextlib.suppress(Killed):
                quick.answer([run], settings, [tmp_path])
        old = {
            name for name in FILES if (tmp_path / name).exists() and (tmp_path / name).read_bytes() == b"old"
        }
        new = {name for name in FILES if (tmp_path / name).exists()} - old
        assert not old or not new, f"call {number}: {old} and {new}"
        if killed.left > 0:
            break
    assert new == FILES


def test_what_a_killed_process_left_is_removed(make_run: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    mine, left = out / ".unfinished-notes", out / f".unfinished-{2**22 + 1}-abc"  # there is no such process
    mine.mkdir(parents=True)
    left.mkdir()
    run, settings = make_run("implicit-mamba2", contracting=True), ANALYSIS.settings(sequences=3, length=6)
    ANALYSIS.answer([run], settings, [out])
    assert {path.name for path in out.iterdir()} == {mine.name, *FILES}
