"""The one exception for what a caller can mend, and warnings that point at the caller's line."""

import re
import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from types import FrameType


class InputError(ValueError):
    """A fault in what the caller gave, told in one sentence: the field, its value, and the remedy.

    Every package raises it for bad input, and every command turns it into that sentence on standard error
    and exit code 2. Invisible characters stand there escaped: names and texts may be a stranger's.

    Example:
        >>> print(InputError("length is 0; give a length of at least 1"))
        length is 0; give a length of at least 1
        >>> print(InputError("name is \u202etxet; give another"))
        name is \u202etxet; give another
    """

    def __init__(self, sentence: str = "") -> None:
        super().__init__(printable(sentence.replace("\n", " ")))


_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters that Python counts as printable and that fonts show as nothing: fillers and selectors."""


def printable(text: object) -> str:
    """Return a text with all that is no visible letter or space escaped; a name may be a stranger's."""
    return "".join(
        letter if letter.isprintable() and not _BLANK.match(letter) else ascii(letter)[1:-1]
        for letter in str(text)
    )


def printable_lines(text: str) -> str:
    """Return a text of several lines, each of them printable."""
    return "\n".join(map(printable, text.split("\n")))


def unknown_name(field: str, value: object, known: Iterable[str], listed: str = "") -> InputError:
    """Return the error for a name that is not in a registry, with the nearest known name if one is near.

    Args:
        field: what the name stands for, such as ``"task"``.
        value: the name that was given; what is no text is near to none.
        known: the names that exist.
        listed: the sentence that says where all of them are listed, if they are many; in place of them the
            nearest stand.

    Example:
        >>> print(unknown_name("task", "partiy", ["parity", "S5"]))
        task 'partiy' is unknown; did you mean 'parity'? Known: S5, parity
        >>> names = [f"Z{order}" for order in range(2, 99)]
        >>> print(unknown_name("task", "Z100", names, "names() lists all"))
        task 'Z100' is unknown; did you mean 'Z10'? names() lists all
    """
    names = sorted(known)
    most = 3 if listed else 1
    near = get_close_matches(value, names, n=most) if isinstance(value, str) else []
    if not near and isinstance(value, str):  # difflib is case-sensitive: 's5' is near to 'S5' for a person
        folded = {name.casefold(): name for name in names}
        near = [folded[match] for match in get_close_matches(value.casefold(), folded, n=most)]
    said = repr(value) if isinstance(value, str) else " ".join(repr(value).split())[:60]
    everything = ", ".join(names)
    if near:
        meant = " or ".join(filter(None, (", ".join(map(repr, near[:-1])), repr(near[-1]))))
        return InputError(
            f"{field} {said} is unknown; did you mean {meant}? {listed or f'Known: {everything}'}"
        )
    return InputError(f"{field} {said} is unknown; {listed or f'known: {everything}'}")


_OURS = frozenset(
    ("automata", "theory", "implicit", "analysis", "paper_figures", "torch", "contextlib", "transformers")
)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, in one sentence, at the innermost line that is neither of these packages nor of PyTorch."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in _OURS:
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )
