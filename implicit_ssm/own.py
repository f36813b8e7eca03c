"""The check that Python finds the packages of implicit-ssm under their names, and nobody else's."""

from importlib.util import find_spec
from pathlib import Path

from implicit_ssm.version import DISTRIBUTION

REINSTALL = f"install {DISTRIBUTION} again, from where it came, with --force-reinstall --no-deps"

_MARK = "from implicit_ssm import"
"""Stands in the ``__init__`` of each package of ours."""


def require(*names: str) -> None:
    """Check that packages are those of this distribution; called by the packages that import them.

    They are looked for and read, not imported, so that ``import implicit`` stays light.

    Args:
        names: import names, such as ``"automata"``.

    Raises:
        ImportError: if another package is found under one of the names, or none.

    Example:
        >>> require("automata", "theory")
        >>> require("json")
        Traceback (most recent call last):
        ImportError: 'json' is not the package of implicit-ssm but ...; rename that if it is yours, ...
    """
    for name in names:
        spec = find_spec(name)
        if spec is None or spec.origin is None:  # also for a folder without __init__.py
            raise ImportError(
                f"the package {name!r} of {DISTRIBUTION} is missing or incomplete, as after another package "
                f"of that name was uninstalled; {REINSTALL}",
                name=name,
            )
        if not _is_ours(Path(spec.origin)):
            raise ImportError(
                f"{name!r} is not the package of {DISTRIBUTION} but {spec.origin}; rename that if it is "
                f"yours, or use the command {DISTRIBUTION}, and if another distribution (automata-lib) "
                f"brought it, use an environment for each, or uninstall that one and {REINSTALL}",
                name=name,
                path=spec.origin,
            )


def _is_ours(module: Path) -> bool:
    """Return whether a module is the ``__init__`` of a package of ours; what overwrote it lies there, too."""
    if module.name != "__init__.py":
        return False
    return any(line.startswith(_MARK) for line in module.read_text(encoding="utf-8").splitlines())
