"""The generated pages of the site: every command and every figure is on them."""

import re
from pathlib import Path

import griffe

from analysis.questions import QUESTIONS
from website.commands import APART, GROUPS, commands_page, help_of
from website.docstrings import Sections
from website.gallery import SHOWN
from website.links import FOLDERS, PAGES, relinked, with_formulas
from website.names import names_pages

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


def test_the_help_of_every_command_is_on_the_page() -> None:
    page = commands_page()
    for command in COMMANDS:
        text = help_of(command)
        assert f"python -m {command}" in text
        assert text.startswith("usage: ") != (command in APART)
        assert f"## python -m {command} {{" in page
        assert text.rstrip() in page


def test_every_figure_is_in_the_gallery() -> None:
    drawn = {question.name for question in QUESTIONS if question.draw is not None}
    assert set(SHOWN) <= drawn
    assert drawn - set(SHOWN) == {"all_words", "all_lengths"}  # proofs that take minutes
    for name, (_, chosen) in SHOWN.items():  # the command below the figure takes these flags
        assert all(f"--{key.replace('_', '-')} " in help_of(f"analysis.{name}") for key in chosen)


def test_every_page_is_in_the_menu() -> None:
    _, _, menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    listed = re.findall(r": ([\w./]+\.md)$", menu, flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    written = {path.name for path in (ROOT / "docs").glob("*.md")}
    generated = {"commands.md", "questions.md", "gallery.md", *names_pages(), *PAGES.values()}
    assert set(listed) == written | generated


def test_every_link_of_a_page_leads_somewhere_in_the_repository() -> None:
    for file in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", file.read_text(encoding="utf-8")):
            assert target.startswith("http") or (file.parent / target).exists(), (file.name, target)


def test_links_out_of_docs_lead_to_pages() -> None:
    for path in [*PAGES, *FOLDERS]:
        assert (ROOT / path).exists(), path
    assert (
        relinked("[a](../theory/README.md#x) ![b](images/b.png)", "docs/a.md")
        == "[a](theory.md#x) ![b](images/b.png)"
    )
    assert relinked("[a](../LICENSE)", "docs/a.md") == "a"


def test_formulas_have_indices_and_code_has_none() -> None:
    assert with_formulas("∂zT_s(z), T_σ, G_v") == "∂zT<sub>s</sub>(z), T<sub>σ</sub>, G<sub>v</sub>"
    assert with_formulas("Σ_{j<t} T_{σ_{t−1}}") == "Σ<sub>j&lt;t</sub> T<sub>σ<sub>t−1</sub></sub>"
    kept = "`a_i`, check_theorem1\n\n```python\nx_i = 1\n\n    x_i = 2\n\n```\n"
    assert with_formulas(kept) == kept
    typeset = with_formulas("Then\n\n$$\nJ_{ij} < \\frac{1}{2}\n$$\n\nholds.\n")
    assert re.fullmatch(r'Then\n\n<div class="formula"><math .*<mfrac>.*</math></div>\n\nholds\.\n', typeset)


def test_comments_beside_and_above_fields_describe_them(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text(
        "class Told:\n    size: int  # in bytes\n    # in\n    # seconds\n    age: int = 0\n    name: str\n"
    )
    module = griffe.load("told", search_paths=[tmp_path], extensions=griffe.Extensions(Sections()))
    found = [field.docstring and field.docstring.value for field in module["Told"].attributes.values()]
    assert found == ["In bytes.", "In seconds.", None]
