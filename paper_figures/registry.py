"""All figures, found by their files: by section, then by name."""

from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from automata.errors import unknown_name
from paper_figures import figures
from paper_figures.figure import SECTIONS, Figure


@cache
def all_figures() -> dict[str, Figure]:
    """Return every figure by its name, in the order of the paper.

    Example:
        >>> list(all_figures())[-2:]
        ['published', 'published_neighbours']
    """
    found = [
        replace(import_module(f"{figures.__name__}.{module.name}").FIGURE, name=module.name)
        for module in iter_modules(figures.__path__)
    ]
    return {
        figure.name: figure
        for figure in sorted(found, key=lambda figure: (SECTIONS.index(figure.section), figure.name))
    }


def figure_named(name: str) -> Figure:
    """Return a figure.

    Raises:
        InputError: for an unknown name, with the nearest known one.

    Example:
        >>> figure_named("jacobians").title
        'State-to-state Jacobians, explicit and implicit'
        >>> figure_named("jacobian")
        Traceback (most recent call last):
        automata.errors.InputError: figure 'jacobian' is unknown; did you mean 'jacobians'? Known: ...
    """
    if name not in all_figures():
        raise unknown_name("figure", name, all_figures())
    return all_figures()[name]
