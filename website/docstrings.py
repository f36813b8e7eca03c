"""An extension of griffe, which reads docstrings for the site: sections as this project calls them."""

import re
from typing import Any

import griffe


class Sections(griffe.Extension):
    """Call ``Example:`` and ``Class attributes:`` what griffe's reader of Google docstrings calls them.

    The comments beside or above the fields of a class become their descriptions.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the sections of an object's docstring."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            text = re.sub(r"^Class attributes:$", "Attributes:", text, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^Source:\n +", "**Source:** ", text, flags=re.MULTILINE)

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Describe a field of a class that has no docstring by the comment beside or above it."""
        file, first = attr.filepath, attr.lineno
        if attr.docstring is not None or attr.parent is None or not attr.parent.is_class:
            return
        if first is None or isinstance(file, list):
            return
        text, above = "", attr.lines_collection[file][: first - 1]
        while above and above[-1].strip().startswith("# "):
            text = f"{above.pop().strip().removeprefix('# ')} {text}".strip()
        if "  # " in attr.source:
            text = attr.source.rpartition("  # ")[2]
        if text:
            attr.docstring = griffe.Docstring(f"{text[:1].upper()}{text[1:]}.", parent=attr)
