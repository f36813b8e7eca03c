"""Configurations checked by pydantic, with every fault told as one sentence."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from automata.errors import InputError, unknown_name

Config = TypeVar("Config", bound=BaseModel)

_LONGEST_VALUE = 60


def validated(
    config_class: type[Config],
    values: Mapping[str, Any],
    *,
    field: str = "field",
    known: Iterable[str] | None = None,
) -> Config:
    """Return the configuration, or raise the first fault as one sentence.

    Args:
        config_class: a pydantic model that forbids unknown fields.
        values: what the caller gave.
        field: what an unknown name is called in the sentence.
        known: the names offered for an unknown one; all fields of the class if None.

    Raises:
        InputError: naming the field, its value and what it should be.

    Example:
        >>> from pydantic import ConfigDict, PositiveInt
        >>> class Sizes(BaseModel):
        ...     model_config = ConfigDict(extra="forbid")
        ...     width: PositiveInt
        >>> validated(Sizes, {"width": 3})
        Sizes(width=3)
        >>> validated(Sizes, {"width": 0})
        Traceback (most recent call last):
        automata.errors.InputError: width is 0; it should be greater than 0
        >>> validated(Sizes, {"width": 3, "widht": 4})
        Traceback (most recent call last):
        automata.errors.InputError: field 'widht' is unknown; did you mean 'width'? Known: width
    """
    try:
        return config_class.model_validate(dict(values))
    except ValidationError as error:
        fault = error.errors()[0]
    location = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        raise unknown_name(field, location, known or config_class.model_fields)
    if fault["type"] == "missing":
        raise InputError(f"{location} is missing; give a value for it")
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        raise cause
    message = fault["msg"].removeprefix("Input ").rstrip(".")
    message = f"it {message}" if message != fault["msg"] else message[0].lower() + message[1:]
    raise InputError(f"{location} is {_shown(fault['input'])}; {message}")


def _shown(value: object) -> str:
    """The value on one line, at a length that a sentence bears; text without quotes, as on a command line."""
    text = value if isinstance(value, str) and value.isprintable() and value.strip() else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
