"""The version of the distribution, from the one place where it is written."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DISTRIBUTION = "implicit-ssm"


def read_version(project: Path) -> str:
    r"""Return the version that a checkout states, else that of the installed distribution.

    A checkout goes first: what an editable installation noted down when it was made may be older.

    Args:
        project: the pyproject.toml of the checkout, if there is one.

    Returns:
        The version; ``"unknown"`` where the files were copied without either.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     project = Path(folder) / "pyproject.toml"
        ...     _ = project.write_text('[project]\nname = "implicit-ssm"\nversion = "1.2.3"')
        ...     read_version(project)
        '1.2.3'
    """
    if project.is_file():
        stated = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {})
        if stated.get("name") == DISTRIBUTION:
            return str(stated["version"])
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "unknown"


__version__ = read_version(Path(__file__).parents[1] / "pyproject.toml")
