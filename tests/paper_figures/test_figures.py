"""Every figure: its declaration, its stored results, its caption and its verdict fit together."""

import re
from dataclasses import replace
from typing import Any, get_args

import pytest

from paper_figures.claims import Word
from paper_figures.figure import CAPTIONS, Figure, Variants
from paper_figures.panels import Drawn
from paper_figures.registry import all_figures
from paper_figures.results import RESULTS, Results
from tests.figure_texts import unreadable

ALL = all_figures()
MEASURED = {name: figure for name, figure in ALL.items() if not figure.published}
every = pytest.mark.parametrize("figure", ALL.values(), ids=ALL)
measured = pytest.mark.parametrize("figure", MEASURED.values(), ids=MEASURED)


def test_a_figure_is_a_declaration_a_caption_and_results() -> None:
    assert {path.stem for path in CAPTIONS.glob("*.md")} == set(ALL)
    assert {path.stem for path in CAPTIONS.glob("*.py")} - {"__init__"} == set(ALL)
    assert {path.stem for path in RESULTS.glob("*.json")} == set(MEASURED)


@measured
def test_the_stored_runs_are_those_of_the_declaration(figure: Figure) -> None:
    """So that a rerun with a full store gives these results again."""
    results, experiment = figure.results(), figure.experiment
    found = [(dict(run["settings"]), run["name"], run["command"]) for run in results.runs]
    assert found == [(plain(point.settings), point.name, point.command) for point in experiment.points]
    assert results.command == f"python -m paper_figures {figure.name} --rerun"
    assert results.settings == {one.name: one.settings_json for one in experiment.measurements}
    assert set(results.shared) == set(figure.shared)
    assert results.environment["torch"]


def plain(settings: Any) -> dict[str, Any]:
    """Settings as JSON has them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


@measured
def test_every_run_is_in_a_row_of_its_own_kind(figure: Figure) -> None:
    rows = figure.rows(figure.results())
    assert sum(row.of for row in rows) == len(figure.experiment.points)
    for row in rows:
        seeds = [run.settings["seed"] for run in row.runs] + list(row.failed)
        assert len(set(seeds)) == len(seeds)
        assert all({**run.settings, "seed": None} == {**row.settings, "seed": None} for run in row.runs)
    if isinstance(figure.runs, Variants):
        assert [row.label for row in rows] == list(figure.runs.rows)


@every
@pytest.mark.parametrize("width", [3.3, 6.75])
def test_it_is_drawn_as_wide_as_asked_and_can_be_read(figure: Figure, width: float) -> None:
    picture = figure.picture(figure.results(), width)
    assert unreadable(picture) == []
    assert picture.get_figwidth() == width
    assert len(picture.axes) >= len(figure.panels)


@every
def test_its_caption_is_short_has_limits_and_tells_the_verdict(figure: Figure) -> None:
    text = (CAPTIONS / f"{figure.name}.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 120
    assert len(re.findall("^Limits:", text, re.MULTILINE)) == 1
    results = figure.results()
    verdict, caption = figure.verdict(results), figure.caption(results)
    assert verdict.word in get_args(Word)
    assert (verdict.word == "published") == figure.published
    assert text.strip() in caption
    assert f": {verdict.because}." in caption


def without(results: Results, lost: Any) -> Results:
    """Results in which some runs failed."""
    return replace(
        results,
        runs=[{**run, "values": {}, "status": "failed"} if lost(run) else run for run in results.runs],
    )


@measured
@pytest.mark.parametrize("lost", ["seed 0", "all runs"])
def test_it_is_judged_and_drawn_where_runs_failed(figure: Figure, lost: str) -> None:
    results = without(figure.results(), lambda run: lost == "all runs" or run["settings"]["seed"] == 0)
    verdict = figure.verdict(results)
    if lost == "all runs":
        assert verdict.word == "not reproduced"
    assert str(verdict)[1:] in figure.caption(results)
    if lost == "seed 0" and any(isinstance(panel, Drawn) for panel in figure.panels):
        figure.picture(results, 3.3)  # other panels, and all without a run, are those of test_panels
