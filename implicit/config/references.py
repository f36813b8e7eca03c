"""Tasks and models as a configuration holds them: JSON that rebuilds them, and never the objects."""

from collections.abc import Mapping

from automata.errors import InputError
from automata.tasks.interface import Specification, Task
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS

AnyTask = Specification | Task
"""A name, ``module:name``, a specification, or the task itself."""

AnyModel = str | type[SequenceModel]
"""A name, ``module:name``, or the class itself."""


def task_specification(task: AnyTask) -> Specification:
    """Return what rebuilds a task.

    Args:
        task: the name of a task, ``module:name`` of one of your own, a specification, or a `Task`.

    Raises:
        InputError: for a task that nothing rebuilds, and for what is no task.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> task_specification("parity"), task_specification("my_tasks:repetition")
        ('parity', {'object': 'my_tasks:repetition'})
        >>> task_specification(make_task("S5", hard_fraction=0.5))
        {'name': 'S5', 'hard_fraction': 0.5}
    """
    if isinstance(task, Task):
        return task.specification()
    if isinstance(task, str):
        return {"object": task} if ":" in task else task
    if isinstance(task, Mapping):
        return dict(task)
    raise InputError(f"task is {task!r}; give a name, module:name, a specification (a JSON object) or a Task")


def without_fraction(task: Specification) -> tuple[Specification, float | None]:
    """Split the specification of a named task into its name and its hard fraction.

    Example:
        >>> without_fraction({"name": "S5", "hard_fraction": 0.5}), without_fraction({"object": "a:b"})
        (('S5', 0.5), ({'object': 'a:b'}, None))
    """
    if isinstance(task, dict) and "name" in task and set(task) <= {"name", "hard_fraction"}:
        return task["name"], task.get("hard_fraction")
    return task, None


def model_name(model: AnyModel) -> str:
    """Return the name that rebuilds a model: that of the registry, or ``module:name``.

    Raises:
        InputError: for a class that cannot be imported by a name, and for what is no model.

    Example:
        >>> from implicit import LSTM
        >>> model_name("lstm"), model_name(LSTM)
        ('lstm', 'lstm')
        >>> class Mine(LSTM):
        ...     name = "mine"
        >>> Mine.__module__ = "my_models"
        >>> model_name(Mine)
        'my_models:Mine'
    """
    if isinstance(model, str):
        return model
    if not (isinstance(model, type) and issubclass(model, SequenceModel)):
        raise InputError(f"model is {model!r}; give a name, module:name or a subclass of SequenceModel")
    if model in MODELS.values():
        return model.name
    if "." in model.__qualname__:
        raise InputError(
            f"model is {model.__qualname__}, which stands in a function or a class; "
            "define it at the top level of a module, so that it can be imported"
        )
    return f"{model.__module__}:{model.__qualname__}"
