"""Uniqueness of fixed points over the sets of a cover: what is proved, kept, gone on with and refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import all_lengths, one_fixed_point
from analysis.all_lengths import AllLengthsAnalysis
from analysis.one_fixed_point import OneFixedPointAnalysis, analyse, group_alike
from analysis.one_fixed_point import proof as proofs
from analysis.one_fixed_point.kept_parts import PARTS
from automata.errors import InputError
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.one_fixed_point import OneFixedPoint
from implicit.runs.loading import Run, load_run

pytest.importorskip("numba")

FIND_COVER = all_lengths.analyse


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("parity-tiny")


@pytest.fixture(scope="module")
def cover(run: Run) -> AllLengthsAnalysis:
    return all_lengths.analyse(run)


@pytest.fixture(autouse=True)
def known_cover(monkeypatch: pytest.MonkeyPatch, cover: AllLengthsAnalysis) -> None:
    """The cover takes longer than all else here."""
    monkeypatch.setattr(all_lengths, "analyse", lambda _run: cover)


@pytest.fixture(scope="module")
def found(run: Run, cover: AllLengthsAnalysis, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(all_lengths, "analyse", lambda _run: cover)
        folder = tmp_path_factory.mktemp("one_fixed_point")
        return analyse(run, folder=folder, processes=1), folder


def test_every_pair_of_parity_tiny_is_proved(found: tuple[OneFixedPointAnalysis, Path]) -> None:
    analysis, _ = found
    assert analysis.proved
    assert len(analysis.groups) == 20
    assert len(analysis.found) == 2 * (analysis.groups.max() + 1)
    assert sum(part.cells for part in analysis.found.values()) < 5000  # attraction takes 9,798
    assert "that the simultaneous mode converges is not proved" in analysis.sentence.lower()
    numbers = analysis.numbers()
    assert sum(pair["sets"] for pair in numbers["pairs"]) == 2 * 20
    json.dumps(numbers, allow_nan=False)


def test_what_is_through_is_not_done_again(
    run: Run, found: tuple[OneFixedPointAnalysis, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis, folder = found
    content = json.loads((folder / PARTS).read_text())
    assert len(content["parts"]) == len(analysis.found)
    content["parts"] = content["parts"][:5]
    (tmp_path / PARTS).write_text(json.dumps(content))
    asked: list[tuple[int, int]] = []

    def prove(work: Any) -> tuple[tuple[int, int], OneFixedPoint]:
        asked.append(work[0])
        return work[0], analysis.found[work[0]]

    monkeypatch.setattr(proofs, "_prove", prove)
    again = analyse(run, folder=tmp_path, processes=1)
    assert again.found == analysis.found
    assert len(asked) == len(analysis.found) - 5
    assert (tmp_path / PARTS).read_text() == (folder / PARTS).read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights_sha256", "0" * 64),
        ("spread", 0.1),
        ("limit", 7),
        ("cover_sha256", "1"),
        ("code_sha256", "1"),
    ],
)
def test_parts_of_something_else_are_refused(
    run: Run, found: tuple[OneFixedPointAnalysis, Path], tmp_path: Path, name: str, value: object
) -> None:
    content = json.loads((found[1] / PARTS).read_text())
    (tmp_path / PARTS).write_text(json.dumps({**content, name: value}))
    with pytest.raises(InputError, match=f"holds parts with another {name}"):
        analyse(run, folder=tmp_path, processes=1)


STRAY = {"group": 99, "token": 7, "proved": True, "cells": 1, "parts": 1}


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ("all", "has no list of parts"),
        ([STRAY], "has a part of group 99 and token 7"),
        ([{**STRAY, "group": "0"}], "group is 0; it should be a valid integer"),
        ([{**STRAY, "proved": "no"}], "proved is no; it should be a valid boolean"),
        ([{**STRAY, "colour": 1}], "field 'colour' is unknown"),
        ([[0, 0]], "give the values by name"),
    ],
)
def test_parts_that_nobody_wrote_are_refused(
    run: Run, found: tuple[OneFixedPointAnalysis, Path], tmp_path: Path, parts: object, sentence: str
) -> None:
    content = json.loads((found[1] / PARTS).read_text())
    (tmp_path / PARTS).write_text(json.dumps({**content, "parts": parts}))
    with pytest.raises(InputError, match=sentence):
        analyse(run, folder=tmp_path, processes=1)


def test_other_weights_than_those_on_the_disk_are_refused(run: Run) -> None:
    changed = load_run(run.path)
    with torch.no_grad():
        next(changed.model.parameters()).mul_(1.001)
    with pytest.raises(InputError, match="holds other weights than the run that is asked about"):
        analyse(changed, processes=1)


def test_too_few_cells_prove_nothing(run: Run) -> None:
    analysis = analyse(run, processes=1, limit=10)
    assert not analysis.proved
    assert analysis.sentence.startswith("not proved: exactly one fixed point is shown at 0 of 12 pairs")


def test_without_a_cover_nothing_is_proved(
    run: Run, cover: AllLengthsAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_lengths, "analyse", lambda _run: replace(cover, found=None, fault="none"))
    analysis = analyse(run, processes=1)
    assert not analysis.proved
    assert analysis.sentence == "nothing is proved: of the sets, nothing is proved: none"
    assert analysis.numbers()["groups"] == 0


def test_groups_are_of_what_the_block_reads() -> None:
    loop = EnclosedClosedLoop(load_run("parity-small").model)
    taps = loop.cell.earlier_taps.midpoint[:, 0]
    states = np.zeros((4, loop.state_size))
    states[1, 0] = 0.009 / abs(taps[0])
    states[2, 0] = 0.011 / abs(taps[0])
    states[3, loop.window_size] = 0.02
    assert group_alike(loop, states, 0.01).tolist() == [0, 0, 1, 2]


def test_a_large_model_is_refused_in_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_lengths, "analyse", FIND_COVER)
    assert one_fixed_point.main(["parity-recipe", "--out", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: the state of the model has 1312 numbers; give a run of at most 200")
    assert not (tmp_path / "out").exists()
