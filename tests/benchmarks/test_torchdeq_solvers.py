"""What the comparison with torchdeq rests on: who is wrong, and the tolerance that torchdeq is given."""

import pytest
import torch

from benchmarks.frame import IncorrectError
from benchmarks.torchdeq_solvers import STOPPING, Setting, ours, theirs
from implicit.fixed_point import DampedPicard, FixedPointProblem

RATES = torch.tensor([0.5, 0.9]).view(1, 2, 1)


@pytest.fixture
def setting() -> Setting:
    """z = a z + 1 for two tokens of one feature, of which the second is slow; fixed points 2 and 10."""
    problem = FixedPointProblem(lambda z: RATES * z + 1)
    start = torch.zeros(1, 2, 1)
    return Setting(problem, start, lambda z: torch.cat([z, 10 - z], -1), torch.tensor([[1, 0]]))


def test_tokens_outside_of_the_tolerance_or_decoded_differently_are_wrong(setting: Setting) -> None:
    right = torch.tensor([[[2.0], [10.0]]])
    assert setting.wrong(right) == (0, 0)
    assert setting.wrong(torch.tensor([[[2.0], [9.0]]])) == (0.5, 0)
    assert setting.wrong(torch.tensor([[[9.0], [9.0]]])) == (1, 0.5)
    assert setting.wrong(right * torch.nan)[0] == 1
    setting.check(lambda: right)
    with pytest.raises(IncorrectError, match=r"wrong on 50.0% of the tokens by the residual and on 0.0%"):
        setting.check(lambda: torch.tensor([[[2.0], [9.0]]]))


def test_both_packages_reach_the_tolerance_in_the_sweeps_that_they_report(setting: Setting) -> None:
    # Undamped from 0, the slow token has residual 0.9^k and latent 10 (1 - 0.9^k) after k sweeps.
    k = next(k for k in range(1000) if 0.9**k <= STOPPING.rtol * 10 * (1 - 0.9**k))
    mine = ours("ours", setting, DampedPicard(1.0))
    assert mine.counts["sweeps"] == k + 1  # the last sweep only measures
    rival = theirs("theirs", setting, "fixed_point_iter", tau=1.0)
    assert abs(rival.counts["sweeps"] - k) <= 8  # a halved tolerance takes ln 2 / ln(1 / 0.9) = 7 more
    for contender in (mine, rival):
        assert contender.check is not None
        contender.check()


def test_torchdeq_gets_the_loosest_tolerance_that_will_do(setting: Setting) -> None:
    tolerance = setting.tolerance("fixed_point_iter", tau=0.1)
    # Its norm is of the damped step, a tenth of ours: a tenth of the tolerance is needed, so four halvings.
    assert tolerance == STOPPING.rtol / 16
    assert setting.wrong(setting.torchdeq("fixed_point_iter", 2 * tolerance, tau=0.1))[0] > 0
