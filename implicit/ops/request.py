"""What a call of an op is, as far as it decides who can run it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from automata.errors import InputError


class Request(Protocol):
    """What decides who can run a call; each op adds what its backends ask about.

    Example:
        >>> from types import SimpleNamespace
        >>> request: Request = SimpleNamespace(device="cpu")
    """

    @property
    def device(self) -> str:
        """Type of the device that holds the tensors, such as ``"cpu"`` or ``"cuda"``."""
        ...


@dataclass(frozen=True)
class TensorsRequest:
    """The request of an op whose tensors all have to be of certain element types; an op adds sizes.

    Attributes:
        device: type of the device that holds the tensors.
        dtypes: their element types.
        entries: of the first of them, which is about as large as the output.

    Example:
        >>> TensorsRequest.of({"y": torch.ones(3), "weight": torch.ones(1).double()})
        TensorsRequest(device='cpu', dtypes=(torch.float32, torch.float64), entries=3)
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    entries: int = 1

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], **sizes: int) -> Self:
        """Read a request off the named tensors of a call.

        Args:
            tensors: the first of them about as large as the output.
            sizes: what the op adds.

        Raises:
            InputError: for tensors on several devices.
        """
        dtypes = tuple(tensor.dtype for tensor in tensors.values())
        return cls(common_device(tensors), dtypes, next(iter(tensors.values())).numel(), **sizes)


def common_device(tensors: Mapping[str, Tensor]) -> str:
    """Return the type of the device that holds the named tensors of a call.

    Raises:
        InputError: for tensors on several devices.

    Example:
        >>> common_device({"x": torch.ones(1), "y": torch.ones(1)})
        'cpu'
    """
    (name, first), *others = tensors.items()
    for other, tensor in others:
        if tensor.device != first.device:
            raise InputError(
                f"{other} is on {tensor.device} and {name} on {first.device}; move both to one device"
            )
    return first.device.type


def floating_device(tensors: Mapping[str, Tensor | None]) -> str:
    """Return the type of the device of the named tensors that are given, all of them floating.

    Raises:
        InputError: for a tensor that is not floating, and for tensors on several devices.

    Example:
        >>> floating_device({"x": torch.ones(1), "state": None})
        'cpu'
    """
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    for name, tensor in given.items():
        if not tensor.is_floating_point():
            raise InputError(f"{name} is {tensor.dtype}; cast it to a floating dtype")
    return common_device(given)
