"""The pages of all public names, a page for each package, from which mkdocstrings makes the reference.

A name that several packages offer stands on the page of the first of them; the others point to it.
"""

import inspect
import sys
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel

PACKAGES: tuple[str, ...] = (
    "automata",
    "theory",
    "theory.testing",
    "theory.constructions",
    "theory.belief",
    "theory.rigorous",
    "implicit",
    "implicit.models",
    "implicit.cells",
    "implicit.modes",
    "implicit.fixed_point",
    "implicit.gradients",
    "implicit.ops",
    "implicit.config",
    "implicit.training",
    "implicit.runs",
    "analysis",
    "analysis.length_generalization",
    "analysis.jacobian",
    "analysis.agreement",
    "analysis.convergence",
    "analysis.extraction",
)


@dataclass(frozen=True)
class PublicName:
    """A name that a package offers.

    Attributes:
        package: that offers it.
        name: as it is called there.
        page: the package on whose page it stands.

    Example:
        >>> PublicName("implicit", "GRU", "implicit").found.__name__
        'GRU'
    """

    package: str
    name: str
    page: str

    @property
    def found(self) -> Any:
        """The object itself."""
        return getattr(import_module(self.package), self.name)

    @property
    def anchor(self) -> str:
        """Where the page speaks of it."""
        return f"{self.page}.{self.name}"


def public_names() -> list[PublicName]:
    """Return every public name of every package, in the order of the pages.

    Example:
        >>> next(entry for entry in public_names() if entry.anchor == "implicit.load_run").package
        'implicit'
    """
    names: list[PublicName] = []
    pages: dict[tuple[str, int], str] = {}
    for package in PACKAGES:
        for name in import_module(package).__all__:
            found = getattr(import_module(package), name)
            if package == "implicit" and isinstance(found, ModuleType):
                found = import_module("implicit.training.train").train  # its callable module
            page = pages.setdefault((name, id(found)), package)
            names.append(PublicName(package, name, page))
    return names


def names_pages() -> dict[str, str]:
    """Return the pages by the path of their file.

    Example:
        >>> sorted(names_pages())[:2]
        ['reference/analysis.agreement.md', 'reference/analysis.convergence.md']
    """
    entries = public_names()
    pages = {page_of(package): _page(package, entries) for package in PACKAGES}
    return pages | {"reference/index.md": _index(entries)}


def page_of(package: str) -> str:
    """Return the path of a package's page.

    Example:
        >>> page_of("theory.testing")
        'reference/theory.testing.md'
    """
    return f"reference/{package}.md"


def _page(package: str, entries: list[PublicName]) -> str:
    module = import_module(package)
    mine = [entry for entry in entries if entry.package == package]
    lines = [f"# {package}", "", inspect.cleandoc(_without_examples(module.__doc__ or "")), ""]
    elsewhere = [entry for entry in mine if entry.page != package]
    if elsewhere:
        links = ", ".join(f"[`{e.name}`]({e.page}.md#{e.anchor})" for e in elsewhere)
        lines += [f"Also here: {links}.", ""]
    for entry in mine:
        if entry.page == package:
            lines += [*_entry(entry), ""]
    return "\n".join(lines)


def _entry(entry: PublicName) -> list[str]:
    """The directive for mkdocstrings, or, for what it cannot read from the source, the text itself."""
    found = entry.found
    if isinstance(found, ModuleType):
        found = import_module("implicit.training.train").train
    path = f"{getattr(found, '__module__', '')}.{getattr(found, '__qualname__', '')}"
    heading = f"## {entry.name} {{ #{entry.anchor} }}"
    if inspect.isclass(found) and _made_by_a_function(found):
        return [heading, "", _model_text(entry, found)]
    if inspect.isfunction(found) or (inspect.isclass(found) and path.startswith(_OUR_PACKAGES)):
        return [heading, "", f"::: {path}", "    options:", "      show_root_heading: false"]
    return [
        heading,
        "",
        f"`{entry.package}.{entry.name}`, of type `{type(found).__name__}`.",
        "",
        _remark(entry),
    ]


_OUR_PACKAGES = ("automata.", "theory.", "implicit.", "analysis.")


def _made_by_a_function(found: type) -> bool:
    """Whether a class has no ``class`` statement of its own name: the models that are made of a cell."""
    module = inspect.getmodule(found)
    return module is not None and f"class {found.__name__}" not in inspect.getsource(module)


def _model_text(entry: PublicName, found: Any) -> str:
    """What there is to say of a model that is made of a cell: what it is, and its sizes."""
    parent = found.__mro__[1].__name__
    config: type[BaseModel] = found.config_class
    rows = [
        f"| `{name}` | `{field.get_default()!r}` | {field.description or ''} |"
        for name, field in found.config_class.size_fields().items()
    ]
    return "\n".join(
        [
            f"{found.__doc__} A `{parent}` of `{found.cell_class.__name__}`, by name `{found.name}`.",
            "",
            f"Sizes, the fields of `{entry.name}.config_class` (`{config.__name__}`):",
            "",
            "| size | default | meaning |",
            "|---|---|---|",
            *rows,
        ]
    )


def _remark(entry: PublicName) -> str:
    """The text below the assignment of a constant, if it has one."""
    for name in (entry.package, *_imported_from(entry)):
        lines = inspect.getsource(import_module(name)).splitlines()
        for number, line in enumerate(lines[:-1]):
            if line.startswith((f"{entry.name} =", f"{entry.name}:")) and '"""' in lines[number + 1]:
                return lines[number + 1].strip('"')
    return ""


def _imported_from(entry: PublicName) -> list[str]:
    """The modules below the package that could define a constant."""
    return [
        name
        for name, module in sys.modules.items()
        if name.startswith(f"{entry.package}.") and getattr(module, entry.name, None) is entry.found
    ]


def _without_examples(text: str) -> str:
    """A docstring with its examples as code blocks, for Markdown."""
    head, mark, example = text.partition("\nExample:\n")
    return head if not mark else f"{head}\n\n```pycon\n{inspect.cleandoc(example)}\n```\n"


def _index(entries: list[PublicName]) -> str:
    """The page that lists all names."""
    lines = ["# Public names", "", "What `dir`, tab and `help` show, package by package.", ""]
    for package in PACKAGES:
        first = (import_module(package).__doc__ or "").strip().splitlines()[0]
        links = [
            f"[`{e.name}`]({e.page}.md#{e.anchor})"
            for e in entries
            if e.package == package and e.page == package
        ]
        lines += [f"## [{package}]({package}.md)", "", first, "", " ".join(links), ""]
    return "\n".join(lines)
