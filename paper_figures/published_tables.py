"""Numbers that others published, with their source: one JSON file per table; nothing was measured here."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from implicit.runs.files import read_json

TABLES = Path(__file__).parent / "published"


@dataclass(frozen=True)
class PublishedTable:
    """A published table."""

    name: str  # of the table and its file
    title: str  # what it shows, in a line
    # authors (family names), year, arxiv (number of the paper), document and place of the table in it; read:
    # `document` if the numbers were read there, `digest` if a digest made from it gives them, `secondary` if
    # only somebody else's note does
    source: Mapping[str, Any]
    columns: list[Mapping[str, str]]  # name, unit and meaning of each
    rows: list[Mapping[str, Any]]  # values by column, None where the source gives none; may have a remark
    average: Mapping[str, Any] | None  # which column is the mean of which, and what rounding may do to it
    remarks: list[str]  # on the whole table

    @property
    def short(self) -> str:
        """Authors and year, and that the numbers are secondary if they are."""
        return self.cited.replace(f", arXiv {self.source['arxiv']}", "")

    @property
    def cited(self) -> str:
        """The same with the number of the paper."""
        names = self.source["authors"]
        authors = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
        secondary = " (secondary)" if self.source["read"] == "secondary" else ""
        return f"{authors} {self.source['year']}, arXiv {self.source['arxiv']}{secondary}"

    def values(self, column: str) -> list[Any]:
        """Return a column, one value per row."""
        return [row[column] for row in self.rows]

    def row(self, **where: Any) -> Mapping[str, Any]:
        """Return the one row with these values."""
        (found,) = (row for row in self.rows if where.items() <= row.items())
        return found


def read_table(name: str) -> PublishedTable:
    """Read a published table.

    Example:
        >>> read_table("mamba3").row(model="Mamba-3")["modular_arithmetic"]
        98.5
    """
    return PublishedTable(**read_json(TABLES / f"{name}.json"))
