"""What a reader sees in the figures of the paper is what the stored results say.

The results are read as plain JSON, and the names of models are written out here: nothing of the drawing code
is used to say what has to be drawn.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from paper_figures.registry import FIGURES
from paper_figures.stored_results import RESULTS, StoredResults
from tests.drawn_figures import SUM_ORDER, WIDTHS, faults, labelled, panel

NAMES = {"implicit-mamba2": "implicit Mamba-2", "mamba2": "explicit Mamba-2", "lstm": "LSTM"}
COLORS = {
    "implicit Mamba-2": "#0072B2",
    "explicit Mamba-2": "#D55E00",
    "LSTM": "#009E73",
    "simultaneous": "#AA3377",
    "sequential": "#228833",
}
"""Of models and modes, in every figure of the paper."""

both_widths = pytest.mark.parametrize("width", WIDTHS)


@cache
def stored(name: str) -> Any:
    return json.loads((Path(RESULTS) / f"{name}.json").read_text(encoding="utf-8"))


@cache
def drawn(name: str, width: float) -> Figure:
    return FIGURES[name].picture(StoredResults.read(name), width)


def caption(name: str) -> str:
    return FIGURES[name].full_caption(StoredResults.read(name))


def thin_lines(axes: Axes, color: Any, dashes: Any) -> list[list[float]]:
    """The lines of single runs of a look: those that no legend names."""
    return [
        np.asarray(line.get_ydata()).tolist()
        for line in axes.lines
        if str(line.get_label()).startswith("_child")
        and line.get_color() == color
        and line._unscaled_dash_pattern[1] == dashes  # type: ignore[attr-defined]
    ]


def handle(axes: Axes, text: str) -> Line2D:
    legend = axes.get_legend()
    assert legend is not None
    (found,) = [
        handle
        for handle, label in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if label.get_text() == text
    ]
    assert isinstance(found, Line2D)
    return found


@both_widths
@pytest.mark.parametrize("name", FIGURES)
def test_every_text_can_be_read_and_no_legend_covers_data(name: str, width: float) -> None:
    assert faults(drawn(name, width), width) == []


@both_widths
def test_accuracies_are_those_of_the_group_that_the_legend_names(width: float) -> None:
    (axes,) = drawn("length_generalization", width).axes
    shown = labelled(axes)
    results = stored("length_generalization")["results"]
    lengths = results["settings"]["lengths"]
    expected = {}
    for group in results["groups"]:
        runs = [[run["accuracy"][str(length)] for length in lengths] for run in group["seeds"].values()]
        name = NAMES[group["settings"]["model"]]
        label = f"{name}, carried share {group['settings']['carried_share']}, mean of {len(runs)} runs"
        expected[label] = np.sum(runs, axis=0) / len(runs)
        (band,) = [
            band
            for band in axes.collections
            if np.allclose(
                band_of(band, lengths), [np.min(runs, axis=0), np.max(runs, axis=0)], rtol=0, atol=1e-12
            )
            and same_color(band, handle(axes, label))
        ][:1]
        assert band is not None
    assert sorted(shown) == sorted([*expected, "chance", "training length"])
    for label, values in expected.items():
        np.testing.assert_allclose(shown[label], values, rtol=SUM_ORDER, err_msg=label)
    assert set(shown["chance"]) == set(results["chance"]) == {0.5}
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_xdata()), lengths)


def band_of(band: Any, x: list[float]) -> list[list[float]]:
    """The lower and the upper edge of a filled band."""
    corners = band.get_paths()[0].vertices
    return [[edge(corners[corners[:, 0] == place, 1]) for place in x] for edge in (min, max)]


def same_color(band: Any, line: Line2D) -> bool:
    from matplotlib.colors import to_rgb

    return np.allclose(band.get_facecolor()[0][:3], to_rgb(line.get_color()))


@both_widths
def test_the_search_is_that_of_the_mode_that_the_legend_names(width: float) -> None:
    figure = drawn("convergence", width)
    (group,) = stored("convergence")["results"]["groups"]
    runs = group["seeds"]
    assert group["settings"]["model"] == "implicit-mamba2"
    first = next(iter(runs))
    residual = labelled(panel(figure, f"residual over tokens (seed {first})"))
    position = labelled(panel(figure, "self-iterations until the tolerance"))
    cost_axes = panel(figure, "cost of a sequence")
    cost = labelled(cost_axes)
    for mode in ("simultaneous", "sequential"):
        label = f"{mode}, mean of {len(runs)} runs"
        history = runs[first][mode]["residual_by_iteration"]["0.5"]
        np.testing.assert_array_equal(residual[f"{mode}, median"], history)
        medians = [run[mode]["iterations_by_position"]["median"] for run in runs.values()]
        np.testing.assert_allclose(position[label], np.sum(medians, axis=0) / len(runs), rtol=SUM_ORDER)
        spent = [
            [found["token_evaluations"] for found in run[mode]["by_length"].values()] for run in runs.values()
        ]
        np.testing.assert_allclose(cost[label], np.sum(spent, axis=0) / len(runs), rtol=SUM_ORDER)
        line = handle(cost_axes, label)
        np.testing.assert_array_equal(thin_lines(cost_axes, line.get_color(), None), spent)
    assert set(residual["tolerance"]) == {stored("convergence")["results"]["settings"]["rtol"]}


@both_widths
def test_jacobians_and_conclusions_are_those_of_the_model_that_is_named(width: float) -> None:
    figure = drawn("jacobians", width)
    conclusions = {
        "off_diagonal_mass": panel(figure, "off-diagonal mass at every state"),
        "nonlinearity": panel(figure, "nonlinearity at every state"),
    }
    legend_of = conclusions["nonlinearity"]
    groups = stored("jacobians")["results"]["groups"]
    largest = 10 ** max(
        entry
        for group in groups
        for run in group["seeds"].values()
        for part in ("whole", "corner")
        for row in run["shown"][part]
        for entry in row
        if entry is not None
    )
    corners = [axes for axes in figure.axes if axes.get_title() == "first 24 × 24 entries"]
    for number, group in enumerate(groups):
        (run,) = group["seeds"].values()
        name = NAMES[group["settings"]["model"]]
        shown = panel(figure, f"{name}:")
        assert shown.get_title() == f"{name}:\nTheorem 1 {run['theorem1']['verdict']}"
        for axes, part in ((shown, "whole"), (corners[number], "corner")):
            entries = [[0 if entry is None else 10**entry for entry in row] for row in run["shown"][part]]
            image: Any = np.ma.asarray(axes.images[0].get_array())
            # what is below the range of the colours has the smallest of them; zeros have none
            visible = np.array(entries) >= largest * 1e-6
            np.testing.assert_allclose(image[visible], np.array(entries)[visible], rtol=1e-12)
            assert (np.ma.getmaskarray(np.ma.masked_invalid(image)) == (np.array(entries) == 0)).all()
        color = handle(legend_of, name).get_color()
        for quantity, axes in conclusions.items():
            (points,) = [
                line
                for line in axes.lines
                if line.get_color() == color and line.get_marker() not in ("_", "None")
            ]
            found = np.maximum(sorted(run[quantity]), np.finfo(float).eps / 10)
            np.testing.assert_allclose(np.asarray(points.get_ydata()), found, rtol=1e-12)
            (ticks,) = [line for line in axes.lines if line.get_color() == color and line.get_marker() == "_"]
            errors = np.array(
                run[{"off_diagonal_mass": "off_diagonal_error"}.get(quantity, f"{quantity}_error")]
            )
            np.testing.assert_allclose(
                sorted(np.asarray(ticks.get_ydata()).tolist()), sorted(10 * errors), rtol=SUM_ORDER
            )


def test_verdicts_are_what_the_measured_quantities_say() -> None:
    """A state holds if both quantities exceed ten times their error; the run as all of its states do."""
    for group in stored("jacobians")["results"]["groups"]:
        (run,) = group["seeds"].values()
        both = [
            mass > 10 * mass_error and bend > 10 * bend_error
            for mass, mass_error, bend, bend_error in zip(
                run["off_diagonal_mass"],
                run["off_diagonal_error"],
                run["nonlinearity"],
                run["nonlinearity_error"],
                strict=True,
            )
        ]
        counts = run["theorem1"]["counts"]
        assert (counts["holds"], counts["fails"]) == (sum(both), len(both) - sum(both))
        assert run["theorem1"]["verdict"] == ("holds" if all(both) else "fails")
        word = {"holds": "hold", "fails": "fail"}[run["theorem1"]["verdict"]]
        assert run["theorem1"]["sentence"] == (
            f"The conclusions of Theorem 1 {word}: of {len(both)} visited states they hold at {sum(both)}, "
            "fail at "
            f"{len(both) - sum(both)} and are undecided at 0"
        )
        assert run["theorem1"]["off_diagonal_mass"]["median"] == np.median(run["off_diagonal_mass"])


def test_the_captions_of_jacobians_and_search_say_what_is_stored() -> None:
    found = stored("jacobians")["results"]
    text = caption("jacobians")
    settings = found["settings"]
    assert (
        f"{settings['sequences']} sequences of {settings['length']} tokens (data seed {settings['seed']})"
        in text
    )
    for group in found["groups"]:
        (run,) = group["seeds"].values()
        verdict, states = run["theorem1"]["verdict"], len(run["nonlinearity"])
        mass = np.median(run["off_diagonal_mass"])
        sentence = (
            f"{NAMES[group['settings']['model']]}: {verdict} at {states} states, median off-diagonal mass "
        )
        assert f"{sentence}{f'{mass:.2g}' if mass else '0'}" in text
    found = stored("convergence")["results"]
    text, settings = caption("convergence"), found["settings"]
    (group,) = found["groups"]
    assert (
        f"{settings['sequences']} sequences of {settings['length']} tokens (data seed {settings['seed']})"
        in text
    )
    shares = [
        min(run[mode]["share_converged"] for run in group["seeds"].values())
        for mode in ("simultaneous", "sequential")
    ]
    assert f"simultaneous {100 * shares[0]:.2f}%; sequential {100 * shares[1]:.2f}%" in text
    assert f"relative residual of {settings['rtol']:g}" in text


def test_the_caption_of_accuracies_counts_the_runs_that_solve_the_task() -> None:
    found, text = stored("length_generalization")["results"], caption("length_generalization")
    settings = found["settings"]
    assert f"{settings['sequences']} fresh sequences (data seed {settings['seed']})" in text
    assert "at least 0.99 at length 256" in text
    for group in found["groups"]:
        solved = sum(run["accuracy"]["256"] >= 0.99 for run in group["seeds"].values())
        of = len(group["seeds"]) + len(group["failed"])
        label = f"{NAMES[group['settings']['model']]}, carried share {group['settings']['carried_share']}"
        assert f"{label}: {solved} of {of}" in text


@pytest.mark.parametrize("name", FIGURES)
def test_captions_name_every_run_and_seed_and_leave_nothing_unfilled(name: str) -> None:
    text, content = caption(name), stored(name)
    assert not re.search(r"[{}]|None|nan", text)
    done = [run for run in content["runs"] if run["status"] == "done"]
    assert (
        f"Training runs: {len(content['runs'])}, {len(content['runs']) - len(done) or 'none'} failed" in text
    )
    listed, _, common = text.split("Training runs: ")[1].removesuffix(".").partition(". [A]: ")
    entries = [entry.replace("[A]", common) for entry in listed.split(" failed: ")[1].split("; ")]
    several_tasks = len({run["settings"]["task"] for run in content["runs"]}) > 1
    kinds = {json.dumps({k: v for k, v in run["settings"].items() if k != "seed"}) for run in done}
    if "listed in the stored results" in listed:
        seeds = content["seeds"]
        assert len(done) == len(content["runs"]) == len(kinds) * len(seeds)  # so every kind has every seed
        of_each = f"{len(seeds)} (seeds {', '.join(map(str, seeds))})"
        assert entries == [f"{len(kinds)} kinds, listed in the stored results, of each {of_each}"]
        kinds = set()
    for kind in kinds:
        shared = json.loads(kind)
        seeds = sorted(
            run["settings"]["seed"]
            for run in done
            if {k: v for k, v in run["settings"].items() if k != "seed"} == shared
        )
        words = [
            shared["model"],
            *([f"on {shared['task']}"] if several_tasks else []),
            *(f"{k}={'none' if v is None else v}" for k, v in shared.items() if k not in ("task", "model")),
        ]
        several = "s" if len(seeds) > 1 else ""
        ending = f"{len(seeds)} (seed{several} {', '.join(map(str, seeds))})"
        (found,) = [
            entry
            for entry in entries
            if sorted(entry.partition(f" {ending}")[0].split()) == sorted(" ".join(words).split())
        ]
        assert found.removesuffix(".").endswith(ending)
    assert content["seeds"] == sorted({run["settings"]["seed"] for run in content["runs"]})
    if "mean of" in " ".join(t.get_text() for t in legends_of(drawn(name, 6.75))):
        assert "bands reach from the lowest to the highest run" in text
        assert "Thin lines are single runs, thick ones their mean" in text


def legends_of(figure: Figure) -> list[Any]:
    return [text for axes in figure.axes if (legend := axes.get_legend()) for text in legend.get_texts()]


OTHER_SERIES = {
    "wikitext2": "kinds of models in one legend, a row of panels for each family",
    "wikitext2_iterations": "two curricula of implicit models, a panel for each family",
    "catbabi": "models with their layers, in one legend below both panels",
    "repl_traces": "models with their eigenvalues, in one legend below both panels",
    "repl_spacing": "models with their eigenvalues, in one legend below all panels",
    "hidden_swaps": "models with their eigenvalues, in one legend below all panels",
    "adversarial_beliefs": "models in rows",
    "belief_bridge": "models and filters, in one legend below both panels",
    "puzzles": "models with their eigenvalues, in one legend below both panels",
    "implicit_twins": "cells in rows, twins by marker",
    "recipes": "tasks in rows",
    "curricula": "one model, in rows",
    "s5_recipe": "one model, in rows",
    "gradients": "one model, gradients of its training",
    "bounded_and_free": "one model, curricula by name",
    "depth": "models in rows, layers in cells",
    "s5_length_generalization": "a model in each panel, named by its title",
    "error_control": "a model at each training length, in a legend for both panels",
    "iterations_at_test": "one model on several tasks",
    "iterations_needed": "one model on several tasks",
    "agreement_in_training": "one model, its modes in one legend with shares of the tokens",
    "few_hard_tokens": "one model, tokens by how they are chosen",
    "hard_tokens_in_training": "one model, by the hard tokens of its training",
    "hard_tokens_on_a5": "one model, by the hard tokens of its training",
    "jacobians_in_training": "one model, quantities of its Jacobian",
}
"""Figures whose legends name something else than models or modes; their own tests read them."""


@pytest.mark.parametrize("name", [name for name in FIGURES if name not in OTHER_SERIES])
def test_models_and_modes_have_their_colours(name: str) -> None:
    seen = 0
    for axes in drawn(name, 6.75).axes:
        legend = axes.get_legend()
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True) if legend else ():
            for meaning, color in COLORS.items():
                if text.get_text().startswith(meaning):
                    assert isinstance(handle, Line2D)
                    assert handle.get_color() == color
                    seen += 1
    assert seen >= 2


@both_widths
def test_files_have_the_width_that_was_asked_for(width: float, tmp_path: Path) -> None:
    from paper_figures import __main__ as command

    command.main(["length_generalization", "--width", str(width), "--out", str(tmp_path)])
    box = re.search(
        rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]", (tmp_path / "length_generalization.pdf").read_bytes()
    )
    assert box is not None
    assert float(box.group(1)) == pytest.approx(72 * width, abs=0.01)
    header = (tmp_path / "length_generalization.png").read_bytes()[16:20]
    assert int.from_bytes(header, "big") == pytest.approx(300 * width, abs=1)
    written = (tmp_path / "length_generalization.caption.txt").read_text(encoding="utf-8")
    assert written == caption("length_generalization") + "\n"
