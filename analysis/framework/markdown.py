"""Pieces of Markdown that the sections of a report are made of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_ENTITIES = {
    ord(letter): f"&{name};" for letter, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ("[", "#91"))
}


def without_html(value: Any) -> Any:
    """Return JSON whose names and texts are shown as they are: none begins an element, a link or code.

    Example:
        >>> without_html({"<script>": [1, "a < b"]})
        {'&lt;script&gt;': [1, 'a &lt; b']}
    """
    if isinstance(value, Mapping):
        return {without_html(name): without_html(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_html(part) for part in value]
    return value.translate(_ENTITIES) if isinstance(value, str) else value


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a table; bars inside of cells are escaped.

    Example:
        >>> print(table(["run", "norm"], [["one", "|J|"]]))
        | run | norm |
        | --- | --- |
        | one | \|J\| |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def shown(value: float | None) -> str:
    """Return a number with three digits, a whole number with all, and a dash where there is none.

    Example:
        >>> shown(0.12345), shown(12345), shown(None)
        ('0.123', '12345', '–')
    """
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


def red(sentence: str) -> str:
    """Return a sentence, given without its full stop, in red; some viewers drop the colour: the mark stays.

    Example:
        >>> red("The modes differ")
        '<span style="color:#c00000">🔴 **The modes differ.**</span>'
    """
    return f'<span style="color:#c00000">🔴 **{sentence}.**</span>'
