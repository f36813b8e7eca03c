"""An extension of griffe, which reads docstrings for the site: sections as this project calls them."""

import re
from typing import Any

import griffe


class Sections(griffe.Extension):
    """Call ``Example:`` and ``Class attributes:`` what griffe's reader of Google docstrings calls them."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the sections of an object's docstring."""
        if obj.docstring is not None:
            text = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
            text = re.sub(r"^Class attributes:$", "Attributes:", text, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"^Source:\n +", "**Source:** ", text, flags=re.MULTILINE)
