"""What a reader sees in the figures of the analyses: legible at paper width, and what the numbers say."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from analysis import all_words, questions
from analysis.agreement import drawing as agreement_drawing
from analysis.agreement.measurement import analyse as measure_agreement
from analysis.convergence import drawing as convergence_drawing
from analysis.convergence.measurement import analyse as measure_convergence
from analysis.error_control import drawing as error_drawing
from analysis.error_control.measurement import analyse as measure_errors
from analysis.extraction import drawing as extraction_drawing
from analysis.extraction.measurement import analyse as measure_extraction
from analysis.framework.output import RunIdentity, json_ready
from analysis.framework.visited_states import sample_sequences
from analysis.front_speed import drawing as front_drawing
from analysis.front_speed.measurement import analyse as measure_fronts
from analysis.jacobian import drawing as jacobian_drawing
from analysis.jacobian.measurement import analyse as measure_jacobian
from analysis.length_generalization import drawing as length_drawing
from analysis.length_generalization.measurement import LengthAnalysis, LengthSettings, RunAccuracy
from analysis.mechanism import drawing as mechanism_drawing
from analysis.mechanism.measurement import compare as measure_mechanism
from implicit.runs.loading import load_run
from paper_figures.registry import FIGURES
from paper_figures.stored_results import StoredResults
from tests.analysis.conftest import Bistable
from tests.drawn_figures import WIDTHS, faults, labelled

SUM_ORDER = 1e-12
"""Means are sums of the same numbers in another order."""


def made_up_accuracies() -> LengthAnalysis:
    """Three seeds of one model, one run of another, one of a user's own model, none of them alike."""
    rng = np.random.default_rng(0)
    runs = []
    for number, (model, seed) in enumerate(
        [
            ("implicit-mamba2", 0),
            ("mamba2", 0),
            ("implicit-mamba2", 1),
            ("implicit-mamba2", 2),
            ("mine:Cell", 0),
        ]
    ):
        identity = RunIdentity(f"run-{number}", "parity", model, 10, 16, seed, "0" * 64)
        correct = rng.random((40, 64)) < 0.5 + 0.1 * number
        runs.append(RunAccuracy(identity, correct, None, {16: 0.5, 64: 0.5}))
    return LengthAnalysis(LengthSettings(lengths=(16, 64), sequences=40), tuple(runs))


FOUND: dict[str, Callable[[], Any]] = {
    "convergence": lambda: measure_convergence(load_run("parity"), sequences=3, length=16),
    "agreement": lambda: measure_agreement(load_run("parity"), sequences=4, length=16, examples=3, starts=4),
    "extraction": lambda: measure_extraction(
        load_run("parity"), sequences=8, length=16, fresh_words=8, times=2
    ),
    "dense extraction": lambda: measure_extraction(
        load_run("s3"), sequences=32, length=24, fresh_words=8, times=2
    ),
    "error_control": lambda: measure_errors(
        load_run("parity-small"), sequences=16, length=48, block=8, pairs=6, follow=8
    ),
    "front_speed": lambda: measure_fronts(
        load_run("parity-small"), sequences=3, length=48, walls=16, window=16
    ),
    "mechanism": lambda: measure_mechanism(
        [load_run("s3"), load_run("s3-gated-deltanet")],
        sequences=4,
        length=8,
        pairs=6,
        follow=4,
        states=2,
    ),
    "jacobian": lambda: measure_jacobian(load_run("parity"), sequences=3, length=16, states=6),
    "length_generalization": made_up_accuracies,
    "all_words": lambda: all_words.analyse(load_run("parity-small"), length=3),
}
DRAWN_BY: dict[str, Any] = {
    "convergence": convergence_drawing,
    "agreement": agreement_drawing,
    "extraction": extraction_drawing,
    "dense extraction": extraction_drawing,
    "error_control": error_drawing,
    "front_speed": front_drawing,
    "mechanism": mechanism_drawing,
    "jacobian": jacobian_drawing,
    "length_generalization": length_drawing,
    "all_words": all_words,
}


@pytest.fixture(scope="module")
def found() -> Callable[[str], Any]:
    """Each analysis is made once."""
    return cache(lambda name: FOUND[name]())


@pytest.fixture(scope="module")
def drawn(found: Callable[[str], Any]) -> Callable[..., Figure]:
    """Each figure is drawn once."""
    return cache(lambda name, width=6.75: DRAWN_BY[name].draw(found(name), width))


def panel(figure: Figure, title: str) -> Axes:
    (axes,) = [axes for axes in figure.axes if axes.get_title().startswith(title)]
    return axes


