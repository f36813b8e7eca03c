"""Draw the figures of the paper: ``python -m paper_figures [NAME ...] [--list] [--width INCHES] [--rerun]``.

Without ``--rerun`` they are drawn from the stored results. With it, the experiment behind each is carried out
first: what its store holds is kept, what is missing is trained and measured, and the results are stored. With
``--settings`` all runs take other settings, such as those of a paper; their results go into the store.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from analysis.framework.figures import checked_width, save_figure
from analysis.framework.output import FILES, check_writable
from analysis.framework.terminal import Terminal, add_width_flag
from automata.errors import InputError, printable, printable_lines
from implicit.command_line import CommandParser, add_allow_code_flag, run_command
from implicit.runs.files import read_settings
from paper_figures.experiments.runner import CLUSTERS, carry_out, sentences
from paper_figures.experiments.store import Outcome, Store
from paper_figures.figure import Figure
from paper_figures.registry import all_figures, claim_rows, figure_named, summary
from paper_figures.results import RESULTS

UNFINISHED = 1  # exit code if a run failed or did not end


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command; use `implicit.command_line.run_command` to get its faults as exit codes.

    SystemExit with code 1 if a run failed or did not end, after all that could be done.
    """
    arguments = _parser().parse_args(argv)
    figures = [figure_named(name) for name in dict.fromkeys(arguments.names or all_figures())]
    if arguments.list:
        for row in claim_rows(figures):
            print(printable_lines("\n  ".join(row)))
        return
    if arguments.summary:
        print(summary(figures))
        return
    store, results = Store(Path(arguments.experiments)), RESULTS
    _check_flags(arguments)
    if arguments.settings is not None:
        overrides = read_settings(Path(arguments.settings), allow_code=arguments.allow_code)
        results = store.path / "results"
        figures = [replace(figure, overrides=overrides) for figure in figures if not figure.published]
    if arguments.status:
        for figure in figures:
            shown: Table | str = f"{figure.name}: no runs, its numbers are as their authors print them"
            if not figure.published:
                shown = status_table(figure, store.outcomes(figure.experiment))
            Terminal().print(shown, "")
        return
    folder, width = Path(arguments.out), checked_width(arguments.width)
    check_writable(folder, files=[figure.name + ending for figure in figures for ending in FILES])
    failures = []
    if arguments.rerun:
        published = [figure.name for figure in figures if figure.published]
        if arguments.names and published:
            raise InputError(
                f"figure {published[0]} has nothing to rerun, its numbers are as their authors print them; "
                "draw it without --rerun"
            )
        rerun = [figure for figure in figures if not figure.published]
        failures = _rerun(rerun, store, results, arguments)
    pictures = [(figure, figure.results(results)) for figure in figures]
    folder.mkdir(parents=True, exist_ok=True)
    for figure, found in pictures:
        png, pdf = save_figure(figure.picture(found, width), folder, figure.name, figure.caption(found))
        if arguments.names:
            print(printable(f"{figure.name}, whether {figure.claim.statement}: {figure.verdict(found)}"))
        numbers = "numbers as published" if figure.published else f"results of {found.date}"
        print(printable(f"{figure.name}: {png}, {pdf.name} and {figure.name}.caption.txt, {numbers}"))
    if failures:
        raise SystemExit(UNFINISHED)


def _check_flags(arguments: Any) -> None:
    """Refuse flags that only ``--rerun`` takes, and a number of jobs that is none."""
    if not arguments.rerun:
        for flag in ("jobs", "cluster", "slurm", "device", "retry_failed"):
            if getattr(arguments, flag):
                raise InputError(f"--{flag.replace('_', '-')} is given without --rerun; give that as well")
        if arguments.settings is not None and not arguments.status:
            raise InputError("--settings is given without --rerun; give that as well")
    if arguments.jobs is not None and not arguments.jobs.removeprefix("-").isdecimal():
        raise InputError(f"jobs is {arguments.jobs!r}; give a whole number of at least 1")


def _rerun(figures: Sequence[Figure], store: Store, results: Path, arguments: Any) -> list[str]:
    """Carry out the experiments and store their results; return what was said about failed runs."""
    store.refuse_links()
    check_writable(results, "folder of the stored results", [f"{figure.name}.json" for figure in figures])
    said = []
    for figure in figures:
        outcomes = carry_out(
            figure.experiment,
            store,
            jobs=int(arguments.jobs or 1),
            cluster=arguments.cluster or "local",
            slurm=arguments.slurm,
            retry_failed=arguments.retry_failed,
            device=arguments.device or "cpu",
        )
        for sentence in sentences(outcomes, store):
            print(printable(f"{figure.name}: {sentence}"), file=sys.stderr)
            said.append(sentence)
        if not all(outcome.complete for outcome in outcomes):
            raise SystemExit(UNFINISHED)
        figure.collected(outcomes).write(results)
    return said


def status_table(figure: Figure, outcomes: Sequence[Outcome]) -> Table:
    """Return a table with a line for every run of a figure's experiment."""
    table = Table(
        title=f"{figure.name}: {len(outcomes)} runs", title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for column in ("run", "status", "measured", "why it failed"):
        table.add_column(column)
    for outcome in outcomes:
        status = "failed" if outcome.failure else "done" if outcome.complete else "begun"
        table.add_row(
            outcome.point.name,
            status if outcome.records or outcome.begun else "missing",
            ", ".join(outcome.values) or "-",
            printable(outcome.failure or ""),  # a cell cuts what becomes longer than it was measured
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
    group.add_argument(
        "--settings",
        metavar="FILE",
        help="JSON with settings for all runs, such as docs/examples/paper/s5.json; results go into "
        "--experiments",
    )
    add_allow_code_flag(group)
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
