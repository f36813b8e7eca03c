"""What `analysis.error_control` says in the terminal."""

from rich.table import Table

from analysis.error_control.following import median
from analysis.error_control.measurement import NOT_A_BOUND, ErrorControlAnalysis
from analysis.framework.terminal import number


def tables(*found: ErrorControlAnalysis) -> list[Table | str]:
    """Return a line for every run and the findings, for the terminal.

    Example:
        >>> from analysis.error_control.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=8, length=16, block=8, pairs=4, follow=16)
        >>> table = tables(found)[0]
        >>> [column.header for column in table.columns][:4], list(table.columns[-1].cells)
        (['run', 'q', 'predicted', 'failed'], ['corrected'])
    """
    table = Table(title="error control", title_justify="left")
    table.add_column("run", overflow="fold")
    for heading in ("q", "predicted", "failed", "gain", "left"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("errors are")
    for result in found:
        gains, horizon, failure = result.followed.gains, result.horizon, result.spread.failure
        sign = "~" if horizon.how == "extrapolated" else ""
        table.add_row(
            result.run.name,
            number(result.spread.upper[-1]),
            "–" if horizon.length is None else f"{sign}{horizon.length:.0f}",
            "–" if failure is None else f"{failure:.0f}",
            "–" if gains is None else number(median(gains.within)),
            number(result.left),
            result.verdict,
        )
    meaning = (
        "q: what 90% of the visits stay below, in the last block; predicted: tokens after which that reaches "
        "its limit (~: extrapolated); failed: tokens after which accuracy was below 90%; gain: of words that "
        "return two states, on a small error along their difference; left: of the smallest error after the "
        "last token that was followed (1 for an affine layer)"
    )
    return [table, meaning, *(f"{result.run.name}: {result.sentence}." for result in found), NOT_A_BOUND]
