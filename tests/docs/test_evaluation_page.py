"""docs/evaluation.md: its examples are documents, its published figures the published ones."""

import pytest

from implicit.language.harness import LOCAL_SETS, tracking_documents
from paper_figures.published_tables import read_table
from tests.docs.page import page

PAGE = page("evaluation.md")
LENGTHS = {"parity": 3, "ring": 3, "s5": 2, "balls": 3, "programs": 3, "repl": 3}
COLUMNS = ("lambada_perplexity", *LOCAL_SETS, "average")


@pytest.mark.parametrize("name", LENGTHS)
def test_examples_are_documents(name: str) -> None:
    (document,) = tracking_documents(name, LENGTHS[name], documents=1)
    _, _, section = PAGE.partition("\n## State tracking in plain text\n")
    _, _, after = section.partition(f"`tracking_{name}`")
    assert after.partition("```text\n")[2].partition("\n```")[0] == document.text


def test_published_figures_are_those_of_the_table_and_named_as_such() -> None:
    title, _, rest = PAGE.partition("\n### Published, not measured here\n")
    assert title != PAGE
    table = read_table("downstream")
    text = rest.partition("\n## ")[0]
    assert table.source["arxiv"] in text
    assert "Schöne et al. 2025" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "published model" not in line]
    assert rows == [
        f"| {row['printed']}, {row['size']}, {row['data']} | "
        + " | ".join("–" if row[column] is None else f"{row[column]:g}" for column in COLUMNS)
        + " |"
        for row in table.rows
    ]
