"""The state of any optimiser of torch as named tensors and JSON, so that safetensors can hold it.

It goes through ``Optimizer.state_dict`` and ``Optimizer.load_state_dict``. A parameter without state (frozen,
without a gradient so far, or of an optimiser that keeps none) has none here either, and comes back without.
``torch.distributed.checkpoint.state_dict`` is not used because it takes a training step with zero gradients
where there is no state yet, which changes what it saves.

A parameter is known by its name in the model; torch numbers them, and would mix up the states of parameters
that changed places. In the JSON, a tensor stands as ``{"tensor": its name}``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from automata.errors import InputError

PREFIX = "optimizer."


def describe_optimizer(model: nn.Module, optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors of an optimiser's state by name, and the rest of it as JSON that names them."""
    names = _parameter_names(model, optimizer)
    whole = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    state = {
        names[number]: _as_json(values, f"{PREFIX}{names[number]}", tensors)
        for number, values in whole["state"].items()
    }
    groups = [
        {
            **{
                option: _as_json(value, f"{PREFIX}group{number}.{option}", tensors)
                for option, value in group.items()
                if option != "params"
            },
            "params": [names[parameter] for parameter in group["params"]],
        }
        for number, group in enumerate(whole["param_groups"])
    ]
    return tensors, {"class": type(optimizer).__qualname__, "state": state, "param_groups": groups}


def restore_optimizer(
    model: nn.Module, optimizer: Optimizer, tensors: Mapping[str, Tensor], description: Mapping[str, Any]
) -> None:
    """Undo `describe_optimizer`, for an optimiser of the same class on a model with the same parameters."""
    if description["class"] != type(optimizer).__qualname__:
        raise InputError(f"the optimiser was {description['class']}, not {type(optimizer).__qualname__}")
    names = _parameter_names(model, optimizer)
    numbers = {name: number for number, name in enumerate(names)}
    present = [
        [names[number] for number in group["params"]] for group in optimizer.state_dict()["param_groups"]
    ]
    stored = [group["params"] for group in description["param_groups"]]
    if present != stored:
        held, wanted = ("; ".join(", ".join(group) for group in groups) for groups in (stored, present))
        raise InputError(f"the optimiser's groups hold the parameters {held}, not {wanted}")

    def tensor(name: str) -> Tensor:
        if name not in tensors:
            raise InputError(f"tensor {name!r} is missing")
        return tensors[name].clone()

    optimizer.load_state_dict(
        {
            "state": {
                numbers[name]: _from_json(values, tensor) for name, values in description["state"].items()
            },
            "param_groups": [
                {**_from_json(group, tensor), "params": [numbers[name] for name in group["params"]]}
                for group in description["param_groups"]
            ],
        }
    )


def _parameter_names(model: nn.Module, optimizer: Optimizer) -> list[str]:
    """The name of every parameter of an optimiser, in its order; a tied one has the first of its names."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if any(id(parameter) not in names for parameter in parameters):
        raise InputError("the optimiser holds a parameter that is not the model's; give it the model's only")
    return [names[id(parameter)] for parameter in parameters]


def _as_json(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The value with each tensor in it put into ``tensors`` and replaced by its name."""
    if isinstance(value, Tensor):
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, dict):
        if "tensor" in value or "tuple" in value or not all(isinstance(key, str) for key in value):
            raise InputError(f"{name} has keys {list(value)}, which a checkpoint does not hold")
        return {key: _as_json(part, f"{name}.{key}", tensors) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts = [_as_json(part, f"{name}.{number}", tensors) for number, part in enumerate(value)]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{name} is of the class {type(value).__qualname__}, which a checkpoint does not hold")


def _from_json(value: Any, tensor: Callable[[str], Tensor]) -> Any:
    """Undo `_as_json`."""
    if isinstance(value, dict):
        if set(value) == {"tensor"}:
            return tensor(value["tensor"])
        if set(value) == {"tuple"}:
            return tuple(_from_json(part, tensor) for part in value["tuple"])
        return {key: _from_json(part, tensor) for key, part in value.items()}
    if isinstance(value, list):
        return [_from_json(part, tensor) for part in value]
    return value
