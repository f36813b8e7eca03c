"""Questions about stories: what is collected, counted, drawn, judged and said of the runs."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from analysis.framework.figures import styled
from paper_figures.figures import catbabi
from paper_figures.figures.catbabi_comparison import tasks_ahead, tasks_apart
from paper_figures.figures.catbabi_table import results_table, tasks_table
from paper_figures.figures.catbabi_training import SETTINGS_OF_STATE
from paper_figures.figures.figure import Results
from paper_figures.stored_results import RESULTS, StoredResults
from tests.drawn_figures import SUM_ORDER, WIDTHS, faults
from tests.paper_figures.figures.story_outcomes import (
    ASKED,
    MODELS,
    POINTS,
    SETTINGS,
    answered,
    failed,
    points_of,
)
from tests.paper_figures.figures.test_repl_traces import numbers

LOOKS = {
    "explicit Mamba-2": ("#D55E00", "s", "#D55E00"),
    "explicit Mamba-2, 2 layers": ("#D55E00", "s", "white"),
    "explicit Mamba-2, 4 layers": ("#D55E00", "s", "#FFD9B0"),
    "implicit Mamba-2": ("#0072B2", "o", "#0072B2"),
    "LSTM": ("#009E73", "^", "#009E73"),
}
"""Colour, marker and filling."""


@pytest.fixture(scope="module")
def found() -> Results:
    """All runs, each with another accuracy; the first of them failed."""
    outcomes = [
        answered(point, lambda task, number=number: (7 * task + number) % 90, 0.95 + number / 2000)  # type: ignore[misc]
        for number, point in enumerate(POINTS)
    ]
    return catbabi.collect([failed(POINTS[0]), *outcomes[1:]])


def test_every_run_is_collected_once(found: Results) -> None:
    accuracies = found["accuracies"]
    assert list(accuracies) == list(SETTINGS)
    assert all(list(models) == list(MODELS.values()) for models in accuracies.values())
    for number, point in enumerate(POINTS):
        name = MODELS[point.settings["model"], point.settings["layers"]]
        series = accuracies[point.settings["task"]][name]
        assert (series["model"], series["layers"]) == (point.settings["model"], point.settings["layers"])
        first = (point.settings["task"], name) == (SETTINGS[0], "explicit Mamba-2")
        assert series["failed"] == ([0] if first else [])
        if number:
            told = series["seeds"][str(point.seed)]["tasks"]
            assert told == {
                str(task): {"right": (7 * task + number) % 90, "asked": ASKED[task]} for task in ASKED
            }
    count = sum(len(one["seeds"]) for models in accuracies.values() for one in models.values())
    assert count == len(POINTS) - 1


def counted(**seeds: dict[int, int]) -> dict[str, Any]:
    """A series by hand: right answers by task, of each seed."""
    return {
        "seeds": {
            seed.removeprefix("s"): {
                "tasks": {str(task): {"right": n, "asked": 100} for task, n in right.items()}
            }
            for seed, right in seeds.items()
        }
    }


@pytest.mark.parametrize(
    ("implicit", "explicit", "counts", "apart"),
    [
        ({"s0": {1: 5, 2: 5, 4: 5}}, {"s0": {1: 4, 2: 5, 4: 6}}, (1, 1, 3), (1, 1)),  # more, as many, fewer
        ({"s0": {2: 5, 3: 9}}, {"s0": {2: 4, 3: 1}}, (1, 0, 1), (1, 0)),  # task 3 has no training stories
        ({"s0": {1: 5}, "s1": {1: 0}}, {"s0": {1: 4}, "s1": {1: 2}}, (0, 1, 1), (0, 0)),  # means 2.5 and 3
        ({"s0": {1: 5}, "s1": {1: 2}}, {"s0": {1: 4}, "s1": {1: 3}}, (0, 0, 1), (0, 0)),  # 3.5 both
        ({"s0": {1: 5}, "s1": {1: 4}}, {"s0": {1: 3}, "s1": {1: 4}}, (1, 0, 1), (0, 0)),  # two runs are equal
        ({"s0": {1: 1}, "s1": {1: 2}}, {"s0": {1: 3}, "s1": {1: 4}}, (0, 1, 1), (0, 1)),
        ({"s0": {1: 5}, "s1": {1: 0}}, {"s0": {1: 4}}, (1, 0, 1), (1, 0)),  # seed 0 alone is of both
        ({"s0": {1: 5}}, {"s1": {1: 4}}, (0, 0, 0), (0, 0)),
        ({}, {}, (0, 0, 0), (0, 0)),
    ],
)
def test_tasks_are_compared_over_common_seeds(
    implicit: Any, explicit: Any, counts: tuple[int, int, int], apart: tuple[int, int]
) -> None:
    series = {"implicit Mamba-2": counted(**implicit), "explicit Mamba-2": counted(**explicit)}
    assert tasks_ahead(series) == counts
    assert tasks_apart(series) == apart


def ahead_on(count: int | None) -> dict[str, Any]:
    """Models of which the implicit layer is ahead on so many trained tasks; None if all its runs failed.

    On task 3, which does not count, it is ahead, too; two explicit layers, which are not compared, are best.
    """
    better = {3, *[task for task in ASKED if task != 3][: count or 0]}
    runs = {task: 41 if task in better else 40 for task in ASKED}
    return {
        "explicit Mamba-2": counted(s0=dict.fromkeys(ASKED, 40), s1=dict.fromkeys(ASKED, 40)),
        "explicit Mamba-2, 2 layers": counted(s0=dict.fromkeys(ASKED, 99)),
        "implicit Mamba-2": counted() if count is None else counted(s0=runs, s1=runs),
    }


@pytest.mark.parametrize(
    ("counts", "word"),
    [
        ((10, 10, 10, 10), "reproduced"),
        ((19, 19, 19, 19), "reproduced"),
        ((10, 10, 10, 9), "partly"),
        ((9, 9, 9, 10), "partly"),
        ((10, 10, 10), "partly"),  # a setting was not run
        ((10, 10, 10, None), "partly"),  # all implicit runs of a setting failed
        ((9, 9, 9, 9), "not reproduced"),
        ((0, 0, 0, 0), "not reproduced"),
        ((9,), "not reproduced"),
        ((None, None, None, None), "not reproduced"),
        ((), "not reproduced"),
    ],
)
def test_the_verdict_follows_its_rule(counts: tuple[int | None, ...], word: str) -> None:
    models = {setting: ahead_on(count) for setting, count in zip(SETTINGS, counts, strict=False)}
    verdict = catbabi.judge({"accuracies": models})
    assert verdict.word == word
    told = ["0 of 0 (0)" if count is None else f"{count} of 19 ({count})" for count in counts]
    words = [SETTINGS_OF_STATE[setting] for setting in models]
    listed = "; ".join(f"{setting} {count}" for setting, count in zip(words, told, strict=True))
    assert verdict.because.endswith(f"(in brackets: by every run): {listed or 'no runs'}")


def test_other_models_alone_judge_nothing() -> None:
    series = counted(s0=dict.fromkeys(ASKED, 80))
    verdict = catbabi.judge(
        {"accuracies": {s: {"LSTM": series, "implicit Mamba-2": series} for s in SETTINGS}}
    )
    assert (verdict.word, verdict.because.endswith("by every run): no runs")) == ("not reproduced", True)


def marks(axes: Axes, name: str) -> list[tuple[list[float], list[float]]]:
    """Where the marks of a series are, a pair for each line of marks, by the look alone."""
    color, marker, filling = LOOKS[name]
    return [
        (np.asarray(line.get_xdata()).tolist(), np.atleast_1d(np.asarray(line.get_ydata())).tolist())
        for line in axes.lines
        if (line.get_color(), line.get_marker()) == (color, marker)
        and to_rgb(line.get_markerfacecolor()) == to_rgb(filling)
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_mark_in_the_row_of_its_setting(found: Results, width: float) -> None:
    with styled():
        figure = catbabi.draw(found, width)
        assert faults(figure, width) == []
    whole, _ = figure.axes
    rows = [label.get_text().replace("\n", " ") for label in whole.get_yticklabels()]
    assert rows == [
        "answers, state carried",
        "all words, state carried",
        "answers, state reset",
        "all words, state reset",
    ]
    places = set()
    for name in MODELS.values():
        drawn = marks(whole, name)
        assert len(drawn) == len(SETTINGS)
        for row, (setting, (x, y)) in enumerate(zip(SETTINGS, drawn, strict=True)):
            assert x == [run["accuracy"] for run in found["accuracies"][setting][name]["seeds"].values()]
            assert all(abs(place - row) < 0.5 for place in y)
            places.update(y)
    assert len(places) == len(SETTINGS) * len(MODELS)  # no two models in one line
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == sorted(MODELS.values())
    for handle, name in zip(figure.legends[0].legend_handles, names, strict=True):
        assert (handle.get_color(), handle.get_marker()) == LOOKS[name][:2]  # type: ignore[union-attr]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_task_has_mean_and_range_of_its_runs(found: Results, width: float) -> None:
    with styled():
        _, by_task = catbabi.draw(found, width).axes
    models = found["accuracies"]["catbabi-answers-carried"]
    for name in ("explicit Mamba-2", "implicit Mamba-2", "LSTM"):
        runs = models[name]["seeds"].values()
        drawn = marks(by_task, name)
        lines = [
            np.asarray(line.get_xdata()).tolist()
            for line in by_task.lines
            if line.get_color() == LOOKS[name][0] and line.get_linewidth() == 0.8
        ]
        for task, (x, y), ends in zip(ASKED, drawn, lines, strict=True):
            shares = [run["tasks"][str(task)]["right"] / ASKED[task] for run in runs]
            np.testing.assert_allclose(x, sum(shares) / len(shares), rtol=SUM_ORDER)
            assert ends == [min(shares), max(shares)]
            assert abs(y[0] - task) < 0.5
    (shade,) = [line for line in by_task.lines if line.get_color() == "#777777"]
    assert set(np.asarray(shade.get_ydata()).tolist()) == {3}


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        nothing = catbabi.collect(outcomes)
        for width in WIDTHS:
            with styled():
                assert faults(catbabi.draw(nothing, width), width) == []
        assert "no run was measured" in catbabi.caption(nothing)
        assert results_table(nothing)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = catbabi.caption(found)
    rows, piece = numbers(r"training batches of (\d+) rows go on where the last ended, (\d+) tokens", text)
    (reset,) = numbers(r"every (\d+) tokens are read from the initial state", text)
    updates, batch, length = numbers(r"([\d,]+) updates of (\d+) x (\d+) tokens", text)
    width, state, lstm = numbers(
        r"Mamba-2 of width (\d+) with state (\d+) \(of published Mamba: 512\), LSTM of width (\d+);", text
    )
    (rate,) = numbers(r"peak rate ([\d.]+) for all", text)
    steps, most = numbers(r"phantom gradients of (\d+) steps at up to (\d+) self-iterations", text)
    for config in (point.config for point in POINTS):
        assert (config.batch_size, config.length, config.steps) == (batch, length, updates)
        assert (rows, piece, reset) == (batch, length, length)
        assert config.curriculum.start_length is None  # all batches are that long
        assert config.sizes["d_model"] == (lstm if config.model == "lstm" else width)
        assert config.sizes.get("d_state", state) == state
        assert config.optimizer.learning_rate == rate
        flat = config.flat()
        assert (flat["free_gradient"], flat["phantom_steps"]) == ("phantom", steps)
        assert (flat["free_max_iterations"], flat["bounded_steps"]) == (most, 0)
    tolerance, most = numbers(r"relative tolerance of ([\d.]+) within (\d+);", text)
    settings = catbabi.ANSWERS.settings_json
    assert (tolerance, most) == (settings["rtol"], settings["max_iterations"])
    assert settings["mode"] == "sequential"
    assert settings["piece"] == piece
    (asked,) = numbers(r"over all ([\d,]+) questions", text)
    assert asked == sum(ASKED.values())
    assert (
        "not matched: explicit Mamba-2 1,600, explicit Mamba-2, 2 layers 2,600, "
        "explicit Mamba-2, 4 layers 4,600, implicit Mamba-2 2,500, LSTM 1,400; peak" in text
    )


def test_the_caption_counts_tasks_and_the_least_converged_run() -> None:
    outcomes = [
        *(answered(point, lambda task: 40) for point in points_of(SETTINGS[0], "mamba2")),
        *(answered(point, lambda task: 39 + 2 * (task <= 12)) for point in points_of(SETTINGS[3], "mamba2")),
        *(answered(point, lambda task: 40, 0.999) for point in points_of(SETTINGS[3], "implicit-mamba2")),
        *(
            answered(point, lambda task: 41 if task < 13 else 40, share)
            for point, share in zip(points_of(SETTINGS[0], "implicit-mamba2"), (1, 0.98796, 1), strict=True)
        ),
    ]
    text = catbabi.caption(catbabi.collect(outcomes))
    assert (
        "at 0.987 of the tokens of a run at least the last step is below it" in text
    )  # rounded down: no run has less
    assert (  # task 3 is not counted
        "answers, state carried: 11 of 19 (0 behind), by every run 11 (0); "
        "all words, state reset: 8 of 19 (11 behind), by every run 8 (11)." in text
    )


def test_the_table_has_every_run_beside_what_is_published(found: Results) -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in results_table(found).split("\n")
    ]
    assert rows[0][1:] == [
        "parameters",
        "answers, state carried",
        "all words, state carried",
        "answers, state reset",
        "all words, state reset",
    ]
    assert [row[0] for row in rows[2:7]] == list(MODELS.values())
    assert [row[1] for row in rows[2:7]] == ["1,600", "2,600", "4,600", "2,500", "1,400"]
    for row in rows[2:7]:
        for setting, cell in zip(SETTINGS, row[2:], strict=True):
            runs = found["accuracies"][setting][row[0]]["seeds"].values()
            assert cell == ", ".join(f"{100 * run['accuracy']:.2f}" for run in runs)
    published = Path(RESULTS).parent / "published"
    tables = [
        json.loads((published / f"catbabi_{name}.json").read_text(encoding="utf-8"))["rows"]
        for name in ("fast_weights", "fixed_point")
    ]
    # the state of the first is carried, the second read every chunk without one
    for row, told in zip(rows[7:11], tables[0], strict=True):
        assert row == [
            f"*{told['model']}*, published",
            "",
            str(told["questions_only"]),
            str(told["all_tokens"]),
            "-",
            "-",
        ]
    for row, told in zip(rows[11:], tables[1], strict=True):
        assert row[0].startswith(f"*{told['model']}*, {told['layers']} layer")
        ends = dict.fromkeys((told["lowest"], told["highest"]))
        assert row[1:] == [
            "",
            "-",
            "-",
            f"{' to '.join(map(str, ends))} (answers by default of their code)",
            "-",
        ]


def test_the_table_of_tasks_has_means_and_ends() -> None:
    right = {0: 10, 1: 30, 2: 80}
    outcomes = [
        answered(point, lambda task, seed=seed: right[seed] + task)  # type: ignore[misc]
        for seed, point in enumerate(points_of(SETTINGS[1], "lstm"))
    ]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in tasks_table(catbabi.collect(outcomes), SETTINGS[1]).split("\n")
    ]
    assert rows[0] == ["task", "LSTM"]
    assert len(rows) == 2 + 20
    # 11, 31 and 81 of the 91 questions of task 1; 30, 50 and 100 of the 110 of task 20
    assert rows[2] == ["1. single supporting fact", "45.1 (12.1 to 89.0)"]
    assert rows[4][0] == "3. three supporting facts (not trained)"
    assert rows[-1] == ["20. agent's motivations", "54.5 (27.3 to 90.9)"]
    assert [row[0].split(".")[0] for row in rows[2:]] == [str(task) for task in range(1, 21)]
    assert tasks_table(catbabi.collect(outcomes), SETTINGS[0]).split("\n")[0] == "| task |"


def test_the_stored_results_hold_every_run_and_the_caption_counts_them() -> None:
    content = json.loads((Path(RESULTS) / "catbabi.json").read_text(encoding="utf-8"))
    held = {
        (setting, name, int(seed))
        for setting, models in content["results"]["accuracies"].items()
        for name, series in models.items()
        for seed in [*series["seeds"], *series["failed"]]
    }
    assert held == set(itertools.product(SETTINGS, MODELS.values(), range(3)))
    failures = [run for run in content["runs"] if run["status"] != "done"]
    assert (
        f"Training runs: {len(content['runs'])}, {len(failures) or 'none'} failed: "
        in catbabi.FIGURE.full_caption(StoredResults.read("catbabi"))
    )
