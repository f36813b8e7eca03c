"""Files as pages of the site: links that are right in the repository made right there, and formulas."""

import posixpath
import re

from latex2mathml.converter import convert

PAGES = {"README.md": "index.md", "theory/README.md": "theory.md", "CONTRIBUTING.md": "contributing.md"}
"""Files outside of ``docs/`` that are pages of the site."""

FOLDERS = {
    "analysis/questions.py": "questions.md",
    "automata": "reference/automata.md",
    "theory": "reference/theory.md",
    "implicit": "reference/implicit.md",
    "analysis": "reference/analysis.md",
}
"""Where code of the repository is explained."""


def relinked(text: str, file: str) -> str:
    """Return Markdown of a file of the repository with its links as the site has them.

    A link to what the site does not have becomes plain text.
    """

    def replaced(match: re.Match[str]) -> str:
        image, words, target, place = match.groups()
        if target.startswith("http"):
            return match.group(0)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(file), target))
        page = PAGES.get(path) or FOLDERS.get(path)
        if path.startswith("docs/"):
            page = path.removeprefix("docs/")
        return f"{image}[{words}]({page}{place or ''})" if page else words

    return re.sub(r"(!?)\[([^]]*)\]\(([^)#\s]+)(#[^)]*)?\)", replaced, text)


def with_formulas(text: str) -> str:
    """Return Markdown with typeset formulas: TeX between lines of `$$`, indices in text."""
    pieces = re.split(r"(^```.*?^```|^\$\$\n.*?^\$\$$)", text, flags=re.DOTALL | re.MULTILINE)
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            pieces[number] = _with_indices(piece)
        elif piece.startswith("$$"):
            pieces[number] = (
                f'<div class="formula">{convert(piece.strip("$").strip(), display="block")}</div>'
            )
    return "".join(pieces)


def _with_indices(text: str) -> str:
    pieces = re.split(r"(^```.*?^```|^ {4,}\S.*?$|`[^`\n]+`)", text, flags=re.DOTALL | re.MULTILINE)
    for number in range(0, len(pieces), 2):  # the others are code
        piece = re.sub(r"\^[{(]([^{}()]*)[})]", r"<sup>\1</sup>", pieces[number])
        for _ in range(2):  # an index may have an index
            piece = re.sub(
                r"_\{([^{}]*)\}", lambda index: f"<sub>{re.sub('<(?!/?sub>)', '&lt;', index[1])}</sub>", piece
            )
        piece = re.sub(r"(?<=[‖|])_([∞12])", r"<sub>\1</sub>", piece)
        pieces[number] = re.sub(r"(?<=[A-Za-zΦ])_([a-zα-ω]{1,2})(?!\w)", r"<sub>\1</sub>", piece)
    return "".join(pieces)
