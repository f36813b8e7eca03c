"""Imports between files within packages, by the graph of import-linter: ``python -m benchmarks.imports``."""

import sys
from collections.abc import Sequence

from grimp import build_graph

from automata.errors import InputError
from implicit.command_line import CommandParser, run_command

DEFAULTS = ("paper_figures", "analysis.certificates")


def imports_within(package: str) -> list[tuple[str, str]]:
    """Return the pairs of files within a package of which the first imports from the second.

    Example:
        >>> ("paper_figures.claims", "paper_figures.rows") in imports_within("paper_figures")
        True
    """
    try:
        graph = build_graph(package.partition(".")[0], cache_dir=None)
    except ValueError as error:  # of no package at all
        raise InputError(f"package {package} is not there; give one such as {DEFAULTS[0]}") from error
    inside = {name for name in graph.modules if name == package or name.startswith(f"{package}.")}
    if not inside:
        raise InputError(f"package {package} is not there; give one such as {DEFAULTS[0]}")
    return sorted(
        (file, other) for file in inside for other in graph.find_modules_directly_imported_by(file) & inside
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Print how many imports there are within each package.

    Example:
        >>> main(["paper_figures.experiments"])
        paper_figures.experiments: 3 imports between files
    """
    parser = CommandParser("python -m benchmarks.imports", "Count the imports between files within packages.")
    parser.add_argument(
        "packages",
        metavar="PACKAGE",
        nargs="*",
        help=f"such as {DEFAULTS[0]} (default: {' '.join(DEFAULTS)})",
    )
    for package in parser.parse_args(argv).packages or DEFAULTS:
        print(f"{package}: {len(imports_within(package))} imports between files")


if __name__ == "__main__":
    sys.exit(run_command(main))
