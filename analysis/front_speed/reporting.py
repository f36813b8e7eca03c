"""The speeds of fronts in the terminal."""

import numpy as np
from rich.table import Table

from analysis.front_speed.measurement import FrontSpeedAnalysis


def tables(found: FrontSpeedAnalysis) -> list[Table | str]:
    """Return a line for every run, and the findings, for the terminal.

    Example:
        >>> from analysis.front_speed.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=1, length=8, walls=4, window=8)
        >>> [column.header for column in tables(found)[0].columns]
        ['run', 'measured', 'from walls', 'from derivatives']
    """
    table = Table(title="speed of the front, in tokens per sweep", title_justify="left")
    table.add_column("run", overflow="fold")
    for heading in ("measured", "from walls", "from derivatives"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in found.runs:
        table.add_row(
            each.run.name,
            f"{each.measured.speed:.3f} ± {each.measured.error:.3f}",
            f"{each.wall.speed:.3f} ± {each.wall.error:.3f}",
            "no front" if np.isinf(each.linear) else f"{each.linear:.2f}",
        )
    return [table, *(f"{each.run.name}: {each.sentence}" for each in found.runs)]
