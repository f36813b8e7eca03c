"""A second device on a machine that has none: its tensors may not meet those of the CPU unless moved.

They lie in memory all the same, and what is computed with them is computed on the CPU. Only what code has to
do for them is as on a GPU: new tensors name the device, `numpy()` is refused until `cpu()`, and operations on
tensors of both devices are refused. They are called ``meta``, a device that PyTorch knows without hardware.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

OTHER = torch.device("meta")
INDEXED = tuple(
    getattr(torch.ops.aten, name)
    for name in ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
)
"""Operations whose indices may lie on the CPU, as on a GPU."""


class Elsewhere(Tensor):
    """A tensor of the other device.

    Attributes:
        held: its content.
    """

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> Self:
        made: Any = Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype, device=OTHER
        )
        made.held = held
        found: Self = made
        return found

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _carried_out(function, args, kwargs or {})

    def tolist(self) -> Any:
        return self.held.tolist()

    def new_tensor(self, *args: Any, **kwargs: Any) -> "Elsewhere":
        return Elsewhere(self.held.new_tensor(*args, **kwargs))

    def __getitem__(self, place: Any) -> Tensor:
        found: Tensor = super().__getitem__(torch.tensor(place) if isinstance(place, list) else place)
        return found


class _Watch(TorchDispatchMode):
    """Sees what is made on the other device without a tensor that is there already."""

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if not types and named.get("device") is None:  # nothing of the other device: as ever
            return function(*args, **named)
        return _carried_out(function, args, named)


def _carried_out(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    tensors = list(_tensors((*args, *kwargs.values())))
    some = any(isinstance(tensor, Elsewhere) for tensor in tensors)
    assert all(isinstance(part, Elsewhere) or part.device.type == "cpu" for part in tensors)  # has content
    moves = function is torch.ops.aten.copy_.default
    if some and not moves:
        _refuse_both(function, args, tensors)
    held = {name: _held(part) for name, part in kwargs.items()}
    asked = kwargs.get("device")
    if asked is not None:
        held["device"] = torch.device("cpu")
    result = function(*map(_held, args), **held)
    there = some if asked is None else torch.device(asked) == OTHER
    if moves or (there and function._schema.is_mutable and "out" not in kwargs):
        return args[0]
    return _elsewhere(result) if there else result


def _tensors(parts: Sequence[Any]) -> Iterator[Tensor]:
    for part in parts:
        if isinstance(part, Tensor):
            yield part
        elif isinstance(part, list | tuple):
            yield from _tensors(part)


def _held(part: Any) -> Any:
    if isinstance(part, list | tuple):
        return [_held(each) for each in part]
    return part.held if isinstance(part, Elsewhere) else part


def _elsewhere(part: Any) -> Any:
    if isinstance(part, list | tuple):
        return type(part)(map(_elsewhere, part))
    return Elsewhere(part) if isinstance(part, Tensor) and not isinstance(part, Elsewhere) else part


def _refuse_both(function: Any, args: Sequence[Any], tensors: Sequence[Tensor]) -> None:
    """Numbers may meet any tensor, and places on the CPU may be looked up elsewhere, not the other way."""
    if function.overloadpacket in INDEXED and isinstance(args[0], Elsewhere):
        return
    here = [tensor for tensor in tensors if not isinstance(tensor, Elsewhere) and tensor.ndim > 0]
    if here or (function.overloadpacket in INDEXED and not isinstance(args[0], Elsewhere)):
        raise RuntimeError(f"Expected all tensors to be on the same device, but {function} has both")


@contextmanager
def other_device() -> Iterator[torch.device]:
    """Offer the other device for as long as the context lasts."""
    autocast, tensor = torch.autocast, torch.tensor

    def cast(name: str, **options: Any) -> Any:  # of which PyTorch has none on that device
        return nullcontext() if name == OTHER.type else autocast(name, **options)

    def made(content: Any, *, device: Any = None, **options: Any) -> Tensor:  # without a word to the watch
        return tensor(content, **options).to(device)

    with pytest.MonkeyPatch.context() as patch, _Watch():
        patch.setattr(torch, "autocast", cast)
        patch.setattr(torch, "tensor", made)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            yield OTHER
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(False)
