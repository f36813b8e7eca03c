"""Checks of what callers give: kinds of objects, whole numbers and memory, each fault in one sentence."""

import inspect
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import wraps
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
import psutil

from automata.errors import InputError, unknown_name

Given = ParamSpec("Given")
Result = TypeVar("Result")
Named = TypeVar("Named", bound=Hashable)

_LONGEST_VALUE = 60
_PLAIN = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, type(None))
_PASS = (object, Any, np.ndarray, inspect.Parameter.empty)  # annotations that name no kind
_CALLED = {Mapping: "a dictionary", str: "a text", bool: "True or False"}
GIB = 2**30
_LITTLE = 2**16
"""Bytes that any machine has; asking how many it has takes longer than filling so few."""


def shown(value: object) -> str:
    """Return a value for a sentence: plain ones as written, cut to one short line; of others the type."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not isinstance(value, _PLAIN):
        return f"of type {type(value).__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def at_least(number: float, digits: int = 3) -> str:
    """Return a bound from below for reading, rounded down, so that nothing is added."""
    return _rounded(number, digits, ROUND_FLOOR)


def at_most(number: float, digits: int = 3) -> str:
    """Return a bound from above for reading, rounded up; one below 1 stays there.

    Example:
        >>> at_most(0.5004), at_most(0.5004, 2), at_most(0.99996, 2), at_least(1.1667, 2)
        ('0.501', '0.51', '0.99996', '1.1')
    """
    text = _rounded(number, digits, ROUND_CEILING)
    return at_most(number, digits + 1) if text == "1" and number < 1 else text


def _rounded(number: float, digits: int, rounding: str) -> str:
    return (
        f"{float(Context(prec=digits, rounding=rounding).create_decimal(Decimal(float(number)))):.{digits}g}"
    )


def repeated(values: Iterable[Named]) -> Named:
    """Return the first of the values that is there twice, in one pass; there has to be one."""
    seen: set[Named] = set()
    return next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]


def check_type(field: str, value: object, kinds: type | tuple[type, ...], remedy: str) -> None:
    """Refuse an object of another kind."""
    if not isinstance(value, kinds):
        raise InputError(f"{field} is {shown(value)}; {remedy}")


def check_integer(field: str, value: Any, least: int | None = None, most: int | None = None) -> int:
    """Return a value as an integer; NumPy's integers are taken as well."""
    try:
        if isinstance(value, bool) or _has_axes(value):  # these have an index as well
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{field} is {shown(value)}; give a whole number") from None
    if (least is not None and number < least) or (most is not None and number > most):
        wanted = f"at least {least}" if most is None else f"a number in {least} … {most}"
        raise InputError(f"{field} is {number}; give {wanted}")
    return number


def check_members(field: str, numbers: Iterable[int], count: int) -> None:
    """Refuse numbers that are not in 0 … count − 1."""
    for number in numbers:
        if not 0 <= number < count:
            raise InputError(f"{field} holds {number}; give numbers in 0 … {count - 1}")


def check_different(field: str, names: Sequence[Hashable]) -> None:
    """Refuse names of which one is there twice."""
    if len(set(names)) < len(names):
        raise InputError(f"{field} holds {repeated(names)!r} twice; name each once")


def check_share(field: str, value: object) -> float:
    """Return a value as a float; refuse what is not in [0, 1]."""
    if not 0 <= (number := check_number(field, value)) <= 1:
        raise InputError(f"{field} is {value}; give a number in [0, 1]")
    return number


def _has_axes(value: object) -> bool:
    """An array or tensor with axes, even if it holds one number."""
    return getattr(value, "ndim", 0) > 0


def check_number(field: str, value: object, *, finite: bool = False) -> float:
    """Return a value as a float; with ``finite``, refuse NaN and infinity."""
    if not isinstance(value, str | bytes) and not _has_axes(value):
        try:
            number = float(value)  # type: ignore[arg-type]
            if math.isfinite(number) or not finite:
                return number
        except (TypeError, ValueError, OverflowError):
            pass
    raise InputError(f"{field} is {shown(value)}; give a {'finite ' if finite else ''}number")


