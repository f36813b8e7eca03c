"""A file of settings, such as those of a paper: flat fields of the configuration, and sizes by model."""

from pathlib import Path
from typing import Any

from automata.errors import InputError
from implicit.runs.files import read_json


def read_settings(path: Path) -> dict[str, Any]:
    """Read settings: a JSON object of flat fields, with ``sizes`` an object of sizes by model."""
    if not path.is_file():
        raise InputError(f"settings is {path}, which is not there; give a JSON file, such as that of a paper")
    found = read_json(path)
    sizes = found.get("sizes", {}) if isinstance(found, dict) else None
    if not isinstance(sizes, dict) or not all(isinstance(entry, dict) for entry in sizes.values()):
        raise InputError(f"settings in {path} are of another form; give an object of fields, sizes by model")
    return dict(found)
