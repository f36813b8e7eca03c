"""Curves are the numbers of what the legend names: convergence, errors, mechanism, accuracy by length."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.convergence import drawing as convergence_drawing
from analysis.error_control import drawing as error_drawing
from analysis.framework.output import json_ready
from analysis.mechanism import drawing as mechanism_drawing
from tests.drawn_figures import SUM_ORDER, labelled, panel


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
