"""Figures: colours that mean one thing each to every reader, and labels of logarithmic axes."""

import itertools
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from numpy.typing import NDArray

from analysis.framework.figures import log_axis, new_figure, styled
from analysis.framework.palette import (
    FINDING_LOOKS,
    MODE_LOOKS,
    MODEL_LABELS,
    MODEL_LOOKS,
    QUANTITY_LOOKS,
    Look,
    distinct_looks,
    model_label,
    model_looks,
)
from implicit.models.registry import MODELS

# Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
APART = 10.0
"""CIE 1976 differences; 2.3 is just noticeable side by side, thin lines need several times that."""


def lab(color: str, blindness: str) -> NDArray[np.float64]:
    """The colour in CIELAB (D65) as such a reader sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(BLINDNESS[blindness] @ linear, 0, 1)
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    xyz = to_xyz @ seen / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


FAMILIES = {
    "models": MODEL_LOOKS,
    "modes": MODE_LOOKS,
    "findings": FINDING_LOOKS,
    "quantities": QUANTITY_LOOKS,
}


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_reader_can_tell_two_of_a_family_apart(family: str, blindness: str) -> None:
    for (one, a), (other, b) in combinations(FAMILIES[family].items(), 2):
        apart = float(np.linalg.norm(lab(a.color, blindness) - lab(b.color, blindness)))
        assert apart >= APART or a.marker != b.marker, f"{one} and {other}: {apart:.1f}"


def test_no_colour_has_two_meanings() -> None:
    colors = [look.color for family in FAMILIES.values() for look in family.values()]
    assert len(set(colors)) == len(colors)


def test_every_registered_model_has_a_look_and_a_label() -> None:
    assert set(MODEL_LOOKS) == set(MODEL_LABELS) == set(MODELS)
    assert len(set(map(model_label, MODELS))) == len(MODELS)


def test_other_models_look_like_no_registered_one() -> None:
    looks = model_looks([*MODELS, *(f"mine:{number}" for number in range(4))])
    assert len({look.color for look in looks.values()}) == len(MODELS) + 4
    assert len(set(distinct_looks([Look("red")] * 4))) == 4


@pytest.mark.parametrize("most", [3, 6])
@pytest.mark.parametrize("decades", [0.75, 0.9, 1.0, 1.2, 1.5, 1.7, 1.9])
def test_an_axis_of_up_to_two_decades_has_two_labels_at_least_and_no_more_than_wanted(
    decades: float, most: int
) -> None:
    for first in (1.0, 1.3, 1.9, 2.1, 3.1, 4.9, 5.1, 7.0, 9.9):
        with styled():
            axes = new_figure(2, 2).subplots()
            axes.plot([first * 1e4, first * 1e4 * 10**decades], [1, 2])
            log_axis(axes, "x", most=most)
        low, high = axes.get_xlim()
        places = [tick for tick in axes.xaxis.get_major_locator()() if low <= tick <= high]
        assert 2 <= len(places) <= most
        steps = [after / before for before, after in itertools.pairwise(places)]
        assert all(1.9 < step < 10.1 for step in steps)
        digits = {f"{place:e}"[:8] for place in places}
        assert digits <= {f"{digit}.000000" for digit in (1, 2, 3, 5)}
