"""Draw the figures of the paper: ``python -m paper_figures [NAME ...] [--list] [--rerun] [--out DIR]``."""

import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.framework.figures import save_figure
from analysis.framework.output import check_writable
from implicit.command_line import CommandParser, run_command
from paper_figures.registry import FIGURES, figure_named
from paper_figures.stored_results import RESULTS, StoredResults


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes.

    Example:
        >>> main(["--list"])
        jacobians              State-to-state Jacobians, explicit and implicit
        convergence            The search for the fixed points
        length_generalization  Accuracy against length on parity
    """
    arguments = _parser().parse_args(argv)
    if arguments.list:
        width = max(map(len, FIGURES))
        print("\n".join(f"{figure.name:<{width}}  {figure.title}" for figure in FIGURES.values()))
        return
    figures = [figure_named(name) for name in dict.fromkeys(arguments.names or FIGURES)]
    folder = Path(arguments.out)
    check_writable(folder)
    if arguments.rerun:
        check_writable(RESULTS)
        for figure in figures:
            figure.recompute(Path(arguments.runs)).write(RESULTS)
    stored = [StoredResults.read(figure.name, RESULTS) for figure in figures]
    folder.mkdir(parents=True, exist_ok=True)
    for figure, results in zip(figures, stored, strict=True):
        png, pdf = save_figure(figure.picture(results), folder, figure.name)
        print(f"{figure.name}: {png} and {pdf.name}, results of {results.date}")


def _parser() -> CommandParser:
    parser = CommandParser("python -m paper_figures", "Draw the figures of the paper from stored results.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="figures to draw (default: all)")
    parser.add_argument("--list", action="store_true", help="show the figures, then stop")
    parser.add_argument(
        "--rerun", action="store_true", help="compute the results anew, train what is missing, and store them"
    )
    parser.add_argument("--out", metavar="DIR", default="out/paper_figures", help="default: %(default)s")
    parser.add_argument(
        "--runs",
        metavar="DIR",
        default="runs/paper_figures",
        help="where --rerun finds and trains the runs (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
