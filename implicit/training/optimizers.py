"""The optimisers of training: AdamW, or Muon for the matrices between embedding and head; and their state.

The state becomes named tensors and JSON, where a tensor stands as ``{"tensor": its name}``, so that
safetensors can hold it. Parameters go by their names in the model, not by torch's numbers.
``torch.distributed.checkpoint.state_dict`` would take a training step where there is no state yet.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Muon, Optimizer

from automata.errors import InputError
from implicit.cells.parts import WindowConvolution
from implicit.config.run import TrainConfig


class MuonAndAdamW(Optimizer):
    """Muon for matrices, AdamW for all other parameters: one optimiser with the groups of both.

    The steps of Muon are scaled to the size of AdamW's (``match_rms_adamw``; Liu et al. 2025, arXiv
    2502.16982), which is meant to let one learning rate serve both. The betas are AdamW's. Source: Jordan et
    al. 2024, "Muon: An optimizer for hidden layers in neural networks".
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
        betas: tuple[float, float],
        weight_decay: float,
    ) -> None:
        self._parts: list[Optimizer] = [
            Muon(matrices, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
            AdamW(others, betas=betas, weight_decay=weight_decay),
        ]
        super().__init__([group for part in self._parts for group in part.param_groups], {})
        self._share()

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step of both; a closure is called once, before."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self._parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over groups and states."""
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Let both work on the groups and the state of this one."""
        begin = 0
        for part in self._parts:
            end = begin + len(part.param_groups)
            part.param_groups, part.state = self.param_groups[begin:end], self.state
            begin = end


def make_optimizer(config: TrainConfig, model: nn.Module) -> Optimizer:
    """Return the optimiser of a run.

    Muon takes the matrices that map features to features: parameters of two axes, but for embeddings, for
    short convolutions, whose channels are apart, and for the model's ``head``.
    """
    settings = config.optimizer
    if config.algorithm == "AdamW":
        return AdamW(model.parameters(), betas=settings.betas, weight_decay=settings.weight_decay)
    excluded = {
        id(parameter)
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding | WindowConvolution) or name == "head"
        for parameter in module.parameters()
    }
    matrices = [part for part in model.parameters() if part.ndim == 2 and id(part) not in excluded]
    if not matrices:
        raise InputError(f"algorithm is Muon, and {config.model} has no matrices for it; give AdamW")
    chosen = {id(part) for part in matrices}
    others = [part for part in model.parameters() if id(part) not in chosen]
    return MuonAndAdamW(matrices, others, settings.betas, settings.weight_decay)


_MEAN = "mean_of_weights"
"""Beside the moments of a parameter: the mean of its last values."""


@torch.no_grad()
def take_into_mean(optimizer: Optimizer, count: int, *, is_last: bool) -> None:
    """Take parameters into their means over ``count`` steps; at the last one they become these.

    Where the rate is still high, weights go around what they are learning, and their mean is nearer to it
    (Polyak & Juditsky 1992, "Acceleration of stochastic approximation by averaging"). Means are stored and
    restored with the optimiser's state. A parameter without a state has not moved, unless none has one.
    """
    moves_all = all({*state} <= {_MEAN} for state in optimizer.state.values())  # such as SGD without momentum
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if moves_all or optimizer.state.get(parameter):
                state = optimizer.state[parameter]
                mean = state[_MEAN] = parameter.lerp(state.get(_MEAN, parameter), 1 - 1 / count)
                if is_last:
                    parameter.copy_(mean)


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
    further = {
        key: _as_json(value, f"{PREFIX}{key}", tensors)
        for key, value in whole.items()
        if key not in ("state", "param_groups")
    }
    return tensors, {"class": _class(optimizer), "state": state, "param_groups": groups, "further": further}


def restore_optimizer(
    model: nn.Module,
    optimizer: Optimizer,
    tensors: Mapping[str, Tensor],
    description: Mapping[str, Any],
    *,
    configured: bool = False,
    averaging: bool = False,
) -> None:
    """Undo `describe_optimizer`, for an optimiser of the same class on a model with the same parameters.

    One that was ``configured``, by `make_optimizer`, takes moments and steps alone, means where it is
    ``averaging``, and keeps its options.
    """
    if description["class"] not in (_class(optimizer), type(optimizer).__qualname__):  # as it was stored once
        raise InputError(f"the optimiser was {description['class']}, not {_class(optimizer)}")
    names = _parameter_names(model, optimizer)
    numbers = {name: number for number, name in enumerate(names)}
    present = [
        [names[number] for number in group["params"]] for group in optimizer.state_dict()["param_groups"]
    ]
    stored = [group["params"] for group in description["param_groups"]]
    if present != stored:
        held, wanted = ("; ".join(", ".join(group) for group in groups) for groups in (stored, present))
        raise InputError(f"the optimiser's groups hold the parameters {held}, not {wanted}")

    unread = set(tensors)

    def tensor(name: str) -> Tensor:
        if name not in tensors:
            raise InputError(f"tensor {name!r} is missing")
        unread.discard(name)
        return tensors[name].clone()

    state = {numbers[name]: _from_json(values, tensor) for name, values in description["state"].items()}
    groups = [
        {**_from_json(group, tensor), "params": [numbers[name] for name in group["params"]]}
        for group in description["param_groups"]
    ]
    if configured:
        groups = optimizer.state_dict()["param_groups"]
        _check_moments(optimizer, state, averaging=averaging)
    further = _from_json(description.get("further", {}), tensor)
    if unread:
        raise InputError(f"tensor {min(unread)!r} is unexpected")
    optimizer.load_state_dict({"state": state, "param_groups": groups, **further})
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, values in state.items():  # torch casts them to the dtype of their parameter
        for key, value in values.items():
            held = optimizer.state[parameters[number]]
            if isinstance(value, Tensor) and isinstance(held.get(key), Tensor):
                held[key] = value.to(held[key].device)


_OF_STEPS = (torch.float32, torch.float64)  # the default dtype where the run began decides


def _check_moments(optimizer: Optimizer, state: Mapping[int, Any], *, averaging: bool) -> None:
    """Refuse another state than AdamW and Muon have of each parameter after a step, or none before."""
    mean = {_MEAN} if averaging else set()
    places = [
        (parameter, {"momentum_buffer"} if "momentum" in group else {"step", "exp_avg", "exp_avg_sq"})
        for group in optimizer.param_groups
        for parameter in group["params"]
    ]
    for number, held in state.items():
        parameter, names = places[number]
        if not isinstance(held, dict) or set(held) != names | mean:
            raise InputError(f"the state of a parameter does not hold {', '.join(sorted(names))} alone")
        for name, value in held.items():
            wanted = torch.empty(()) if name == "step" else parameter
            known = isinstance(value, Tensor) and value.shape == wanted.shape
            if not known or value.dtype not in (_OF_STEPS if name == "step" else (parameter.dtype,)):
                raise InputError(f"{name} is of another shape or dtype than that of its parameter")
            if name == "step" and value < 0:
                raise InputError(f"step is {value.item():g}; give at least 0")


def _class(optimizer: Optimizer) -> str:
    return f"{type(optimizer).__module__}.{type(optimizer).__qualname__}"


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
