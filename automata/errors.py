"""The one exception for what a caller can mend."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """A fault in what the caller gave, told in one sentence: the field, its value, and the remedy.

    Every package raises it for bad input, and every command turns it into that sentence on standard error
    and exit code 2.

    Example:
        >>> try:
        ...     raise InputError("length is 0; give a length of at least 1")
        ... except ValueError as error:
        ...     print(error)
        length is 0; give a length of at least 1
    """


def unknown_name(field: str, value: object, known: Iterable[str]) -> InputError:
    """Return the error for a name that is not in a registry, with the nearest known name if one is near.

    Args:
        field: what the name stands for, such as ``"task"``.
        value: the name that was given; what is no text is near to none.
        known: the names that exist.

    Example:
        >>> print(unknown_name("task", "partiy", ["parity", "S5"]))
        task 'partiy' is unknown; did you mean 'parity'? Known: S5, parity
        >>> print(unknown_name("task", "zzz", ["parity", "S5"]))
        task 'zzz' is unknown; known: S5, parity
    """
    names = sorted(known)
    near = get_close_matches(value, names, n=1) if isinstance(value, str) else []
    if not near and isinstance(value, str):  # difflib is case-sensitive: 's5' is near to 'S5' for a person
        folded = {name.casefold(): name for name in names}
        near = [folded[match] for match in get_close_matches(value.casefold(), folded, n=1)]
    said = repr(value) if isinstance(value, str) else " ".join(repr(value).split())[:60]
    if near:
        return InputError(f"{field} {said} is unknown; did you mean {near[0]!r}? Known: {', '.join(names)}")
    return InputError(f"{field} {said} is unknown; known: {', '.join(names)}")
