"""The figure of `analysis.belief`: its curves are the numbers of its JSON, and seeds are drawn together."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.belief import drawing
from analysis.framework.output import json_ready
from tests.drawn_figures import SUM_ORDER, labelled, panel

STORED = "lazy-swaps-gated-deltanet"
SEEDS = [f"lstm-{seed}" for seed in range(3)]


def test_divergences_are_those_of_the_numbers(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    numbers, figure = json_ready(found("belief").numbers()), drawn("belief")
    for title, name in (
        ("divergence along", "kl_by_position"),
        ("since a full", "kl_by_tokens_since_full_reveal"),
        ("reveals since", "kl_by_reveals_since_full_reveal"),
    ):
        shown = labelled(panel(figure, title))
        means = {run: [entry["mean"] for entry in numbers[run]["predictions"][name]] for run in numbers}
        alone = np.asarray(shown[f"{STORED}, 1 run"], dtype=float)
        np.testing.assert_allclose(alone[~np.isnan(alone)], means[STORED], rtol=SUM_ORDER)
        together = np.asarray(shown["lstm, median of 3 runs"], dtype=float)
        middle = np.median([means[run] for run in SEEDS], axis=0)
        np.testing.assert_allclose(together[~np.isnan(together)], middle, rtol=SUM_ORDER)


def test_lengths_are_those_of_the_numbers(found: Callable[[str], Any], drawn: Callable[..., Figure]) -> None:
    numbers, figure = json_ready(found("belief").numbers()), drawn("belief")
    of_stored = numbers[STORED]
    excess = [entry["excess_log_loss"]["mean"] for entry in of_stored["predictions"]["by_length"].values()]
    shown = labelled(panel(figure, "loss above"))
    np.testing.assert_allclose(shown[f"{STORED}, 1 run"], excess, rtol=SUM_ORDER)
    decoded = labelled(panel(figure, "decoded"))
    probe = of_stored["probe"]["by_length"].values()
    for label, name in (("from b", "distance"), ("one step", "inconsistency")):
        expected = [entry[name]["mean"] for entry in probe]
        np.testing.assert_allclose(decoded[f"{STORED}: {label}, 1 run"], expected, rtol=SUM_ORDER)
        seeds = [
            [entry[name]["mean"] for entry in numbers[run]["probe"]["by_length"].values()] for run in SEEDS
        ]
        line = decoded[f"lstm: {label}, median of 3 runs"]
        np.testing.assert_allclose(line, np.median(seeds, axis=0), rtol=SUM_ORDER)
    np.testing.assert_allclose(
        decoded["mean belief"], [entry["constant"]["mean"] for entry in probe], rtol=SUM_ORDER
    )


def test_norms_and_the_mass_are_those_of_the_numbers(
    found: Callable[[str], Any], drawn: Callable[..., Figure]
) -> None:
    numbers, figure = json_ready(found("belief").numbers()), drawn("belief")
    shown = labelled(panel(figure, "norm of"))
    (layer,) = numbers[STORED]["norms"]["layers"]
    np.testing.assert_allclose(shown[f"{STORED}, 1 run"], np.log(layer["norm"]["0.5"]), rtol=1e-9, atol=1e-12)
    mass = np.asarray(shown["linear filter: log mass"])
    longest = numbers[STORED]["exact_filter"]
    tokens = [token for token in longest["tokens"] if token <= len(mass)]
    expected = longest["mean_log_mass"][: len(tokens)]
    np.testing.assert_allclose(mass[np.array(tokens) - 1], expected, rtol=1e-9, atol=1e-12)
    assert not [label for label in shown if "transformer" in label]


def test_what_is_left_out_is_told(found: Callable[[str], Any]) -> None:
    told = drawing.caption(found("belief"))
    assert "transformer-0 has no probe: the state grows with every token" in told
    assert f"{STORED}: λ = " in told
    assert "95% confidence intervals (Student's, of a ratio, over sequences)" in told
