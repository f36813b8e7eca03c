"""What `analysis.extraction` says in the terminal."""

from rich.table import Table

from analysis.extraction.measurement import ExtractionAnalysis


def tables(*found: ExtractionAnalysis) -> list[Table | str]:
    """Return a line for every run and the findings, for the terminal.

    Example:
        >>> from analysis.extraction.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=8, length=8, fresh_words=4, times=1)
        >>> table = tables(found)[0]
        >>> [list(column.cells)[0] for column in table.columns]
        ['parity', '2', '0.00%', '100.00%', '100.00%', '–', 'equivalent']
    """
    table = Table(title="automata behind the models", title_justify="left")
    table.add_column("run", overflow="fold")
    for heading in ("states", "against", "fidelity", "longest", "departs"):
        table.add_column(heading, justify="right")
    table.add_column("verdict", no_wrap=True)
    for result in found:
        machine, departs = result.extraction.machine, result.departs_after
        table.add_row(
            result.run.name,
            "–" if machine is None else str(machine.state_count),
            f"{result.extraction.inconsistent:.2%}",
            f"{result.fidelity(result.length):.2%}",
            f"{result.fidelity(result.agrees.shape[1]):.2%}",
            "–" if departs is None else str(departs),
            result.verdict,
        )
    meaning = (
        "against: votes against the majority; fidelity: tokens of fresh words at which model and automaton "
        "agree, of the length of the sequences and of the longest; departs: tokens after which they do less "
        "than demanded"
    )
    unconverged = [
        f"{result.run.name}: {1 - result.share_converged:.2%} of the tokens that were read have no converged "
        "fixed point, and later ones rest on them; raise max_iterations or loosen rtol"
        for result in found
        if result.share_converged < 1
    ]
    return [table, meaning, *(f"{result.run.name}: {result.sentence}" for result in found), *unconverged]
