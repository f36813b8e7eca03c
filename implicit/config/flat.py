"""Nested configurations under names of one level, as flags and overrides have them.

``TrainConfig`` holds a curriculum, which has ``bounded_steps``; on the command line that is
``--bounded-steps``, and in Python ``recipe(..., bounded_steps=10)``. Both forms name the same field.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Place = tuple[str, ...]
"""The names that lead to a field: ``("curriculum", "bounded_steps")``."""


def groups(config_class: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Return the fields that are configurations themselves."""
    return {
        name: field.annotation
        for name, field in config_class.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }


def flat_places(config_class: type[BaseModel]) -> dict[str, Place]:
    """Return where each field stands, by its flat name: those of the class first, then group by group."""
    inner = groups(config_class)
    places: dict[str, Place] = {
        _flat_name(name, field): (name,)
        for name, field in config_class.model_fields.items()
        if name not in inner
    }
    for group, group_class in inner.items():
        for name, field in group_class.model_fields.items():
            places[_flat_name(name, field)] = (group, name)
    return places


def flat_fields(config_class: type[BaseModel], group: str | None = None) -> dict[str, FieldInfo]:
    """Return the fields by their flat names: of one group, or those that are in none."""
    inner = groups(config_class)
    fields = config_class.model_fields if group is None else inner[group].model_fields
    return {
        _flat_name(name, field): field
        for name, field in fields.items()
        if group is not None or name not in inner
    }


def nest(config_class: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each flat name in its place; a flat one wins over that of its group.

    Unknown names stay where they are, for the check of the configuration to refuse.
    """
    inner, places = groups(config_class), flat_places(config_class)
    nested: dict[str, Any] = {}
    for group in inner:
        if group in values:
            given = values[group]
            nested[group] = given.model_dump() if isinstance(given, BaseModel) else given
    for name, value in values.items():
        place = places.get(name, (name,))
        if len(place) == 1:
            nested.setdefault(name, value)
        else:
            group, field = place
            held = nested.get(group, {})
            if isinstance(held, Mapping):
                nested[group] = {**held, field: value}
    return nested


def flatten(config_class: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Undo `nest`: return the values of a nested configuration that are there by their flat names."""
    flat = {}
    for name, (*group, field) in flat_places(config_class).items():
        held = values.get(group[0], {}) if group else values
        if field in held:
            flat[name] = held[field]
    return flat


def _flat_name(name: str, field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra["flat_name"]) if isinstance(extra, dict) and "flat_name" in extra else name
