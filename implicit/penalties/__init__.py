"""Penalties that a training objective may hold. Each is one module here, NAME.py, and no list names it.

The module has a `PENALTY`, a subclass of `Penalty`. Its fields become fields of the curriculum and flags,
``NAME_weight`` and so on, and metrics have ``NAME_penalty``.

- `PENALTIES`: all of them by name.
"""

from importlib import import_module
from pkgutil import iter_modules

from implicit.penalties.interface import Penalty, Solved

_FOUND: dict[str, type[Penalty]] = {
    module.name: import_module(f"{__name__}.{module.name}").PENALTY
    for module in iter_modules(__path__)
    if module.name != "interface"
}
# In this order they draw noise and their gradients are added, on which the last bits of weights depend.
PENALTIES = dict(sorted(_FOUND.items(), key=lambda item: (item[1].after_learning, item[0])))

__all__ = ["PENALTIES", "Penalty", "Solved"]
