"""Published tables: the numbers are those of the documents, and averages are means.

The numbers are written out here a second time, from the documents, and the files are read as plain JSON where
an average is computed: the reader is not used to say what has to be there.
"""

import json
from decimal import Decimal
from typing import Any

import pytest

from automata.errors import InputError
from paper_figures.published_tables import TABLES, read_table, table_names

SLIDES = {  # D-Pile and LAMBADA perplexity and average accuracy, each of explicit, bounded, free
    ("Llama", "760M"): ((8.88, 8.27, 7.90), (5.77, 5.15, 4.82), (0.5307, 0.5481, 0.5535)),
    ("Llama", "1.3B"): ((7.99, 7.66, 7.24), (4.95, 4.40, 4.24), (0.5589, 0.5801, 0.5892)),
    ("Mamba-2", "760M"): ((8.98, 8.60, 8.35), (6.24, 6.15, 5.90), (0.5262, 0.5295, 0.5365)),
    ("Mamba-2", "1.3B"): ((8.28, 7.97, 7.70), (5.12, 5.21, 4.99), (0.5531, 0.5555, 0.5620)),
}
NEIGHBOURS: dict[str, list[tuple[Any, ...]]] = {  # the values of the rows, in the order of the columns
    "regular_languages": [
        ("LSTM", 100),
        ("PD-SSM", 98.8),
        ("DeltaProduct [-1,1]", 79.5),
        ("DeltaNet [-1,1]", 77.1),
        ("Mamba", 60.8),
        ("Transformer", 47.7),
    ],
    "mamba3": [
        ("Mamba-3", 100, 98.5, 87.8),
        ("gated DeltaNet [-1,1]", 100, 99.3, 93.5),
        ("Mamba-2", 0.9, 47.8, 0.9),
        ("Mamba-3 without rotation", 2.3, 1.5, 0.7),
    ],
    "error_control": [
        ("Mamba", None, None),
        ("Mamba-3", None, 60),
        ("Mamba, negative eigenvalues", 100, 200),
        ("tanh RNN", 1000, 1000),
    ],
    "catbabi_fixed_point": [
        ("Mamba", 1, 78.3, 78.3),
        ("Mamba", 2, 87.1, 87.1),
        ("Mamba", 4, 86.5, 86.5),
        ("FP-Mamba", 1, 80.8, 81.6),
        ("FP-Mamba", 2, 87.5, 89.6),
    ],
    "catbabi_fast_weights": [
        ("AWD-LSTM", 80.88, 80.15),
        ("Transformer-XL", 87.66, 90.23),
        ("MNM", 88.97, 69.3),
        ("FWM", 96.75, 93.04),
    ],
    "repl_traces": [("gated DeltaNet [-1,1]", 1.0), ("gated DeltaNet [0,1]", 0.223), ("Transformer", 0.230)],
}
READ = {
    "downstream": ("document", "2502.07827"),
    "regular_languages": ("digest", "2509.22284"),
    "mamba3": ("digest", "2603.15569"),
    "catbabi_fixed_point": ("digest", "2503.10799"),
    "repl_traces": ("digest", "2604.03444"),
    "error_control": ("secondary", "2605.07755"),
    "catbabi_fast_weights": ("secondary", "2011.07831"),
    "single_numbers": ("secondary", "2502.07827"),
}
"""How the numbers of every table were read, and the paper that they are of."""

HALF_A_PLACE = Decimal("0.00005")
"""The slides print four places."""


def plain(name: str) -> Any:
    return json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"), parse_float=Decimal)


def test_every_table_is_read_and_says_how_its_numbers_were() -> None:
    assert set(table_names()) == set(READ)
    for name, (read, arxiv) in READ.items():
        table = read_table(name)
        assert (table.source.read, table.source.arxiv) == (read, arxiv)
        assert ("(secondary)" in table.source.cited) == ("(secondary)" in table.source.short)
        assert ("(secondary)" in table.source.cited) == (read == "secondary")
        assert arxiv in table.source.cited


def test_the_models_of_the_slides_have_their_numbers() -> None:
    table = read_table("downstream")
    assert len(table.rows) == 16
    for (family, size), (pile, lambada, averages) in SLIDES.items():
        rows = [
            table.row(family=family, size=size, variant=variant, data="D-Pile")
            for variant in ("explicit", "bounded", "free")
        ]
        assert tuple(row["d_pile_perplexity"] for row in rows) == pile
        assert tuple(row["lambada_perplexity"] for row in rows) == lambada
        assert tuple(row["average"] for row in rows) == averages
        steps = 32 if family == "Llama" else 24
        counts = [(row["self_iterations"], row["phantom_steps"]) for row in rows]
        assert counts == [(None, None), (4, 1), (steps, 4)]
        assert {row["tokens"] for row in rows} == {207}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_neighbours_are_those_of_the_digest(name: str) -> None:
    table = read_table(name)
    columns = [column["name"] for column in table.columns]
    assert [tuple(row[column] for column in columns) for row in table.rows] == NEIGHBOURS[name]


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


def test_a_row_is_found_by_its_values() -> None:
    table = read_table("downstream")
    for size, count in (("760M", 8), ("7B", 0)):
        with pytest.raises(InputError, match=f"published table downstream: {count} rows have size {size}"):
            table.row(size=size)
    with pytest.raises(InputError, match="published table 'mamba' is unknown; did you mean 'mamba3'"):
        read_table("mamba")


@pytest.mark.parametrize("name", table_names())
def test_every_value_has_a_column_and_fits_its_unit(name: str) -> None:
    content = plain(name)
    units = {column["name"]: column["unit"] for column in content["columns"]}
    assert all(column["meaning"] for column in content["columns"])
    for row in content["rows"]:
        assert row.keys() - {"remark"} == units.keys()
        for column, unit in units.items():
            assert isinstance(row[column], str if unit == "name" else int | Decimal | None)
            assert unit != "share" or row[column] is None or 0 <= row[column] <= 1
