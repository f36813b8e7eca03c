"""Logarithmic axes: labels that a reader can place, and no more of them than there is room for."""

import itertools

import pytest

from analysis.framework.figures import log_axis, new_figure, styled


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
