"""EnclosedTensor: what code written for PyTorch computes with when something is to be proved of it.

PyTorch hands every function of its own that is called with such an object to the object
(``__torch_function__``), which looks up what the function is on balls. So one code has two readings: on
tensors it computes, on `EnclosedTensor` it encloses values and derivatives of the same formula of reals.
A function without a form on balls is refused by name, and so is code that asks for a number, as a
condition does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from automata.errors import InputError
from theory.rigorous.tensors.functions import embedding, joined, power, rearranged
from theory.rigorous.tensors.numbers import Numbers
from theory.rigorous.tensors.table import BINARY, JOINING, OPERATIONS, REARRANGING, TAKES_NUMBERS, by_function

NAMES = by_function()


@dataclass(frozen=True, eq=False)
class EnclosedTensor(Numbers):
    """Balls under the interface of a tensor; `Numbers` says what it holds.

    Example:
        >>> from theory.rigorous.balls import Ball
        >>> import numpy as np
        >>> x = EnclosedTensor(Ball.around([[1.0, 2.0]], 0.1), Ball.exact(np.eye(2)[None]))
        >>> y = torch.tanh(x @ torch.tensor([1.0, -1.0])) + x.sum()
        >>> bool(y.value.contains(3 - np.tanh(1.0))), y.tangent.shape
        (True, (1, 2))
        >>> torch.round(x)
        Traceback (most recent call last):
        automata.errors.InputError: torch.round has no form on balls; write it with functions that have, ...
    """

    __array_priority__ = 1000.0
    dtype = torch.float64
    device = torch.device("cpu")
    layout = torch.strided
    requires_grad = False
    is_cuda = False

    @classmethod
    def __torch_function__(
        cls,
        function: Callable[..., Any],
        _types: Sequence[type],
        arguments: Sequence[Any] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Do what a function of PyTorch does, on balls."""
        name = NAMES.get(function)
        if name is None:
            raise _no_form(getattr(function, "__name__", str(function)))
        given = {key: entry for key, entry in (options or {}).items() if not (key == "out" and entry is None)}
        return cls._call(name, function, arguments, given)

    @classmethod
    def _call(
        cls,
        name: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        options: Mapping[str, Any],
    ) -> Any:
        if name in REARRANGING:
            return cls._rearrange(function, arguments, options)
        if name in JOINING:
            parts = [cls.constant(part) for part in arguments[0]]
            return joined(parts, lambda entries: function(entries, *arguments[1:], **options))
        if name == "embedding":
            return embedding(arguments[0], cls.constant(arguments[1]), *arguments[2:], **options)
        if name in TAKES_NUMBERS:
            exponent = arguments[1]
            return power(cls.constant(arguments[0]), exponent)
        if name == "where":
            return OPERATIONS[name](arguments[0], *map(cls.constant, arguments[1:]))
        convert = cls.constant if name in BINARY else cls._if_tensor
        operands = [convert(argument) for argument in arguments]
        named = {key: cls._if_tensor(entry) for key, entry in options.items()}
        try:
            return OPERATIONS[name](*operands, **named)
        except TypeError as fault:
            raise InputError(f"torch.{name} has no form on balls with these arguments ({fault})") from fault

    @classmethod
    def _if_tensor(cls, argument: Any) -> Any:
        return cls.constant(argument) if isinstance(argument, torch.Tensor | Numbers) else argument

    @classmethod
    def _rearrange(
        cls, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Let PyTorch move the numbers of the entries; other arrays are asked for their shape only."""
        x, *others = (
            torch.empty(a.shape) if isinstance(a, Numbers) and i else a for i, a in enumerate(arguments)
        )
        if not isinstance(x, Numbers):
            raise InputError("an index is known only up to a radius; index with known integers")
        if any(isinstance(other, torch.dtype) for other in (*others, *options.values())):
            raise _no_form("view(dtype)")
        return rearranged(x, lambda entries: function(entries, *others, **options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not (name in NAMES.values() or name in OPERATIONS):
            if hasattr(torch.Tensor, name) and not name.startswith("__"):
                raise _no_form(name)
            raise AttributeError(name)
        method = getattr(torch.Tensor, name)
        return lambda *arguments, **options: self._call(name, method, (self, *arguments), options)

    @property
    def mT(self) -> Any:  # noqa: N802 (the name that PyTorch gives it)
        """The matrices transposed."""
        return rearranged(self, lambda entries: entries.mT)

    T = mT

    @property
    def data(self) -> EnclosedTensor:
        """The same numbers."""
        return self

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the length of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Return how many axes there are."""
        return self.ndim

    def numel(self) -> int:
        """Return how many numbers there are."""
        return self.shape.numel()

    def is_floating_point(self) -> bool:
        """Return True: they are real numbers."""
        return True

    def new_zeros(self, *shape: Any, **_options: object) -> torch.Tensor:
        """Return zeros."""
        return torch.zeros(*shape, dtype=torch.float64)

    def new_ones(self, *shape: Any, **_options: object) -> torch.Tensor:
        """Return ones."""
        return torch.ones(*shape, dtype=torch.float64)

    def __len__(self) -> int:
        return self.shape[0] if self.ndim else self._refuse()

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if any(isinstance(part, Numbers) for part in (index if isinstance(index, tuple) else (index,))):
            raise InputError("an index is known only up to a radius; index with known integers")
        return rearranged(self, lambda entries: entries[index])

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise InputError(
            "a condition, an index or a conversion asks for a number that is known only up to a radius; "
            "write the function without it"
        )

    __bool__ = __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = _refuse
    __hash__ = object.__hash__  # that of the object, not of its numbers: torch keeps parameters in a set
    __array__ = item = tolist = numpy = _refuse


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: EnclosedTensor, *others: Any) -> Any:
        return self._call(name, getattr(torch.Tensor, name), (self, *others), {})

    return operate


for _name in (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
    *("__matmul__", "__rmatmul__", "__neg__", "__pow__"),
):
    setattr(EnclosedTensor, _name, _operator(_name))


def _no_form(name: str) -> InputError:
    return InputError(
        f"torch.{name} has no form on balls; write it with functions that have, "
        "which docs/extending.md lists, or give the cell's own form (theory.rigorous.EnclosedTransitions)"
    )
