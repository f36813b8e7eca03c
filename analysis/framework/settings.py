"""Settings of analyses: which sequences are looked at, and settings from keyword arguments."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from automata.checks import check_type
from automata.errors import InputError
from implicit.checked_config import CheckedConfig, validated
from implicit.runs.loading import Run

Settings = TypeVar("Settings", bound=BaseModel)

_LENGTHS = {"length", "lengths", "states_length", "mode_length"}
"""Settings that say how many tokens the sequences of a task have."""


class AnalysisSettings(CheckedConfig):
    """Settings that nothing changes, of known names and finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class SampleSettings(AnalysisSettings):
    """The settings of most analyses: which sequences of the task they look at.

    Example:
        >>> SampleSettings(length=128)
        SampleSettings(sequences=16, length=128, seed=0)
    """

    sequences: PositiveInt = Field(default=16, description="sequences of the task that are looked at")
    length: PositiveInt = Field(default=64, description="tokens per sequence")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences and of all random starts")


def fitted(settings: Settings, runs: Iterable[Run]) -> Settings:
    """Return settings whose lengths, where they are the defaults, are no longer than the tasks' sequences.

    InputError if the sequences are shorter than an analysis takes.
    """
    longest = min((run.task.longest for run in runs if run.task.longest is not None), default=None)
    if longest is None:
        return settings
    changed: dict[str, Any] = {}
    for name in _LENGTHS & {*type(settings).model_fields} - settings.model_fields_set:
        value = getattr(settings, name)
        if isinstance(value, tuple):
            changed[name] = tuple(dict.fromkeys(min(length, longest) for length in value))
        elif value is not None:
            changed[name] = min(value, longest)
    return validated(type(settings), {**settings.model_dump(), **changed}) if changed else settings


def settings_from(
    settings: type[Settings], values: Mapping[str, Any], given: Settings | None = None
) -> Settings:
    """Return the settings that were given, or those made from keyword arguments, for calls from notebooks.

    InputError for the first fault, naming the setting, its value and the remedy.

    Example:
        >>> settings_from(SampleSettings, {"length": 0})
        Traceback (most recent call last):
        automata.errors.InputError: length is 0; it should be greater than 0
    """
    if given is None:
        return validated(settings, values, field="setting")
    check_type("settings", given, settings, f"give {settings.__name__}(...) or keyword arguments")
    if values:
        first = next(iter(values))
        raise InputError(f"{first} is given beside settings; put it into {settings.__name__}(...)")
    return given
