"""Numbers that others published, with their source: one JSON file per table, checked on reading.

They are facts and figures as their authors print them; nothing of them was measured here.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from automata.errors import InputError, unknown_name
from implicit.checked_config import CheckedConfig, validated
from implicit.runs.files import read_json

TABLES = Path(__file__).parent / "published"
"""The tables that come with the package."""

Unit = Literal["name", "count", "billion", "length", "share", "percent", "perplexity", "number"]
LIMITS: dict[str, tuple[float, float]] = {
    "count": (0, math.inf),
    "billion": (0, math.inf),
    "length": (1, math.inf),
    "share": (0, 1),
    "percent": (0, 100),
    "perplexity": (1, math.inf),
    "number": (-math.inf, math.inf),
}
"""The smallest and the largest value of every unit; a name is text."""

REMARK = "remark"
"""What a row may have beside its columns."""


class _Part(CheckedConfig):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Source(_Part):
    """Who published a table, and where it was read.

    Attributes:
        authors: family names.
        year: of publication.
        arxiv: number of the paper that the document is, or is about.
        document: in which the table stands.
        place: of the table in the document.
        read: ``document`` if the numbers were read there, ``digest`` if a digest made from the document gives
            them, ``secondary`` if only somebody else's note does.

    Example:
        >>> read_table("error_control").source.cited
        'Chung et al. 2026, arXiv 2605.07755 (secondary)'
    """

    authors: tuple[str, ...] = Field(min_length=1)
    year: int = Field(ge=1900, le=2100)
    arxiv: str = Field(pattern=r"^\d{4}\.\d{5}$")
    document: str = Field(min_length=1)
    place: str = Field(min_length=1)
    read: Literal["document", "digest", "secondary"]

    @property
    def short(self) -> str:
        """Authors and year, and that the numbers are secondary if they are."""
        return self._marked("")

    @property
    def cited(self) -> str:
        """The same with the number of the paper."""
        return self._marked(f", arXiv {self.arxiv}")

    def _marked(self, number: str) -> str:
        authors = " and ".join(self.authors) if len(self.authors) < 3 else f"{self.authors[0]} et al."
        return f"{authors} {self.year}{number}{' (secondary)' if self.read == 'secondary' else ''}"


class Column(_Part):
    """A column: its name in the rows, its unit, and what its values mean.

    Example:
        >>> read_table("mamba3").columns[1].unit
        'percent'
    """

    name: str = Field(min_length=1)
    unit: Unit
    meaning: str = Field(min_length=1)


class Average(_Part):
    """Which column is the mean of which, and how far rounding may take the two apart.

    Example:
        >>> read_table("downstream").average.tolerance
        0.0001
    """

    column: str
    of: tuple[str, ...] = Field(min_length=1)
    tolerance: float = Field(gt=0)
    because: str = Field(min_length=1)


class PublishedTable(_Part):
    """A published table.

    A row has a value for every column, None where the source gives none, and may have a ``remark``. Where an
    average is published whose columns are there, it has to be their mean within the tolerance, or the row's
    remark says that it is not.

    Attributes:
        name: of the table and its file.
        title: what it shows, in a line.
        source: who published it.
        columns: in the order of the rows.
        rows: values by column.
        average: the column that can be computed from others, if there is one.
        remarks: on the whole table.

    Example:
        >>> table = read_table("regular_languages")
        >>> table.source.short, [row["model"] for row in table.rows][:2], table.values("accuracy")[:2]
        ('Terzić et al. 2025', ['LSTM', 'PD-SSM'], [100.0, 98.8])
    """

    name: str = Field(min_length=1)
    title: str = Field(min_length=1)
    source: Source
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[dict[str, Any], ...] = Field(min_length=1)
    average: Average | None
    remarks: tuple[str, ...]

    def values(self, column: str) -> list[Any]:
        """Return a column, one value per row.

        Raises:
            InputError: for an unknown column.
        """
        self._check_known(column)
        return [row[column] for row in self.rows]

    def row(self, **where: Any) -> Mapping[str, Any]:
        """Return the one row with these values.

        Raises:
            InputError: for an unknown column, or if no row or several have them.

        Example:
            >>> read_table("catbabi_fixed_point").row(model="FP-Mamba", layers=2)["highest"]
            89.6
        """
        for column in where:
            self._check_known(column)
        found = [row for row in self.rows if where.items() <= row.items()]
        if len(found) != 1:
            words = ", ".join(f"{column} {value}" for column, value in where.items())
            raise InputError(
                f"published table {self.name}: {len(found)} rows have {words}; give what one has"
            )
        return found[0]

    def averages(self) -> Iterator[tuple[int, float, float]]:
        """Yield for every row with a published average its number from 1, that average, and the mean.

        Example:
            >>> number, published, mean = next(read_table("downstream").averages())
            >>> number, published, round(mean, 5)
            (1, 0.5274, 0.52737)
        """
        if self.average is None:
            return
        for number, row in enumerate(self.rows, start=1):
            given = [row[column] for column in self.average.of if row[column] is not None]
            if given and row[self.average.column] is not None:
                yield number, row[self.average.column], math.fsum(given) / len(given)

    @model_validator(mode="after")
    def _check(self) -> "PublishedTable":
        names = [column.name for column in self.columns]
        for name in names:
            if names.count(name) > 1 or name == REMARK:
                raise InputError(
                    f"column {name!r} is {'reserved' if name == REMARK else 'there twice'}; rename it"
                )
        for number, row in enumerate(self.rows, start=1):
            self._check_row(f"row {number}", row)
        if self.average is not None:
            self._check_average(self.average)
        return self

    def _check_row(self, place: str, row: Mapping[str, Any]) -> None:
        names = [column.name for column in self.columns]
        for name in row:
            if name not in (*names, REMARK):
                raise unknown_name(f"{place}: column", name, names)
        for column in self.columns:
            if column.name not in row:
                raise InputError(
                    f"{place} lacks {column.name}; give its value, or null if the source has none"
                )
            _check_value(f"{place}: {column.name}", row[column.name], column.unit)
        if not isinstance(row.get(REMARK, ""), str):
            raise InputError(f"{place}: {REMARK} is {row[REMARK]!r}; give text, or leave it out")

    def _check_average(self, average: Average) -> None:
        units = {column.name: column.unit for column in self.columns}
        for name in (average.column, *average.of):
            self._check_known(name)
            if units[name] == "name":
                raise InputError(f"column {name} of the average holds names; give columns of numbers")
        for number, published, mean in self.averages():
            if abs(published - mean) > average.tolerance and REMARK not in self.rows[number - 1]:
                raise InputError(
                    f"row {number}: {average.column} is {published:g}, the mean of its columns {mean:.6g}; "
                    f"correct the row, or say so in its {REMARK}"
                )

    def _check_known(self, column: str) -> None:
        names = [known.name for known in self.columns]
        if column not in names:
            raise unknown_name("column", column, names)


def _check_value(place: str, value: Any, unit: str) -> None:
    """Refuse what is no value of the unit; None is one of each, except of a name."""
    if unit == "name":
        if not isinstance(value, str) or not value:
            raise InputError(f"{place} is {value!r}; give a name")
        return
    if value is None:
        return
    low, high = LIMITS[unit]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{place} is {value!r}; give a number, or null if the source has none")
    if not low <= value <= high:
        raise InputError(f"{place} is {value!r}; a {unit} is from {low:g} to {high:g}")


def read_table(name: str, folder: Path = TABLES) -> PublishedTable:
    """Read a published table.

    Raises:
        InputError: for an unknown name, a file that is not JSON, or the first fault of the table.

    Example:
        >>> read_table("downstream").row(family="Llama", size="1.3B", variant="free")["average"]
        0.5892
        >>> read_table("downsteam")
        Traceback (most recent call last):
        automata.errors.InputError: published table 'downsteam' is unknown; did you mean 'downstream'? ...
    """
    known = table_names(folder)
    if name not in known:
        raise unknown_name("published table", name, known)
    content = read_json(folder / f"{name}.json")
    try:
        table = validated(PublishedTable, content)
    except InputError as error:
        raise InputError(f"published table {name}: {error}") from None
    if table.name != name:
        raise InputError(f"published table {name}: name is {table.name}; name the file and the table alike")
    return table


def table_names(folder: Path = TABLES) -> list[str]:
    """Return the names of all published tables.

    Example:
        >>> "downstream" in table_names()
        True
    """
    return sorted(path.stem for path in folder.glob("*.json"))
