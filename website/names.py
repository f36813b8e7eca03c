"""The pages of all public names, a page for each package, from which mkdocstrings makes the reference.

A name that several packages offer stands on the page of the first of them; the others point to it.
"""

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic.fields import FieldInfo

PACKAGES: tuple[str, ...] = (
    "automata",
    "automata.repl",
    "automata.babi",
    "theory",
    "theory.testing",
    "theory.constructions",
    "theory.belief",
    "theory.rigorous",
    "theory.jacobian",
    "theory.theorem1",
    "theory.mode_agreement",
    "implicit",
    "implicit.models",
    "implicit.cells",
    "implicit.modes",
    "implicit.fixed_point",
    "implicit.gradients",
    "implicit.ops",
    "implicit.penalties",
    "implicit.config",
    "implicit.training",
    "implicit.runs",
    "implicit.compiled",
    "implicit.language",
    "implicit.language.pretrain",
    "implicit.language.harness",
    "analysis",
    "analysis.length_generalization",
    "analysis.jacobian",
    "analysis.agreement",
    "analysis.convergence",
    "analysis.extraction",
    "analysis.error_control",
    "analysis.belief",
    "analysis.mechanism",
    "analysis.front_speed",
    "analysis.framework",
)


@dataclass(frozen=True)
class PublicName:
    """A name that a package offers, and the package on whose page it stands."""

    package: str
    name: str
    page: str

    @property
    def found(self) -> Any:
        """The object itself."""
        found = getattr(import_module(self.package), self.name)
        # implicit.train is a module that can be called as its function, once anybody has imported it.
        return import_module("implicit.training.train").train if isinstance(found, ModuleType) else found

    @property
    def source(self) -> str | None:
        """Where mkdocstrings finds it: the dotted name of a class or function with a statement of its own."""
        found = self.found
        if not (inspect.isclass(found) or inspect.isfunction(found)):
            return None
        module = inspect.getmodule(found)
        if module is None or module.__name__.split(".")[0] not in PACKAGES:
            return None
        # The class of a model that is made of a cell has no statement.
        stated = re.search(rf"^(class|def) {found.__name__}\b", inspect.getsource(module), re.MULTILINE)
        return f"{found.__module__}.{found.__qualname__}" if stated else None

    @property
    def link(self) -> str:
        """A link to it from another page of the reference."""
        return f"[`{self.name}`]({self.page}.md#{self.source or f'{self.page}.{self.name}'})"


def public_names() -> list[PublicName]:
    """Return every public name of every package, in the order of the pages.

    On a page they come as the docstring of the package lists them, then as ``__all__`` does,
    or, where a package has none, the alphabet.
    """
    names: list[PublicName] = []
    pages: dict[tuple[str, int], str] = {}
    for package in PACKAGES:
        module = import_module(package)
        listed = re.findall(r"`(\w+)`", module.__doc__ or "")
        # sub-packages have pages of their own; the module implicit.train is also the function
        found = {name: getattr(module, name) for name in getattr(module, "__all__", dir(module))}
        offered = [
            name
            for name, value in found.items()
            if name[0] != "_" and (not isinstance(value, ModuleType) or callable(value))
        ]
        for name in dict.fromkeys([*(name for name in listed if name in offered), *offered]):
            entry = PublicName(package, name, package)
            names.append(PublicName(package, name, pages.setdefault((name, id(entry.found)), package)))
    return names


def names_pages() -> dict[str, str]:
    """Return the pages by the path of their file."""
    entries = public_names()
    pages = {f"reference/{package}.md": _page(package, entries) for package in PACKAGES}
    return pages | {"reference/index.md": _index(entries)}


def _page(package: str, entries: list[PublicName]) -> str:
    """A package: its docstring with links, and all that stands on its page."""
    mine = [entry for entry in entries if entry.package == package]
    elsewhere = ", ".join(entry.link for entry in mine if entry.page != package)
    links = {entry.name: entry.link for entry in mine}
    for part in PACKAGES:
        if part.rpartition(".")[0] == package:
            links[part.rpartition(".")[2]] = f"[`{part}`]({part}.md)"
    blocks = [f"# {package}", _linked(import_module(package).__doc__ or "", links)]
    if elsewhere:
        blocks.append(f"Also here: {elsewhere}.")
    return "\n\n".join([*blocks, *(_entry(entry) for entry in mine if entry.page == package)]) + "\n"


def _linked(docstring: str, links: dict[str, str]) -> str:
    """A docstring whose list of names is one of links, and whose example is a block of code."""
    text, _, example = docstring.strip().partition("\nExample:\n")
    text = re.sub(r"(?<!`)`(\w+)`(?!`)", lambda name: links.get(name[1], name[0]), text)
    return text + (f"\n\n```pycon\n{inspect.cleandoc(example)}\n```" if example else "")


def _entry(entry: PublicName) -> str:
    """The directive for mkdocstrings, or, for what it cannot read from the source, the text itself."""
    if entry.source:
        options = [f"heading: {entry.name}", f"toc_label: {entry.name}"]
        return "\n      ".join([f"::: {entry.source}\n    options:", *options])
    heading = f"## {entry.name} {{ #{entry.page}.{entry.name} }}"
    return "\n\n".join([heading, _model(entry) if hasattr(entry.found, "cell_class") else _constant(entry)])


def _model(entry: PublicName) -> str:
    """Describe a model that is made of a cell: what it is, and its sizes."""
    found = entry.found
    kind = f"A `{found.__mro__[1].__name__}` of `{found.cell_class.__name__}`, by name `{found.name}`."
    about = f"{found.__doc__} {kind}"
    sizes = f"Its sizes are the fields of `{entry.name}.config_class`:"
    return f"{about}\n\n{sizes}\n\n{fields_table('size', found.config_class.size_fields())}"


def fields_table(what: str, fields: Mapping[str, FieldInfo]) -> str:
    """Return the table of fields with their defaults."""
    rows = [
        f"| `{name}` | `{field.get_default(call_default_factory=True)!r}` | {field.description or ''} |"
        for name, field in fields.items()
    ]
    return "\n".join([f"| {what} | default | meaning |", "|---|---|---|", *rows])


def _constant(entry: PublicName) -> str:
    """The type of a constant, and the text below its assignment, if it has one."""
    about = f"`{entry.package}.{entry.name}`, of type `{type(entry.found).__name__}`."
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] in PACKAGES and getattr(module, entry.name, None) is entry.found:
            pattern = rf'^{entry.name}\b[^\n]* = .*?\n"""(.*?)"""'
            if text := re.search(pattern, inspect.getsource(module), re.DOTALL | re.MULTILINE):
                return f"{about}\n\n{text[1]}"
    return about


def _index(entries: list[PublicName]) -> str:
    """The page that lists all names."""
    blocks = ["# Public names", "What `dir`, tab and `help` show, package by package."]
    for package in PACKAGES:
        first = (import_module(package).__doc__ or "").strip().splitlines()[0]
        links = " ".join(entry.link for entry in entries if entry.package == entry.page == package)
        blocks += [f"## [{package}]({package}.md)", first, links]
    return "\n\n".join(blocks) + "\n"