def by_known_names(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Refuse a call of a function, or of the constructor of a class, that does not fit its arguments.

    Example:
        >>> by_known_names(check_integer)("steps", 4, at_least=5)
        Traceback (most recent call last):
        automata.errors.InputError: argument of check_integer 'at_least' is unknown; did you mean 'least'? ...
    """
    if isinstance(function, type):
        function.__init__ = by_known_names(function.__init__)  # type: ignore[misc]
        return function
    signature = inspect.signature(function)
    known = [name for name in signature.parameters if name != "self"]

    @wraps(function)
    def with_known(*values: Given.args, **named: Given.kwargs) -> Result:
        called = type(values[0]) if function.__name__ == "__init__" else function
        for name in named:
            if name not in known:
                raise unknown_name(f"argument of {called.__name__}", name, known)
        try:
            signature.bind(*values, **named)
        except TypeError as error:
            raise InputError(f"{called.__name__}: {error}; it takes {', '.join(known)}") from None
        return function(*values, **named)

    return with_known


def checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Refuse arguments of a kind that their annotations do not name, before the function begins.

    Checked are whole numbers, numbers, texts, choices, classes, mappings, and the entries of sequences.
    Ranges are left to the function. Annotations that stand for no class, as those of arrays, pass. For a
    class its constructor is checked.
    """
    if isinstance(function, type):
        function.__init__ = checked(function.__init__)  # type: ignore[misc]
        return function
    signature = inspect.signature(function)

    @wraps(function)
    def with_checks(*values: Given.args, **named: Given.kwargs) -> Result:
        try:
            bound = signature.bind(*values, **named)
        except TypeError:
            return function(*values, **named)  # an unknown or missing argument
        for name, value in bound.arguments.items():
            parameter = signature.parameters[name]
            if parameter.kind is parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(_as_kind(name, entry, parameter.annotation) for entry in value)
            else:
                bound.arguments[name] = _as_kind(name, value, parameter.annotation)
        return function(*bound.args, **bound.kwargs)

    return with_checks


def _as_kind(field: str, value: Any, kind: Any) -> Any:
    """The value, refused if the annotation names kinds and it is of none of them."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        named = [part for part in parts if part is not type(None)]
        if value is None and len(named) < len(parts):
            return None
        if len(named) == 1:
            return _as_kind(field, value, named[0])
        if all(isinstance(part, type) for part in named):
            check_type(field, value, tuple(named), "give a " + " or a ".join(part.__name__ for part in named))
    elif origin is Literal:
        if not (isinstance(value, str) and value in parts):
            raise unknown_name(field, value, parts)
    elif origin is int:
        return check_integer(field, value)
    elif origin is float:
        number = check_number(field, value)
        return value if isinstance(value, int | float) else number
    elif origin is Hashable:
        try:
            hash(value)
        except TypeError:
            raise InputError(f"{field} holds {shown(value)}; give names, numbers or tuples") from None
    elif origin in (Sequence, Iterable):
        return _as_entries(field, value, parts[0] if parts else Any)
    elif origin is Callable:
        if not callable(value):
            raise InputError(f"{field} is {shown(value)}; give a function")
    elif isinstance(origin, type) and origin not in _PASS:
        check_type(
            field,
            value,
            (bool, np.bool_) if origin is bool else (origin,),
            f"give {_CALLED.get(origin, 'a ' + origin.__name__)}",
        )
        if origin is Mapping and parts:
            for name, entry in value.items():
                _as_kind(f"{field} of {shown(name)}", entry, parts[1])
    return value


def _as_entries(field: str, value: Any, kind: Any) -> Any:
    """Several values, each of which is checked."""
    try:
        entries = tuple(value)
    except TypeError:
        raise InputError(f"{field} is {shown(value)}; give a list") from None
    # names may be numbers, which are told apart as well
    kind = Hashable if kind is str or isinstance(kind, TypeVar) else kind
    for entry in entries:
        _as_kind(field, entry, kind)
    return value if isinstance(value, Sequence) else entries


def check_memory(what: str, needed: int, remedy: str, available: int | None = None) -> None:
    """Refuse what cannot fit into memory, before anything of it is allocated."""
    if available is None:
        if needed <= _LITTLE:
            return
        available = psutil.virtual_memory().available
    if needed > available:
        needed = min(needed, 2**1000)  # a float holds it
        raise InputError(
            f"{what} needs at least {needed / GIB:.1f} GiB of memory, and {available / GIB:.1f} GiB are "
            f"available; {remedy}"
        )
