"""Tables of measured numbers in docs/ are those of the stored results."""

from paper_figures.registry import all_figures, figure_named, summary
from paper_figures.rows import Row
from tests.docs.page import page


def rows(name: str) -> list[Row]:
    figure = figure_named(name)
    return figure.rows(figure.results())


def test_experiments_are_listed_as_the_command_prints_them() -> None:
    assert f"\n\n{summary(list(all_figures().values()))}\n\n" in page("experiments.md")


def test_catbabi_has_the_accuracies_of_every_run() -> None:
    models: dict[str, list[str]] = {}
    for row in rows("catbabi"):
        _, _, model = row.label.partition(": ")
        models.setdefault(model, []).append(", ".join(f"{100 * share:.2f}" for share in row.each("accuracy")))
    for model, cells in models.items():
        (line,) = [line for line in page("catbabi.md").splitlines() if line.startswith(f"| {model} | ")][:1]
        assert line.split(" | ")[2:] == [*cells[:-1], f"{cells[-1]} |"]


def test_language_models_have_the_perplexities_of_every_run() -> None:
    cells: dict[str, list[str]] = {}
    for row in rows("wikitext2"):
        family = {"mamba2": "Mamba-2", "llama": "Llama"}[row.settings["model"].split("-")[1]]
        found = ", ".join(f"{perplexity:.2f}" for perplexity in row.each("perplexity"))
        cells.setdefault(f"| {family}, {row.settings['size']} |", []).append(found)
    for head, of_kinds in cells.items():
        (line,) = [line for line in page("language_models.md").splitlines() if line.startswith(head)]
        shown = [cell.strip(" |").split(" (")[0] for cell in line.split(" | ")[2:]]
        assert shown == of_kinds
