"""Tables of measured numbers in docs/ are those of the stored results."""

from paper_figures.registry import all_figures, summary
from tests.docs.page import page


def test_experiments_are_listed_as_the_command_prints_them() -> None:
    assert f"\n\n{summary(list(all_figures().values()))}\n\n" in page("experiments.md")
