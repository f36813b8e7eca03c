"""The decision of a figure: a claim, and the rule by which the stored runs judge it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from paper_figures.rows import Chosen, Rows, chosen_rows

Word = Literal["reproduced", "partly", "not reproduced", "published"]
"""How a claim fares; ``published`` marks numbers of others, which nothing here measured."""

IMPLICIT_ARE_RNNS = "Schöne et al. 2025, arXiv 2502.07827"
CODE_AND_LINEAR_RNNS = "Siems et al. 2026, arXiv 2602.14814"
SLIDES = "slides of the talk on Schöne et al. 2025"
OURS = "asked by this toolkit, 2026"


@dataclass(frozen=True)
class Verdict:
    """How a claim fares."""

    word: Word  # the verdict
    because: str  # the numbers that it rests on, in a clause

    def __str__(self) -> str:
        """Word and reason."""
        return f"{self.word}: {self.because}"


def as_published(_: Rows) -> Verdict:
    """Return the verdict on numbers of others, which nothing here measured."""
    return Verdict("published", "as its authors print it; nothing was run here")


@dataclass(frozen=True)
class Claim:
    """A claim and its rule."""

    statement: str  # what is claimed, in our words
    source: str  # who claims it
    rule: Callable[[Rows], Verdict]  # judges the rows of a figure, and its numbers that belong to no run


def graded(everywhere: bool, somewhere: bool, because: str) -> Verdict:
    """Return the verdict on a claim that the runs show everywhere, somewhere only, or nowhere."""
    return Verdict("not reproduced" if not somewhere else "reproduced" if everywhere else "partly", because)


def verdict(shown: int, of: int, because: str, *, also: bool = True) -> Verdict:
    """Return the verdict on a count of runs: all, none, or some.

    ``also`` is a further condition, without which the claim is reproduced in part at best.
    """
    return graded(shown >= of and also, shown > 0, because)


def counts(reached: Mapping[str, tuple[int, int]]) -> str:
    """Return counts in words; many rows of which no run counts are told together.

    Example:
        >>> counts({"LSTM": (3, 3), "GRU": (0, 3)})
        'LSTM 3 of 3; GRU 0 of 3'
        >>> counts({"LSTM": (3, 3), "GRU": (0, 3), "Elman": (0, 3), "PD-SSM": (0, 2)})
        'LSTM 3 of 3; the others 0 of 8'
    """
    none = {name: of for name, (count, of) in reached.items() if not count}
    told = {name: pair for name, pair in reached.items() if len(none) <= 2 or name not in none}
    if len(none) > 2:
        told["the others" if told else "all"] = (0, sum(none.values()))
    return "; ".join(f"{name} {count} of {of}" for name, (count, of) in told.items()) or "no runs"


@dataclass(frozen=True)
class ShareOfRuns:
    """Enough runs of one row reach a value, and no run of the controls does.

    Reproduced if the share ``reproduced`` of the row's runs reach it and no control does; not reproduced if
    no run of the row does; partly otherwise. A run that failed does not reach it.
    """

    value: str  # path of the value
    least: float  # that a run has to reach
    row: Chosen  # label of the row, or a test of rows
    reproduced: float = 1.0  # share of the row's runs
    # rows of which no run may reach it
    controls: Chosen = lambda row: False  # noqa: ARG005
    at: str = ""  # where the value was taken, for the sentence, such as "512 tokens"

    def __call__(self, rows: Rows) -> Verdict:
        """Judge the rows."""
        reached = {row.label: (row.reaching(self.value, self.least), row.of) for row in rows}
        chosen = [reached[row.label] for row in chosen_rows(rows, self.row)]
        shown, of = (sum(part) for part in zip(*chosen, strict=True)) if chosen else (0, 0)
        where = f" at {self.at}" if self.at else ""
        return verdict(
            shown,
            round(self.reproduced * of),
            f"at least {self.least:g}{where}: {counts(reached)}",
            also=not any(reached[row.label][0] for row in chosen_rows(rows, self.controls)),
        )
