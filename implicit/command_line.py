"""The frame of commands about runs. Their flags come from configurations."""

import argparse
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from automata.command_line import BAD_INPUT, Parser
from automata.command_line import exit_code as run_command
from automata.errors import InputError

__all__ = ["BAD_INPUT", "CommandParser", "add_config_flags", "given_fields", "read_number", "run_command"]

Number = TypeVar("Number", int, float)
_ALIASES = {"learning_rate": ("--lr",)}
"""Short names that flags are known by everywhere."""
_USUAL_NAMES = {
    "--steps": ("--epochs", "--iterations", "--max-steps"),
    "--batch-size": ("--bs",),
    "--d-model": ("--hidden-size", "--hidden", "--dim"),
    "--layers": ("--num-layers", "--n-layers"),
    "--length": ("--seq-len", "--sequence-length"),
    "--out": ("--output", "--output-dir"),
    "--weight-decay": ("--wd",),
    "--warmup-steps": ("--warmup",),
    "--algorithm": ("--optimizer",),
    "--gradient-clip": ("--clip",),
    "--task": ("--dataset",),
    "--threads": ("--num-threads",),
}
"""Flags, and the names that other programs have for them."""
_PLACEHOLDERS = {int: "N", float: "X", str: "NAME"}


class CommandParser(Parser):
    """A parser that names the nearest flag to an unknown one."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, or raise the first fault: a missing or unknown argument, or a missing value."""
        parsed, extra = self.parse_known_args(args, namespace)
        if extra:
            unknown = extra[0].split("=")[0]
            if not unknown.startswith("-"):
                raise InputError(f"argument {unknown!r} is one too many; --help shows what is taken")
            known = self._option_string_actions
            usual = [flag for flag, others in _USUAL_NAMES.items() if unknown in others and flag in known]
            near = usual or get_close_matches(unknown, known, n=1)
            hint = f"the nearest is {near[0]}, and --help shows all" if near else "--help shows all"
            raise InputError(f"flag {unknown} is unknown; {hint}")
        return parsed


def add_config_flags(
    parser: argparse.ArgumentParser, fields: Mapping[str, FieldInfo] | type[BaseModel], *, title: str
) -> None:
    """Add a flag for every field: ``--field-name``, with help from the field's description and default.

    The values stay text until pydantic reads them, so that a fault is told in one place; `given_fields`
    collects them. ``none`` is the value of an optional field that is not set.
    """
    fields = fields if isinstance(fields, Mapping) else fields.model_fields
    group = parser.add_argument_group(title)
    for name, field in fields.items():
        flags = "--" + name.replace("_", "-"), *_ALIASES.get(name, ())
        group.add_argument(*flags, dest=name, default=argparse.SUPPRESS, help=_help(field), **_kind(field))


def add_allow_code_flag(parser: argparse._ActionsContainer) -> None:
    """Add ``--allow-code``, by which a user says that code which a file names may be imported."""
    parser.add_argument(
        "--allow-code",
        action="store_true",
        help="import and call what a run folder or settings file names as module:name; only if you trust it",
    )


def given_fields(
    arguments: argparse.Namespace, fields: Mapping[str, FieldInfo] | type[BaseModel]
) -> dict[str, Any]:
    """Return the fields that flags of `add_config_flags` were given for, as text for pydantic to read."""
    fields = fields if isinstance(fields, Mapping) else fields.model_fields
    return {
        name: None
        if getattr(arguments, name) == "none" and _allows_none(field.annotation)
        else getattr(arguments, name)
        for name, field in fields.items()
        if hasattr(arguments, name)
    }


def read_number(field: str, text: Any, kind: Callable[[Any], Number]) -> Number:
    """Return the number that a flag was given as, by `int` or `float`."""
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"{field} is {text!r}; give a {'whole ' * (kind is int)}number") from None


def _help(field: FieldInfo) -> str:
    default = (
        "" if field.is_required() else f" (default: {_shown(field.get_default(call_default_factory=True))})"
    )
    return f"{field.description or ''}{default}".replace("%", "%%")


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return " ".join(str(part) for part in default) or "none"
    return "none" if default is None else str(default)


def _kind(field: FieldInfo) -> dict[str, Any]:
    """The action, number and placeholder of a field's values."""
    kind = _plain_type(field.annotation)
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction}
    if get_origin(kind) is Literal:
        return {"metavar": "|".join(map(str, get_args(kind)))}
    if get_origin(kind) is tuple:
        return {"nargs": "+", "metavar": _PLACEHOLDERS.get(_plain_type(get_args(kind)[0]), "VALUE")}
    return {"metavar": _PLACEHOLDERS.get(kind, "VALUE")}


def _plain_type(annotation: Any) -> Any:
    """The type of a field without its constraints and without None."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    if _allows_none(annotation):
        return _plain_type(next(kind for kind in get_args(annotation) if kind is not type(None)))
    return annotation


def _allows_none(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType) and type(None) in get_args(annotation)
