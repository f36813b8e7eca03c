"""The command ``python -m analysis.one_fixed_point`` and what it prints."""

from rich.table import Table

from analysis.framework.analysis import RunAnalysis
from analysis.framework.needs import FIXED_POINTS
from analysis.one_fixed_point.proof import OneFixedPointAnalysis, OneFixedPointSettings, analyse


def tables(found: OneFixedPointAnalysis) -> list[Table | str]:
    """Return the pairs and the finding, for the terminal.

    Example:
        >>> import numpy as np
        >>> from analysis import all_lengths
        >>> from analysis.framework.output import RunIdentity
        >>> from implicit.runs.loading import load_run
        >>> nothing = all_lengths.analyse(load_run("parity-small"), sets=100)
        >>> run, none = RunIdentity.of(load_run("parity-small")), np.zeros(0, dtype=np.int64)
        >>> tables(OneFixedPointAnalysis(run, OneFixedPointSettings(), nothing, none, {}))[1][:51]
        'nothing is proved: of the sets, nothing is proved: '
    """
    table = Table(title=found.run.title, title_justify="left")
    for name in ("group", "sets", "token", "cells", "parts", "one fixed point"):
        table.add_column(name, justify="right")
    for pair in found.numbers()["pairs"]:
        cells = [pair["group"], pair["sets"], pair["token"], f"{pair['cells']:,}", pair["parts"]]
        table.add_row(*map(str, cells), "proved" if pair["proved"] else "not proved")
    return [table, found.sentence]


ANALYSIS = RunAnalysis(
    name="one_fixed_point",
    question="Has every word of every length just one fixed point, wherever it is sought? A long proof.",
    description="Prove that words of every length have exactly one fixed point, with all latents free.",
    settings=OneFixedPointSettings,
    measure=analyse,
    measure_resumed=analyse,
    draw=None,
    tables=tables,
    needs=FIXED_POINTS,
)
main = ANALYSIS.main
