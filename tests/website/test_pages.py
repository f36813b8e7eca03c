"""The generated pages of the site: every command, question, figure and public name is on them."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from analysis.questions import QUESTIONS
from implicit.models.registry import MODELS
from paper_figures.registry import all_figures
from website.commands import APART, GROUPS, commands_page, help_of
from website.gallery import SHOWN, Picture, gallery_page
from website.links import FOLDERS, PAGES, relinked, with_indices
from website.names import PACKAGES, names_pages, public_names
from website.questions import questions_page

ROOT = Path(__file__).parents[2]
CODE = ("automata", "theory", "implicit", "analysis", "paper_figures", "benchmarks")
COMMANDS = [name for commands in GROUPS.values() for name in commands]


def test_every_module_that_can_be_run_is_a_command_of_the_page() -> None:
    found = set()
    for package in CODE:
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if path.name == "__main__.py" or 'if __name__ == "__main__":' in text:
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                found.add(module.removesuffix(".__main__"))
    assert found == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_is_on_the_page(command: str) -> None:
    text = help_of(command)
    assert f"python -m {command}" in text
    assert text.startswith("usage: ") != (command in APART)
    assert f"## python -m {command} {{" in commands_page()
    assert text.rstrip() in commands_page()


def test_every_question_is_on_its_page_with_its_settings() -> None:
    text = questions_page()
    for question in QUESTIONS:
        row = next(line for line in text.splitlines() if line.startswith(f"| {question.question} |"))
        assert f"[`{question.name}`]" in row
        assert ("figure" in row) == (question.draw is not None)
        assert ("several at once" in row) == question.takes_several
        for name in question.settings.model_fields:
            assert f"| `{name}` |" in text


def test_every_figure_is_in_the_gallery() -> None:
    drawn = {question.name for question in QUESTIONS if question.draw is not None}
    assert set(SHOWN) <= drawn
    assert drawn - set(SHOWN) == {"all_words", "all_lengths"}  # proofs that take minutes
    for name, (_, chosen) in SHOWN.items():  # the command below the figure takes these flags
        assert all(f"--{key.replace('_', '-')} " in help_of(f"analysis.{name}") for key in chosen)
    shown = [Picture(name, name, "", "", b"") for name in all_figures()]
    assert all(f"(gallery/{name}.png)" in gallery_page(shown) for name in all_figures())


def test_every_public_name_stands_on_one_page_and_is_linked_from_the_others() -> None:
    pages = names_pages()
    for entry in public_names():
        here = pages[f"reference/{entry.package}.md"]
        anchor = (
            f"::: {entry.source}\n" if entry.source else f"## {entry.name} {{ #{entry.page}.{entry.name} }}"
        )
        assert (anchor in here) == (entry.package == entry.page), entry
        assert entry.link in here or entry.package == entry.page
        assert entry.link in pages["reference/index.md"]


def test_every_package_with_public_names_has_a_page() -> None:
    """The sub-packages below the four packages; not those whose names a package offers itself."""
    internal = {f"automata.{part}" for part in ("machines", "monoids", "probabilistic", "programs", "tasks")}
    internal.add("analysis.report")  # a command
    found = set()
    for package in ("automata", "theory", "implicit", "analysis"):
        for path in (ROOT / package).glob("*/__init__.py"):
            name = f"{package}.{path.parent.name}"
            if getattr(import_module(name), "__all__", None):
                found.add(name)
    packages = {name for name in PACKAGES if hasattr(import_module(name), "__path__")}
    assert found - internal == {name for name in packages if name.count(".") == 1}
    assert all(import_module(name).__all__ for name in PACKAGES if name.count(".") == 2)


def test_what_is_internal_of_automata_is_offered_by_automata() -> None:
    offered = set(import_module("automata").__all__)
    for part in ("machines", "monoids", "probabilistic", "programs", "tasks"):
        assert len(set(import_module(f"automata.{part}").__all__) & offered) > 1


def test_a_model_made_of_a_cell_has_its_sizes_on_the_page() -> None:
    page = names_pages()["reference/implicit.md"]
    sizes = MODELS["deltanet"].config_class.size_fields()
    text = page[page.index("## DeltaNet {") :]
    assert all(f"| `{name}` |" in text[:3000] for name in sizes)


def test_every_page_is_in_the_menu() -> None:
    _, _, menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    listed = re.findall(r": ([\w./]+\.md)$", menu, flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    written = {path.name for path in (ROOT / "docs").glob("*.md")}
    generated = {"commands.md", "questions.md", "gallery.md", *names_pages(), *PAGES.values()}
    assert set(listed) == written | generated


@pytest.mark.parametrize(
    "file", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_every_link_of_a_page_leads_somewhere_in_the_repository(file: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / file).read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert ((ROOT / file).parent / target).exists(), target


def test_links_out_of_docs_lead_to_pages() -> None:
    for path in [*PAGES, *FOLDERS]:
        assert (ROOT / path).exists(), path
    assert (
        relinked("[a](../theory/README.md#x) ![b](images/b.png)", "docs/a.md")
        == "[a](theory.md#x) ![b](images/b.png)"
    )
    assert relinked("[a](../LICENSE)", "docs/a.md") == "a"


def test_formulas_have_indices_and_code_has_none() -> None:
    assert with_indices("∂zT_s(z), T_σ, G_v") == "∂zT<sub>s</sub>(z), T<sub>σ</sub>, G<sub>v</sub>"
    kept = "`a_i`, check_theorem1\n\n    J_ij = 1\n\n```python\nx_i = 1\n```\n"
    assert with_indices(kept) == kept
