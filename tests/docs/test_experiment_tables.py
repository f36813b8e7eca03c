"""Tables of measured numbers in docs/ are those of the stored results."""

from paper_figures.figures import catbabi_table, wikitext2_table
from paper_figures.stored_results import StoredResults
from tests.docs.page import page


def test_catbabi_has_its_tables() -> None:
    found = StoredResults.read("catbabi").results
    text = page("catbabi.md")
    tables = [
        catbabi_table.results_table(found),
        catbabi_table.tasks_table(found, "catbabi-answers-carried"),
        catbabi_table.tasks_table(found, "catbabi-words-carried"),
    ]
    assert all(f"\n\n{table}\n" in text for table in tables)
    assert text.count("\n| --- |") == len(tables)


def test_language_models_have_their_table() -> None:
    table = wikitext2_table.results_table(StoredResults.read("wikitext2").results)
    assert f"\n\n{table}\n\n" in page("language_models.md")
