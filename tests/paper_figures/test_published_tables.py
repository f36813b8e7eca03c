"""Published tables: the numbers are those of the documents, averages are means, and faults are refused.

The numbers are written out here a second time, from the documents, and the files are read as plain JSON where
an average is computed: the reader is not used to say what has to be there.
"""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
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
    "repl_traces": [
        ("gated DeltaNet [-1,1]", 1.0),
        ("gated DeltaNet [0,1]", 0.223),
        ("Transformer", 0.230),
    ],
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
    columns = [column.name for column in table.columns]
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


def test_averages_are_offered_with_their_means() -> None:
    table = read_table("downstream")
    for (number, published, mean), row in zip(table.averages(), plain("downstream")["rows"], strict=True):
        given = [
            value for value in map(row.get, table.average.of if table.average else ()) if value is not None
        ]
        assert published == float(row["average"])
        assert mean == pytest.approx(float(sum(given) / len(given)), rel=1e-15)
        assert table.rows[number - 1]["printed"] == row["printed"]
    assert list(read_table("mamba3").averages()) == []


def test_a_row_is_found_by_its_values() -> None:
    table = read_table("downstream")
    with pytest.raises(InputError, match="published table downstream: 8 rows have size 760M"):
        table.row(size="760M")
    with pytest.raises(InputError, match="0 rows have family Llama, size 7B"):
        table.row(family="Llama", size="7B")
    with pytest.raises(InputError, match="column 'varaint' is unknown; did you mean 'variant'"):
        table.row(varaint="free")
    with pytest.raises(InputError, match="column 'varaint' is unknown; did you mean 'variant'"):
        table.values("varaint")


def tiny() -> dict[str, Any]:
    return {
        "name": "tiny",
        "title": "Tiny",
        "source": {
            "authors": ["One", "Two"],
            "year": 2020,
            "arxiv": "2001.00001",
            "document": "a paper",
            "place": "table 1",
            "read": "document",
        },
        "columns": [
            {"name": "model", "unit": "name", "meaning": "the model"},
            {"name": "one", "unit": "share", "meaning": "accuracy"},
            {"name": "other", "unit": "share", "meaning": "accuracy"},
            {"name": "average", "unit": "share", "meaning": "their mean"},
        ],
        "rows": [
            {"model": "a", "one": 0.5, "other": 0.7, "average": 0.6},
            {"model": "b", "one": 0.5, "other": None, "average": 0.5},
        ],
        "average": {
            "column": "average",
            "of": ["one", "other"],
            "tolerance": 0.001,
            "because": "three places",
        },
        "remarks": [],
    }


def write(folder: Path, content: Any, name: str = "tiny") -> None:
    (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def test_a_table_that_is_right_is_read(tmp_path: Path) -> None:
    write(tmp_path, tiny())
    table = read_table("tiny", tmp_path)
    assert table.source.cited == "One and Two 2020, arXiv 2001.00001"
    assert list(table.averages()) == [(1, 0.6, 0.6), (2, 0.5, 0.5)]
    assert table.row(model="b")["other"] is None


def test_an_average_that_is_no_mean_has_to_say_so(tmp_path: Path) -> None:
    content = tiny()
    content["rows"][0]["average"] = 0.602
    write(tmp_path, content)
    with pytest.raises(InputError, match=r"row 1: average is 0.602, the mean of its columns 0.6; correct"):
        read_table("tiny", tmp_path)
    content["rows"][0]["remark"] = "the average is not the mean of the two"
    write(tmp_path, content)
    assert next(read_table("tiny", tmp_path).averages()) == (1, 0.602, 0.6)


def change(place: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Set a value at a path such as ``rows.0.one``."""

    def changed(content: Any) -> None:
        *path, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
        for part in path:
            content = content[part]
        content[last] = value

    return changed


def without(place: str) -> Callable[[dict[str, Any]], None]:
    def changed(content: Any) -> None:
        *path, last = [int(part) if part.isdecimal() else part for part in place.split(".")]
        for part in path:
            content = content[part]
        del content[last]

    return changed


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "no source": (without("source"), "source is missing; give a value"),
    "no year": (without("source.year"), "source.year is missing"),
    "a year of two digits": (change("source.year", 25), "source.year is 25; it should be greater"),
    "no number of arXiv": (change("source.arxiv", "none"), "source.arxiv is none"),
    "no authors": (change("source.authors", []), "source.authors is "),
    "read somehow": (change("source.read", "maybe"), "source.read is maybe"),
    "no unit": (without("columns.1.unit"), "columns.1.unit is missing"),
    "no meaning": (change("columns.1.meaning", ""), "columns.1.meaning is "),
    "unknown unit": (change("columns.1.unit", "dozen"), "columns.1.unit is dozen"),
    "unknown field": (change("sources", {}), "field 'sources' is unknown; did you mean 'source'"),
    "a column twice": (change("columns.1.name", "other"), "column 'other' is there twice; rename it"),
    "a column of remarks": (change("columns.1.name", "remark"), "column 'remark' is reserved"),
    "no rows": (change("rows", []), "rows is "),
    "a row lacks a value": (without("rows.1.one"), "row 2 lacks one; give its value, or null"),
    "a row has more": (change("rows.1.onne", 1), "row 2: column 'onne' is unknown; did you mean 'one'"),
    "text as number": (change("rows.0.one", "0.5"), "row 1: one is '0.5'; give a number, or null"),
    "a truth as number": (change("rows.0.one", True), "row 1: one is True; give a number"),
    "no finite number": (change("rows.0.one", float("nan")), "row 1: one is nan; give a number"),
    "percent as share": (change("rows.0.one", 50.0), "row 1: one is 50.0; a share is from 0 to 1"),
    "no name": (change("rows.0.model", None), "row 1: model is None; give a name"),
    "an empty name": (change("rows.0.model", ""), "row 1: model is ''; give a name"),
    "a remark that is none": (change("rows.0.remark", 1), "row 1: remark is 1; give text, or leave it out"),
    "average of what is not there": (change("average.of", ["won"]), "column 'won' is unknown"),
    "average of names": (change("average.of", ["model"]), "column model of the average holds names"),
    "no tolerance": (change("average.tolerance", 0), "average.tolerance is 0; it should be greater than 0"),
    "another name": (change("name", "big"), "name is big; name the file and the table alike"),
}


@pytest.mark.parametrize(("fault", "sentence"), FAULTS.values(), ids=FAULTS)
def test_refuses_a_table_with_a_fault(
    fault: Callable[[dict[str, Any]], None], sentence: str, tmp_path: Path
) -> None:
    content = tiny()
    fault(content)
    write(tmp_path, content)
    with pytest.raises(InputError) as raised:
        read_table("tiny", tmp_path)
    said = str(raised.value)
    assert said.startswith("published table tiny: ")
    assert sentence in said
    assert "\n" not in said


def test_refuses_what_is_no_table(tmp_path: Path) -> None:
    write(tmp_path, [1, 2])
    (tmp_path / "half.json").write_text('{"name": ', encoding="utf-8")
    with pytest.raises(
        InputError, match=r"published table tiny: PublishedTable is \[1, 2\]; give the values by name"
    ):
        read_table("tiny", tmp_path)
    with pytest.raises(InputError, match=r"half\.json is not valid JSON"):
        read_table("half", tmp_path)
    with pytest.raises(InputError, match="published table 'tinny' is unknown; did you mean 'tiny'"):
        read_table("tinny", tmp_path)
