"""The figure of the state-to-state Jacobian: conclusions, verdict and spectra are those of the states."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.framework.output import json_ready
from analysis.jacobian import drawing as jacobian_drawing
from tests.drawn_figures import SUM_ORDER, labelled, panel


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
