"""Tasks and models as a configuration holds them: JSON that rebuilds them, and never the objects."""

import sys
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from automata.errors import InputError, unknown_name
from automata.tasks.interface import Specification
from automata.tasks.registry import LISTED, task_names
from automata.tasks.specification import TaskSource, is_pinned, specification_from_text, task_from
from implicit.models.interface import SequenceModel
from implicit.models.registry import A_MODEL, MODELS
from implicit_ssm import find_own_code

AnyModel = str | type[SequenceModel]
"""A name, ``module:name``, or the class itself."""


def task_specification(task: TaskSource) -> tuple[Specification, float | None]:
    """Return what rebuilds a task, and its hard fraction if it says one; it takes what `task_from` takes."""
    if isinstance(task, str):
        task = specification_from_text(task)
    if isinstance(task, str | dict):
        _check_importable("task", task if isinstance(task, str) else str(task.get("object")))
    if isinstance(task, str):
        if ":" not in task:
            if task not in task_names():
                raise unknown_name("task", task, task_names(), LISTED)
            return task, None
        task = {"object": task}
    if is_pinned(task):
        assert isinstance(task, dict)
        return dict(task), None  # its data need not be at hand until the task is built
    specification = task_from(task).specification()
    if isinstance(specification, str):
        return specification, None
    fraction = specification.pop("hard_fraction", None)
    return specification["name"] if set(specification) == {"name"} else specification, fraction


def named_code(values: Mapping[str, Any]) -> list[str]:
    """Return the names ``module:name`` that reading a configuration would import."""
    task, model = values.get("task"), values.get("model")
    if isinstance(task, str):
        task = specification_from_text(task)
    if isinstance(task, dict):
        task = str(task["object"]) if "object" in task else None
    return [name for name in (task, model) if isinstance(name, str) and ":" in name]


def check_allowed(source: str, values: Mapping[str, Any], allow_code: bool | Collection[str]) -> None:
    """Refuse a configuration that names code other than what is allowed: all of it, or these names."""
    for name in named_code(values):
        if allow_code is not True and (allow_code is False or name not in allow_code):
            raise InputError(
                f"{source} names code, {name}, which would be imported and called; "
                "if you trust it give --allow-code, in Python read_config(allow_code=True) or "
                "implicit.load_run(FOLDER, allow_code=True), which analysis.ask takes"
            )


def check_outside(name: str, folder: Path) -> None:
    """Refuse code that lies in a run folder, where whoever made the run can write it.

    The packages that the module of ``module:name`` is in are imported.
    """
    parts, within = name.partition(":")[0].split("."), folder.resolve()
    find_own_code()
    for count in range(1, len(parts) + 1):
        try:
            spec = find_spec(".".join(parts[:count]))
        except (ImportError, ValueError):
            return  # it cannot be imported, which is said where that is tried
        if spec is None:
            return
        places = [spec.origin] if spec.has_location else spec.submodule_search_locations or []
        if any(Path(place).resolve().is_relative_to(within) for place in places if place):
            raise InputError(f"code {name} lies in the run folder {folder}; move it to a folder of your own")


def model_name(model: AnyModel) -> str:
    """Return the name that rebuilds a model: that of the registry, or ``module:name``."""
    if isinstance(model, str):
        _check_importable("model", model)
        return model
    if not (isinstance(model, type) and issubclass(model, SequenceModel)):
        raise InputError(f"model is {model!r}; give a name, module:name or a subclass of {A_MODEL}")
    if model in MODELS.values():
        return model.name
    if "." in model.__qualname__:
        raise InputError(
            f"model is {model.__qualname__}, which stands in a function or a class; "
            "define it at the top level of a module, so that it can be imported"
        )
    name = f"{model.__module__}:{model.__qualname__}"
    _check_importable("model", name)
    found = getattr(sys.modules.get(model.__module__), model.__qualname__, None)
    # A reloaded module holds a new object of the same name.
    if (getattr(found, "__module__", None), getattr(found, "__qualname__", None)) != tuple(name.split(":")):
        raise InputError(f"model is {name}, where another object stands or none; give the class found there")
    return name


def _check_importable(field: str, name: str) -> None:
    """Refuse code of a script, a notebook or a console: the run could be loaded by no other process."""
    if name.partition(":")[0] in ("__main__", "__mp_main__"):
        raise InputError(
            f"{field} is {name}, which no other process can import; "
            "move it from the script or notebook to a module of its own, and import it from there"
        )
