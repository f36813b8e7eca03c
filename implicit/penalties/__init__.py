"""Penalties that a training objective may hold. Each is one module here, NAME.py, and no list names it.

The module has a `PENALTY`, a subclass of `Penalty`. Its fields become fields of the curriculum and flags,
``NAME_weight`` and so on, and metrics have ``NAME_penalty``.

- `PENALTIES`: all of them by name.
"""

from importlib import import_module
from pkgutil import iter_modules

from implicit.penalties.interface import Penalty, Solved

PENALTIES: dict[str, type[Penalty]] = {
    name: import_module(f"{__name__}.{name}").PENALTY
    for name in sorted(module.name for module in iter_modules(__path__))
    if name != "interface"
}

__all__ = ["PENALTIES", "Penalty", "Solved"]
