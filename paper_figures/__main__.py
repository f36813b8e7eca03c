"""Draw the figures of the paper: ``python -m paper_figures [NAME ...] [--list] [--width INCHES] [--rerun]``.

Without ``--rerun`` they are drawn from the stored results. With it, the experiment behind each is carried
out first: what its store holds is kept, what is missing is trained and measured, and the results are stored.
Figures of numbers that others published have no experiment; there is nothing to rerun of them. With
``--full`` the experiment is that at the size of the paper, for a GPU; its results have a file of their own.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis.framework.figures import checked_width, save_figure
from analysis.framework.output import check_writable
from analysis.framework.terminal import add_width_flag
from automata.errors import InputError
from implicit.command_line import CommandParser, run_command
from paper_figures.experiments.executors import CLUSTERS, Executor, parse_parameters
from paper_figures.experiments.outcomes import Outcome, outcomes_of
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from paper_figures.figures.figure import PaperFigure
from paper_figures.registry import AnyFigure, all_figures, figure_named
from paper_figures.stored_results import RESULTS
from paper_figures.summary import NOTHING_TO_RERUN, at_full_size, claim_rows, summary

UNFINISHED = 1
"""Exit code if a run failed or did not end."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes.

    Raises:
        SystemExit: with code 1 if a run failed or did not end, after all that could be done.

    Example:
        >>> main(["--list"])
        figure ...
        jacobians ...
    """
    arguments = _parser().parse_args(argv)
    if arguments.list:
        Console().print(claims_table(_figures(arguments.names, arguments.full)), "")
        return
    if arguments.summary:
        print(summary(_figures(arguments.names, arguments.full)))
        return
    figures = _figures(arguments.names, arguments.full)
    store, executor = Store(Path(arguments.experiments)), _executor(arguments)
    if arguments.status:
        _print_status(figures, store)
        return
    folder, width = Path(arguments.out), checked_width(arguments.width)
    measured = _with_experiment(figures, named=bool(arguments.names)) if arguments.rerun else []
    check_writable(folder)
    sentences = []
    if arguments.rerun:
        device = arguments.device or "cpu"
        sentences = _rerun(measured, store, executor, device, retry_failed=arguments.retry_failed)
    drawn = [figure.shown(RESULTS) for figure in figures]
    folder.mkdir(parents=True, exist_ok=True)
    for figure, shown in zip(figures, drawn, strict=True):
        png, pdf = save_figure(shown.picture(width), folder, figure.name, shown.caption)
        print(f"{figure.name}: {png}, {pdf.name} and {figure.name}.caption.txt, {shown.numbers}")
    if sentences:
        raise SystemExit(UNFINISHED)


def _figures(names: Sequence[str], full: bool) -> list[AnyFigure]:
    """Return the figures of those names, or all; at the size of the paper if asked for."""
    figures = [figure_named(name) for name in dict.fromkeys(names or all_figures())]
    if not full:
        return figures
    large = at_full_size(figures)
    if names and len(large) < len(figures):
        found = {figure.experiment.name for figure in large}
        (missing, *_) = (figure.name for figure in figures if figure.name not in found)
        raise InputError(
            f"figure {missing} has no experiment at the size of a paper; leave out --full, or name one that "
            "python -m paper_figures --list --full shows"
        )
    return list(large)


def _with_experiment(figures: Sequence[AnyFigure], *, named: bool) -> list[PaperFigure]:
    """Return the figures that can be rerun; one of published numbers may not be asked for by name."""
    for figure in figures:
        if named and not isinstance(figure, PaperFigure):
            raise InputError(
                f"figure {figure.name} has {NOTHING_TO_RERUN}, its numbers are as their authors print them; "
                "draw it without --rerun"
            )
    return [figure for figure in figures if isinstance(figure, PaperFigure)]


def _print_status(figures: Sequence[AnyFigure], store: Store) -> None:
    """Print the runs of every figure, or that it has none."""
    for figure in figures:
        if isinstance(figure, PaperFigure):
            Console().print(status_table(figure, outcomes_of(figure.experiment, store)), "")
        else:
            Console().print(f"{figure.name}: no runs, its numbers are as their authors print them", "")


def _executor(arguments: Any) -> Executor:
    """The executor of the flags, which only ``--rerun`` takes."""
    if not arguments.rerun:
        for flag in ("jobs", "cluster", "slurm", "device", "retry_failed"):
            if getattr(arguments, flag):
                raise InputError(f"--{flag.replace('_', '-')} is given without --rerun; give that as well")
    if arguments.jobs is not None and not arguments.jobs.removeprefix("-").isdecimal():
        raise InputError(f"jobs is {arguments.jobs!r}; give a whole number of at least 1")
    return Executor(
        1 if arguments.jobs is None else int(arguments.jobs),
        arguments.cluster or "local",
        parse_parameters(arguments.slurm),
    )


def _rerun(
    figures: list[PaperFigure], store: Store, executor: Executor, device: str, *, retry_failed: bool
) -> list[str]:
    """Carry out the experiments and store their results; return what was said about failed runs.

    Raises:
        SystemExit: with code 1 if a run did not end, so that there are no results to store.
    """
    check_writable(RESULTS, "folder of the stored results")
    said = []
    for figure in figures:
        report = carry_out(figure.experiment, store, executor, retry_failed=retry_failed, device=device)
        for sentence in report.sentences():
            print(f"{figure.name}: {sentence}", file=sys.stderr)
            said.append(sentence)
        if not report.complete:
            raise SystemExit(UNFINISHED)
        figure.stored(report.outcomes).write(RESULTS)
    return said


def claims_table(figures: Sequence[AnyFigure]) -> Table:
    """Return a table of the claims: how they fare in the stored results, and what a rerun costs.

    Claims whose numbers are only published are marked as such.

    Example:
        >>> table = claims_table([figure_named("convergence")])
        >>> [column.header for column in table.columns]
        ['figure', 'claim', 'verdict', 'cost of a rerun']
    """
    table = Table(box=None, padding=(0, 2, 1, 0))
    table.add_column("figure", min_width=max(len(figure.name) for figure in figures))
    for column in ("claim", "verdict", "cost of a rerun"):
        table.add_column(column)
    for row in claim_rows(figures):
        table.add_row(*row)
    return table


def status_table(figure: PaperFigure, outcomes: Sequence[Outcome]) -> Table:
    """Return a table with a line for every run of a figure's experiment.

    Example:
        >>> figure = figure_named("convergence")
        >>> table = status_table(figure, outcomes_of(figure.experiment, Store(Path("nowhere"))))
        >>> list(table.columns[1].cells)
        ['missing', 'missing', 'missing', 'missing', 'missing']
    """
    table = Table(
        title=f"{figure.name}: {len(outcomes)} runs", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for column in ("run", "status", "measured", "why it failed"):
        table.add_column(column)
    for outcome in outcomes:
        status = "failed" if outcome.failure else "done" if outcome.complete else "begun"
        table.add_row(
            outcome.point.name,
            status if outcome.records else "missing",
            ", ".join(outcome.values) or "-",
            outcome.failure or "",
        )
    return table


def _parser() -> CommandParser:
    parser = CommandParser("python -m paper_figures", "Draw the figures of the paper from stored results.")
    parser.add_argument("names", metavar="NAME", nargs="*", help="figures to draw (default: all)")
    parser.add_argument(
        "--list", action="store_true", help="show each figure's claim, how it fares and its cost, then stop"
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="print that list as the Markdown of docs/experiments.md, then stop",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="of those that have one, the experiment at the size of the paper, for a GPU; with --list: which "
        "they are and what each is expected to cost",
    )
    parser.add_argument("--out", metavar="DIR", default="out/paper_figures", help="default: %(default)s")
    add_width_flag(parser)
    group = parser.add_argument_group("experiments")
    group.add_argument(
        "--rerun",
        action="store_true",
        help="train and measure what is missing first, and store the results; killed, it goes on",
    )
    group.add_argument(
        "--status", action="store_true", help="show what there is of each run in --experiments, then stop"
    )
    group.add_argument(
        "--experiments",
        metavar="DIR",
        default="out/experiments",
        help="where runs and measurements are, and go (default: %(default)s)",
    )
    group.add_argument("--device", metavar="NAME", help="where to train, such as cuda (default: cpu)")
    group.add_argument("--jobs", metavar="N", help="how many runs at once (default: 1)")
    group.add_argument(
        "--cluster",
        metavar="NAME",
        help=f"where: {'; '.join(f'{name} ({what})' for name, what in CLUSTERS.items())} (default: local)",
    )
    group.add_argument(
        "--slurm",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a parameter of the SLURM jobs, such as partition=cpu, timeout_min=600 (default: a day), "
        "mem_gb=8, cpus_per_task=1; can be given several times",
    )
    group.add_argument(
        "--retry-failed", action="store_true", help="try runs and measurements that failed before again"
    )
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
