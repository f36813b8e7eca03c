"""Names of a package that are imported when they are first used, and seen by ``dir`` and tab at once."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its ``__name__``.
        homes: for each public name the module that defines it; "" if the package itself does.
        modules: its own modules and sub-packages that users open.

    Example:
        >>> get, names = lazy_names("automata", {"parity_dfa": "automata.machines.named_dfas"}, ["monoids"])
        >>> len(get("parity_dfa")().states), get("monoids").__name__, names()
        (2, 'automata.monoids', ['monoids', 'parity_dfa'])
        >>> get("parity_dfs")
        Traceback (most recent call last):
        AttributeError: module 'automata' has no attribute 'parity_dfs'
    """
    opened = frozenset(modules)
    shown = sorted({*homes, *opened})

    def get(name: str) -> Any:
        if name in opened:
            return import_module(f"{package}.{name}")
        if not homes.get(name):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return get, lambda: list(shown)