def test_every_analysis_with_a_figure_is_looked_at() -> None:
    with_figure = {question.name for question in questions.QUESTIONS if question.draw is not None}
    # a cover takes a minute and a half to find; its figure is looked at in test_all_lengths
    assert with_figure == {name.removeprefix("dense ") for name in FOUND} | {"all_lengths"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FOUND)
def test_every_text_can_be_read_and_no_legend_covers_data(
    name: str, width: float, drawn: Callable[..., Figure]
) -> None:
    assert faults(drawn(name, width), width) == []


def test_the_search_is_that_of_the_mode_that_the_legend_names(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    numbers = json_ready(found("convergence").numbers())
    figure = drawn("convergence")
    residual = labelled(panel(figure, "residual over tokens"))
    position = labelled(panel(figure, "iterations until"))
    cost = labelled(panel(figure, "cost of a sequence"))
    for mode in ("simultaneous", "sequential"):
        of_mode = numbers[mode]
        np.testing.assert_allclose(residual[mode], of_mode["residual_by_iteration"]["0.5"], rtol=SUM_ORDER)
        share = f"{mode}: {100 * of_mode['share_converged']:.1f}% converged"
        np.testing.assert_array_equal(position[share], of_mode["iterations_by_position"]["median"])
        spent = [entry["token_evaluations"] for entry in of_mode["by_length"].values()]
        np.testing.assert_array_equal(cost[mode], spent)
        assert f"{mode} mode {100 * of_mode['share_converged']:.2f}%" in convergence_drawing.caption(
            found("convergence")
        )
    # else the comparison could not tell the modes apart
    assert residual["simultaneous"].shape != residual["sequential"].shape
    assert set(residual["tolerance"]) == {1e-6}


def test_error_control_draws_what_was_measured(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    numbers = json_ready(found("error_control").numbers())
    figure = drawn("error_control")
    spread = labelled(panel(figure, "spread / distance"))
    np.testing.assert_array_equal(spread["median (band: 5–95%)"], numbers["spread"]["q"]["0.5"])
    np.testing.assert_array_equal(spread["90% are below"], numbers["spread"]["q"]["0.9"])
    assert set(spread[f"limit {numbers['spread']['limit']:.2g}"]) == {numbers["spread"]["limit"]}
    accuracy = labelled(panel(figure, "accuracy"))
    np.testing.assert_array_equal(accuracy["accuracy"], numbers["spread"]["accuracy"])
    errors = labelled(panel(figure, "errors along"))
    for size, entry in numbers["followed"]["errors"].items():
        shown = errors[f"error {float(size):g}"]
        np.testing.assert_array_equal(shown, np.maximum(entry["0.5"], error_drawing.FLOOR))
    gains = numbers["followed"]["gains"]
    dots = {
        str(dot.get_label()): np.asarray(dot.get_offsets()) for dot in panel(figure, "words that").collections
    }
    for label, name in (("along the difference", "within"), ("random direction", "sideways")):
        expected = np.maximum([gains["between"]["values"], gains[name]["values"]], error_drawing.FLOOR).T
        np.testing.assert_array_equal(dots[label], expected)
    assert "Measured, not a bound" in error_drawing.caption(found("error_control"))


def test_mechanism_draws_what_was_measured(found: Callable[[str], Any], drawn: Callable[..., Figure]) -> None:
    numbers = json_ready(found("mechanism").numbers())
    figure = drawn("mechanism")
    shares = labelled(panel(figure, "representations"))
    answers = labelled(panel(figure, "answers that follow"))
    directions = labelled(panel(figure, "directions"))
    for name, measured in numbers.items():
        codes = measured["codes"][measured["coded_in"]]
        np.testing.assert_array_equal(shares[name], list(codes["shares_of_components"].values()))
        for kind, swap in measured["swaps"].items():
            np.testing.assert_array_equal(answers[f"{name}: {kind}"], swap["giver"])
        lengths = np.maximum(codes["spectrum"], 0)[:5]
        np.testing.assert_allclose(directions[name], lengths.cumsum() / lengths.sum(), rtol=SUM_ORDER)
    np.testing.assert_allclose(shares["equal distances"], [1 / 5, 4 / 5], rtol=SUM_ORDER)
    assert "Measured, not a bound" in mechanism_drawing.caption(found("mechanism"))


def bars(axes: Axes) -> dict[str, float]:
    """The height of all bars of a colour, by the text of the legend."""
    legend = axes.get_legend()
    assert legend is not None
    return {
        text.get_text().split(":")[0]: sum(
            bar.get_height()
            for bars in axes.containers
            for bar in bars
            if isinstance(bar, Rectangle) and bar.get_facecolor() == handle.get_facecolor()
        )
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if isinstance(handle, Rectangle)
    }


def areas(axes: Axes) -> dict[str, float]:
    """The areas that are stacked on each other, by the formula of surveyors."""
    found = {}
    for area in axes.collections:
        x, y = np.asarray(area.get_paths()[0].vertices).T
        found[str(area.get_label())] = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
    return found


@pytest.fixture(scope="module")
def disagreeing(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model with two attracting fixed points for every token, between which the modes differ."""
    from automata.tasks.registry import make_task
    from implicit.config.recipes import recipe
    from implicit.runs.loading import Run

    run = Run(Path("runs/bistable"), recipe("parity", "implicit-mamba2"), Bistable(), make_task("parity"), [])
    return measure_agreement(run, sequences=16, length=12, examples=4, starts=6, rtol=1e-6)


def test_shares_and_words_of_agreement_are_those_of_the_tokens(disagreeing: Any) -> None:
    found = disagreeing
    assert 0 < found.shares["differ"] < 1
    figure = agreement_drawing.draw(found, 6.75)
    assert faults(figure, 6.75) == []
    histogram = panel(figure, "distance between the modes")
    counted = {"same fixed point": found.agrees, "different fixed points": found.differs}
    counted = {name: mask for name, mask in counted.items() if mask.any()}
    assert bars(histogram) == {name: mask.sum() for name, mask in counted.items()}
    legend = histogram.get_legend()
    assert legend is not None
    words = [text.get_text() for text in legend.get_texts()]
    for name, mask in counted.items():
        assert f"{name}: {100 * mask.sum() / mask.size:.2f}%" in words
    by_position = panel(figure, "agreement by position")
    same = np.asarray(by_position.lines[0].get_ydata())
    np.testing.assert_array_equal(labelled(by_position)["same answer"], same)
    np.testing.assert_array_equal(same, found.same_answer.mean(axis=0))
    widths = np.array([0.5, *[1.0] * 10, 0.5])  # of a position; the picture begins and ends at one
    expected = {
        name: float(mask.mean(axis=0) @ widths)
        for name, mask in (
            ("same fixed point", found.agrees),
            ("different ones", found.differs),
            ("not converged", ~found.converged),
        )
    }
    assert areas(by_position) == pytest.approx(expected, abs=1e-9)  # sums in another order
    title = " ".join(figure.get_suptitle().split())
    assert f"same fixed point at {100 * found.agrees.mean():.2f}% of tokens" in title
    assert found.sentence in agreement_drawing.caption(found)
    assert f"different ones at {100 * found.differs.mean():.2f}%" in found.sentence


def test_marks_of_fixed_points_tell_right_from_wrong(disagreeing: Any) -> None:
    axes = panel(agreement_drawing.draw(disagreeing), "fixed points")
    legend = axes.get_legend()
    assert legend is not None
    marker_of = {
        text.get_text(): handle.get_marker()  # type: ignore[union-attr]
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }
    expected = sorted(
        (place, point.spectral_radius, point.answer == search.label)
        for place, search in enumerate(disagreeing.searches, start=1)
        for point in search.fixed_points
    )
    shown = sorted(
        (
            float(np.asarray(line.get_xdata())[0]),
            float(np.asarray(line.get_ydata())[0]),
            line.get_marker() == marker_of["decodes the right answer"],
        )
        for line in axes.lines[1:]
    )
    assert shown == expected
    assert {right for *_, right in expected} == {True, False}


def test_an_extracted_automaton_is_drawn_as_it_is(drawn: Callable[..., Figure]) -> None:
    axes = panel(drawn("extraction"), "extracted automaton")
    assert len([patch for patch in axes.patches if isinstance(patch, Circle)]) == 2
    assert sorted(text.get_text() for text in axes.texts) == ["0", "0", "0", "1", "1", "1"]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_dense_automaton_is_the_multiplication_table_of_its_group(
    width: float, drawn: Callable[..., Figure]
) -> None:
    """36 arrows between 6 states would cover each other: the table is that of S3, from its definition."""
    axes = panel(drawn("dense extraction", width), "extracted automaton")
    assert not [patch for patch in axes.patches if isinstance(patch, Circle)]
    cells = {place: cell.get_text().get_text() for place, cell in axes.tables[0].get_celld().items()}
    columns = [cells[0, column] for column in range(1, 7)]
    rows = [cells[row, 0] for row in range(1, 7)]
    assert rows[0] == "123"
    assert sorted(rows) == sorted(columns) == ["123", "132", "213", "231", "312", "321"]
    for row, state in enumerate(rows, start=1):
        for column, token in enumerate(columns, start=1):
            assert cells[row, column] == "".join(state[int(place) - 1] for place in token)


def test_visited_states_have_the_colour_of_the_state_that_the_task_is_in(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    """The legend names an element of S3; the dots of its colour are those after words that multiply to it."""
    analysis = found("dense extraction")
    axes = panel(drawn("dense extraction"), "visited states")
    _, labels = sample_sequences(analysis.task, 32, 24, 0)
    # the initial state, the states after every token position by position, and after each token by itself
    alone = analysis.task.table[analysis.task.initial_state]
    truth = np.concatenate([[analysis.task.initial_state], labels.numpy().T.ravel(), alone])
    counts = {name: int((truth == number).sum()) for number, name in enumerate(analysis.task.state_names)}
    dots = [dot for dot in axes.collections if isinstance(dot, PathCollection)]
    assert {str(dot.get_label()): len(np.asarray(dot.get_offsets())) for dot in dots} == counts


def test_accuracy_and_fidelity_are_not_mixed_up(found: Callable[[str], Any]) -> None:
    import dataclasses

    analysis = found("extraction")
    correct = analysis.correct.copy()
    correct[:4, 10:] = False  # right at half of the words only
    shown = labelled(
        panel(extraction_drawing.draw(dataclasses.replace(analysis, correct=correct)), "fresh words")
    )
    np.testing.assert_array_equal(shown["accuracy (model right)"], correct.mean(axis=0))
    np.testing.assert_array_equal(shown["fidelity (model as automaton)"], analysis.agrees.mean(axis=0))


def test_the_verdict_of_an_extraction_is_what_words_and_shares_say(found: Callable[[str], Any]) -> None:
    for name in ("extraction", "dense extraction"):
        analysis = found(name)
        numbers = json_ready(analysis.numbers())
        fidelity = np.mean(numbers["fidelity_by_position"][: analysis.length])
        assert numbers["difference"] is None
        assert numbers["verdict"] == ("equivalent" if fidelity >= 0.99 else "inconclusive")
        assert numbers["sentence"].startswith(f"equivalent to the automaton of {analysis.task.name}: ")
        assert f"{100 * fidelity:.2f}% of tokens at length {analysis.length}" in numbers["sentence"]
        assert numbers["sentence"] in extraction_drawing.caption(analysis)


def test_conclusions_are_those_of_the_quantity_that_the_legend_names(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    numbers = json_ready(found("jacobian").numbers())
    layers = [layer for state in numbers["states"] for layer in state["layers"]]
    axes = panel(drawn("jacobian"), "conclusions")
    legend = axes.get_legend()
    assert legend is not None
    looks = {
        text.get_text(): (handle.get_color(), handle.get_marker())  # type: ignore[union-attr]
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
    }
    for label, quantity in (("off-diagonal mass", "off_diagonal_mass"), ("nonlinearity", "nonlinearity")):
        (line,) = [line for line in axes.lines if (line.get_color(), line.get_marker()) == looks[label]]
        np.testing.assert_allclose(
            np.asarray(line.get_ydata()), sorted(layer[quantity] for layer in layers), rtol=SUM_ORDER
        )
        (ticks,) = [
            line for line in axes.lines if (line.get_color(), line.get_marker()) == (looks[label][0], "_")
        ]
        errors = [10 * layer[f"{quantity.removesuffix('_mass')}_error"] for layer in layers]
        np.testing.assert_allclose(np.sort(np.asarray(ticks.get_ydata())), np.sort(errors), rtol=SUM_ORDER)


def test_the_verdict_of_a_run_is_what_its_states_say(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    analysis = found("jacobian")
    numbers = json_ready(analysis.numbers())
    verdicts = []
    for state in numbers["states"]:
        (layer,) = state["layers"]
        holds = all(
            layer[name] > 10 * layer[f"{name.removesuffix('_mass')}_error"]
            for name in ("off_diagonal_mass", "nonlinearity")
        )
        assert state["verdict"] == ("holds" if holds else "fails")
        verdicts.append(state["verdict"])
    assert numbers["theorem1"]["verdict"] == "holds"
    assert numbers["theorem1"]["counts"] == {"holds": len(verdicts), "fails": 0, "inconclusive": 0}
    sentence = f"hold: of {len(verdicts)} visited states they hold at {len(verdicts)}, fail at 0"
    assert sentence in jacobian_drawing.caption(analysis)
    assert sentence in " ".join(drawn("jacobian").get_suptitle().split())


def test_eigenvalues_are_those_of_the_state_that_the_legend_names(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    spectra = json_ready(found("jacobian").numbers())["spectra"]
    axes = panel(drawn("jacobian"), "spectrum")
    shown = labelled(axes)
    assert list(shown) == list(spectra)
    for label, values in spectra.items():
        np.testing.assert_array_equal(shown[label], values["imaginary"])
        (line,) = [line for line in axes.lines if line.get_label() == label]
        np.testing.assert_array_equal(line.get_xdata(), values["real"])


def test_seeds_of_a_model_are_one_group_with_a_band(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    numbers = json_ready(found("length_generalization").numbers())
    axes = panel(drawn("length_generalization"), "last 10 tokens")
    shown = labelled(axes)
    seeds = [[numbers[f"run-{n}"]["accuracy"][k] for k in ("16", "64")] for n in (0, 2, 3)]
    expected = {
        "implicit-mamba2, mean of 3 runs": np.sum(seeds, axis=0) / 3,
        "run-1, 1 run": [numbers["run-1"]["accuracy"][k] for k in ("16", "64")],
        "run-4, 1 run": [numbers["run-4"]["accuracy"][k] for k in ("16", "64")],
    }
    for label, values in expected.items():
        np.testing.assert_allclose(shown[label], values, rtol=SUM_ORDER, err_msg=label)
    assert set(shown) == {*expected, "most frequent answer", "training length"}
    thin = [np.asarray(line.get_ydata()).tolist() for line in axes.lines if line.get_linewidth() == 0.6]
    assert thin == seeds
    band = np.asarray(axes.collections[0].get_paths()[0].vertices)
    for place, values in zip((16, 64), np.transpose(seeds), strict=True):
        at = band[band[:, 0] == place, 1]
        assert (at.min(), at.max()) == (values.min(), values.max())


def test_a_model_has_one_colour_in_all_figures(drawn: Callable[..., Figure]) -> None:
    """The first line of its name in four drawings."""
    drawings = {
        "implicit Mamba-2, carried share 0.9": FIGURES["length_generalization"],
        "implicit Mamba-2": FIGURES["jacobians"],
    }
    colors = [line_color(of.picture(StoredResults.read(of.name)), label) for label, of in drawings.items()]
    colors.append(line_color(drawn("length_generalization"), "implicit-mamba2"))
    assert set(colors) == {"#0072b2"}
    modes = [
        [line_color(figure, mode) for mode in ("simultaneous", "sequential")]
        for figure in (
            drawn("convergence"),
            FIGURES["convergence"].picture(StoredResults.read("convergence")),
        )
    ]
    assert modes[0] == modes[1]
    assert modes[0][0] != modes[0][1]


def line_color(figure: Figure, label: str) -> str:
    """The one colour of all legend entries that begin with a label."""
    (color,) = {
        to_hex(handle.get_color())  # type: ignore[union-attr]
        for axes in figure.axes
        if (legend := axes.get_legend()) is not None
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True)
        if text.get_text().startswith(label)
    }
    return color


def test_a_command_writes_its_figure_as_wide_as_asked_with_a_caption(
    make_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from analysis import length_generalization

    run = make_run("lstm")
    flags = ["--lengths", "4", "--sequences", "4", "--seed", "3", "--out", str(tmp_path / "out")]
    assert length_generalization.main([str(run.path), *flags, "--width", "3.3"]) == 0
    png = (tmp_path / "out" / "length_generalization.png").read_bytes()
    assert int.from_bytes(png[16:20], "big") == 990
    caption = (tmp_path / "out" / "length_generalization.caption.txt").read_text(encoding="utf-8")
    content = json.loads((tmp_path / "out" / "length_generalization.json").read_text())
    parameters = content["runs"][0]["parameters"]
    assert (
        f"Training runs: 1 (lstm: lstm on parity, trained at length 32 with seed 2, {parameters} parameters)."
        in caption
    )
    assert "Settings: lengths 4, sequences 4" in caption
    assert "seed 3" in caption
    assert "caption beside it" in capsys.readouterr().out
    assert length_generalization.main([str(run.path), *flags, "--width", "wide"]) == 2
    assert "width is 'wide'; give inches from 3 to 20" in capsys.readouterr().err
