"""One sentence for every kind of fault that pydantic reports."""

import pytest
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

from automata.errors import InputError
from implicit.checked_config import CheckedConfig, validated


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    width: PositiveInt
    pair: tuple[float, float] = (0.0, 1.0)
    rate: float = Field(default=0.5, le=1)
    name: str = "a"

    @field_validator("name")
    @classmethod
    def _lower(cls, name: str) -> str:
        if name.isupper():
            raise InputError(f"name is {name}; write it small")
        return name


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "width is missing; give a value for it"),
        ({"width": 0}, "width is 0; it should be greater than 0"),
        ({"width": ""}, "width is ''; give a whole number in digits, such as 1000"),
        ({"width": "3.5"}, "width is 3.5; give a whole number in digits"),
        ({"width": None}, "width is None; it should be a valid integer"),
        ({"width": 1, "rate": 2}, "rate is 2; it should be less than or equal to 1"),
        ({"width": 1, "rate": float("inf")}, "rate is inf; it should be a finite number"),
        ({"width": 1, "pair": [1]}, "pair[1] is missing; give a value for it"),
        ({"width": 1, "pair": [1, 2, 3]}, "pair is [1, 2, 3]; tuple should have at most 2 items"),
        ({"width": 1, "name": "B"}, "name is B; write it small"),
        ({"width": 1, "heigth": 2}, "field 'heigth' is unknown; known: name, pair, rate, width"),
        ({"width": "7\n" * 100}, "width is "),  # cut
    ],
)
def test_every_fault_is_a_sentence_of_one_line(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        validated(Options, values)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_valid_values_are_converted() -> None:
    assert validated(Options, {"width": "3", "pair": ["1", "2"]}) == Options(width=3, pair=(1.0, 2.0))


class Sizes(CheckedConfig):
    width: PositiveInt | None = None
    rate: float = Field(default=0.5, le=1)
    wide: bool = False
    names: str | PositiveInt = "bytes"


@pytest.mark.parametrize(("name", "value"), [("width", True), ("rate", False), ("names", True)])
def test_truth_is_no_number(name: str, value: bool) -> None:
    with pytest.raises(InputError, match=f"{name} is {value}; it should be a number"):
        Sizes(**{name: value})


def test_truth_is_taken_where_it_is_asked_for() -> None:
    assert Sizes(wide=True).wide
