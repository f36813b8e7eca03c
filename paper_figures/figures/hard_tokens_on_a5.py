"""How many hard tokens training needs: models trained on a few of them, tested on more and at few iterations.

The task is a product of a group, here A5, and a monoid. An *easy* token leaves the group where it is, a
*hard* one is drawn uniformly from all tokens; the probability of a hard one varies in training and at test.
"""

from collections.abc import Sequence

from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.hard_tokens_experiments import ON_A5
from paper_figures.figures.hard_tokens_told import CLAIM, caption, collect_from, draw


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by the hard tokens of training, audit the tests, and tell what a token cost.

    Example:
        >>> collect([])["task"]
        'A5-generatorsxM'
    """
    return collect_from(outcomes, ON_A5)


FIGURE = PaperFigure(
    title="Few hard tokens in training, on A5",
    claim=CLAIM,
    experiment=ON_A5,
    collect=collect,
    draw=draw,
    caption=caption,
)
