"""Configurations checked by pydantic, with every fault told as one sentence."""

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from automata.checks import check_type, shown
from automata.errors import InputError, unknown_name

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)  # pydantic does not export it

Config = TypeVar("Config", bound=BaseModel)


def validated(
    config_class: type[Config],
    values: Mapping[str, Any],
    *,
    field: str = "field",
    known: Iterable[str] | None = None,
    names: Mapping[tuple[str, ...], str] | None = None,
) -> Config:
    """Return the configuration, or raise the first fault as one sentence with the field and its value.

    The sentence calls an unknown name a ``field``, offers those ``known`` (all of the class if None), and
    calls a field of an inner configuration by ``names``, else ``outer.inner``.
    """
    check_type(f"{config_class.__name__}", values, Mapping, "give the values by name, in a dictionary")
    try:
        return config_class.model_validate(dict(values))
    except ValidationError as error:
        raise _sentence(config_class, error, field, known, names or {}) from None


class _OneSentence(ModelMetaclass):
    """Lets a constructor tell its first fault as `validated` does."""

    def __call__(cls, *args: Any, **values: Any) -> Any:  # noqa: N805 (what is called is the class)
        try:
            return super().__call__(*args, **values)
        except ValidationError as error:
            raise _sentence(cast("type[BaseModel]", cls), error, "field", None, {}) from None


class CheckedConfig(BaseModel, metaclass=_OneSentence):
    """A frozen configuration without unknown fields, whose faults are an `InputError` of one sentence."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse true where a number is asked for, which pydantic takes for 1: YAML reads ``yes`` so."""
        if isinstance(value, bool) and info.field_name is not None:
            kinds = _kinds(cls.model_fields[info.field_name].annotation)
            if bool not in kinds and kinds & {int, float}:
                raise PydanticCustomError("number", "Input should be a number")
        return value


def _kinds(annotation: Any) -> set[Any]:
    """The types of a field's values, without containers, constraints and None."""
    if get_origin(annotation) in (Union, UnionType):
        return set().union(*map(_kinds, get_args(annotation)))
    return _kinds(get_args(annotation)[0]) if get_origin(annotation) is Annotated else {annotation}


def _sentence(
    config_class: type[BaseModel],
    error: ValidationError,
    field: str,
    known: Iterable[str] | None,
    names: Mapping[tuple[str, ...], str],
) -> InputError:
    """The first fault as an error that names the field, its value and what it should be."""
    fault = error.errors()[0]
    place = tuple(str(part) for part in fault["loc"])
    location = _called(place, names)
    if fault["type"] == "extra_forbidden":
        offered = known if known is not None and len(place) == 1 else _beside(config_class, place)
        return unknown_name(field, location, offered)
    if fault["type"] == "missing":
        return InputError(f"{location} is missing; give a value for it")
    cause = fault.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return cause
    message = fault["msg"].removeprefix("Input ").rstrip(".")
    message = f"it {message}" if message != fault["msg"] else message[0].lower() + message[1:]
    if fault["type"] == "int_parsing":
        message = "give a whole number in digits, such as 1000"
    elif fault["type"] in ("tuple_type", "list_type"):
        message = "give a list, such as [64]"
    return InputError(f"{location} is {_shown(fault['input'])}; {message}")


def _called(place: tuple[str, ...], names: Mapping[tuple[str, ...], str]) -> str:
    """Return the caller's name of a place: its longest part that has a name, and the rest after dots."""
    for count in range(len(place), 0, -1):
        if place[:count] in names:
            place = names[place[:count]], *place[count:]
            break
    return "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in place).removeprefix(".")


def _beside(config_class: type[BaseModel], place: tuple[str, ...]) -> list[str]:
    """The fields known where an unknown one stands."""
    for part in place[:-1]:
        field = config_class.model_fields.get(part)
        inner = None if field is None else field.annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        config_class = inner
    return [".".join([*place[:-1], name]) for name in config_class.model_fields]


def _shown(value: object) -> str:
    """The value on one line, at a length that a sentence bears; text without quotes, as on a command line."""
    text = isinstance(value, str) and value.isprintable() and value.strip() and len(value) <= 60
    return str(value) if text else shown(value)
