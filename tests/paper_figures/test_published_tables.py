"""Published tables: averages are means, values fit their columns, and secondary numbers are called that.

The files are read as plain JSON where an average is computed: the reader is not used to say what has to be
there.
"""

import json
from decimal import Decimal
from typing import Any

import pytest

from paper_figures.published_tables import TABLES, read_table

every = pytest.mark.parametrize("name", sorted(path.stem for path in TABLES.glob("*.json")))

HALF_A_PLACE = Decimal("0.00005")
"""The slides print four places."""


def plain(name: str) -> Any:
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"), parse_float=Decimal)


@every
def test_secondary_numbers_are_called_that(name: str) -> None:
    table = read_table(name)
    assert table.source["read"] in ("document", "digest", "secondary")
    for words in (table.cited, table.short):
        assert ("(secondary)" in words) == (table.source["read"] == "secondary")
    assert table.source["arxiv"] in table.cited


def test_every_published_average_is_the_mean_of_its_accuracies() -> None:
    """To half a unit in the last place for its rounding, and as much again for that of the accuracies."""
    content = plain("downstream")
    tasks = ("lambada", "hellaswag", "piqa", "arc_easy", "arc_challenge", "winogrande", "openbookqa")
    assert content["average"]["of"] == list(tasks)
    assert content["average"]["tolerance"] == 2 * HALF_A_PLACE
    for row in content["rows"]:
        given = [row[task] for task in tasks if row[task] is not None]
        assert abs(row["average"] - sum(given) / len(given)) <= HALF_A_PLACE + HALF_A_PLACE
        assert (len(given) == 6) == ("six" in row.get("remark", ""))


@every
def test_every_value_has_a_column_and_fits_its_unit(name: str) -> None:
    content = plain(name)
    units = {column["name"]: column["unit"] for column in content["columns"]}
    assert all(column["meaning"] for column in content["columns"])
    for row in content["rows"]:
        assert row.keys() - {"remark"} == units.keys()
        for column, unit in units.items():
            assert isinstance(row[column], str if unit == "name" else int | Decimal | None)
            assert unit != "share" or row[column] is None or 0 <= row[column] <= 1
