"""How many hard tokens training needs: models trained on a few of them, tested on more and at few iterations.

The task is a product of a group, here S3 (A5 at the paper's size), and a monoid. An *easy* token leaves
the group where it is, a *hard* one is drawn uniformly from all tokens; the probability of a hard one varies
in training and at test.
"""

from collections.abc import Sequence

from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.hard_tokens_experiments import FULL, ON_S3
from paper_figures.figures.hard_tokens_told import CLAIM, caption, collect_from, draw


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by the hard tokens of training, audit the tests, and tell what a token cost.

    Example:
        >>> collect([])["task"]
        'S3xM'
    """
    return collect_from(outcomes, ON_S3)


FIGURE = PaperFigure(
    title="Few hard tokens in training",
    claim=CLAIM,
    experiment=ON_S3,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
