"""EnclosedTensor: what code written for PyTorch computes with when something is to be proved of it.

PyTorch hands every function of its own that is called with such an object to the object
(``__torch_function__``), which looks up what the function is on balls. So one code has two readings: on
tensors it computes, on `EnclosedTensor` it encloses values and derivatives of the same formula of reals.
A function without a form on balls is refused by name, and so is code that asks for a number, as a
condition does. In-place operators change every name and view of the same numbers, as they do on tensors;
where PyTorch takes a view or a copy by what balls do not have, strides and types, they are refused.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

import torch
from torch.nn import functional

from automata.errors import InputError
from theory.rigorous.balls.functions import RULES
from theory.rigorous.tensors import functions as on_balls
from theory.rigorous.tensors.functions import Numbers, embedding, joined, power, rearranged, where


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


UNCHANGED = _words("to float double half bfloat16 cpu cuda type_as positive __pos__ requires_grad_")
"""Methods that change no real number."""
REARRANGING = _words(
    "reshape view flatten unflatten squeeze unsqueeze transpose swapaxes swapdims permute movedim "
    "moveaxis expand expand_as repeat repeat_interleave tile broadcast_to chunk split tensor_split unbind "
    "select narrow index_select masked_select gather take_along_dim flip roll diagonal ravel t view_as "
    "reshape_as __getitem__ contiguous clone detach"
)
"""Functions that only move entries."""
THE_SAME = _words("positive __pos__ requires_grad_ dropout")
"""Methods that return the array itself."""
VIEW_OR_COPY = (UNCHANGED - THE_SAME) | _words("reshape reshape_as flatten ravel contiguous")
"""Methods that copy or not, by strides or a type that balls do not have."""
JOINING = _words("cat concat concatenate stack hstack vstack")
"""Functions that join several arrays."""
BINARY = _words(
    "add sub subtract rsub mul multiply div divide true_divide __add__ __radd__ __sub__ "
    "__rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __rdiv__ lerp"
)
"""Whose second operand may be a number."""
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{name: (lambda x, rule=rule: x.mapped(*rule)) for name, rule in RULES.items()},
    **dict.fromkeys(UNCHANGED, on_balls.unchanged),
    **dict.fromkeys(("add", "__add__", "__radd__"), on_balls.added),
    **dict.fromkeys(
        ("sub", "subtract", "__sub__"),
        lambda x, other, *, alpha=1: on_balls.added(x, other.negated(), alpha=alpha),
    ),
    **dict.fromkeys(("rsub", "__rsub__"), lambda x, other: other.plus(x.negated())),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), Numbers.times),
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), Numbers.over),
    **dict.fromkeys(("__rtruediv__", "__rdiv__"), lambda x, other: other.over(x)),
    **dict.fromkeys(("neg", "negative", "__neg__"), Numbers.negated),
    **dict.fromkeys(("matmul", "__matmul__", "mm", "mv", "bmm", "dot"), on_balls.matmul),
    "__rmatmul__": lambda x, other: on_balls.matmul(other, x),
    "sum": on_balls.summed,
    **dict.fromkeys(
        ("addmv", "addmm", "baddbmm"),
        lambda x, left, right, *, beta=1, alpha=1: on_balls.added(
            x.times(type(x).constant(beta)), on_balls.matmul(left, right), alpha=alpha
        ),
    ),
    "addcmul": lambda x, left, right, *, value=1: on_balls.added(x, left.times(right), alpha=value),
    **dict.fromkeys(("max", "maximum"), on_balls.maximum),
    **dict.fromkeys(("min", "minimum"), partial(on_balls.maximum, sign=-1.0)),
    "clamp_max": lambda x, bound: on_balls.clamp(x, max=bound),
    **{
        name: partial(on_balls.filled, getattr(torch, name))
        for name in ("tril", "triu", "diag", "diag_embed")
    },
    "pad": lambda x, pad, mode="constant", value=None: on_balls.filled(
        functional.pad, x, list(pad), mode, number=value
    ),
    "masked_fill": lambda x, mask, value: on_balls.where(mask, type(x).constant(value), x),
    **dict.fromkeys(("clamp", "clip", "clamp_min"), on_balls.clamp),
    **dict.fromkeys(("outer", "ger"), lambda x, other: on_balls.column(x).times(other)),
    "ones_like": on_balls.like(1.0),
    "zeros_like": on_balls.like(0.0),
    "full_like": lambda x, fill_value, **_options: on_balls.like(float(fill_value))(x),
    **dict.fromkeys(("abs", "absolute", "__abs__"), lambda x: x.mapped(*RULES["abs"])),
    "__rpow__": lambda x, base: on_balls.power(type(x).constant(base), x),
    "dropout": on_balls.dropout,
    "einsum": on_balls.einsum,
    "expm1": lambda x: x.mapped(*RULES["exp"]).plus(type(x).constant(-1.0)),
    "gelu": on_balls.gelu,
    "layer_norm": on_balls.layer_norm,
    "lerp": lambda start, end, weight: start.plus(weight.times(end.plus(start.negated()))),
    "log1p": lambda x: x.plus(type(x).constant(1.0)).mapped(*RULES["log"]),
    "logsigmoid": lambda x: on_balls.softplus(x.negated()).negated(),
    "mean": on_balls.mean,
    "norm": on_balls.norm,
    "normalize": on_balls.normalize,
    "relu": on_balls.relu,
    "rms_norm": on_balls.rms_norm,
    "silu": on_balls.silu,
    "softmax": lambda x, dim, _stacklevel=3, dtype=None: on_balls.softmax(x, dim, dtype),
    "softplus": on_balls.softplus,
    "vector_norm": on_balls.vector_norm,
    "linear": on_balls.linear,
    "where": on_balls.where,
}
"""Implementations by the name of the function or method; operands come as `Numbers`."""

TAKES_NUMBERS = ("pow", "__pow__", "float_power")
"""Whose exponent stays as it is given."""


def by_function() -> dict[Any, str]:
    """Return the name under which each of PyTorch's functions and methods stands in the tables."""
    names = {*OPERATIONS, *REARRANGING, *JOINING, *TAKES_NUMBERS, "embedding"}
    places = (torch, torch.Tensor, functional, torch._C._nn)
    found = {getattr(place, name): name for place in places for name in names if hasattr(place, name)}
    found |= {torch.linalg.vector_norm: "vector_norm", torch.special.expit: "sigmoid"}
    found |= {torch.special.log1p: "log1p", torch.special.expm1: "expm1", torch.special.erf: "erf"}
    return found


NAMES = by_function()


@dataclass(frozen=True)
class Heard:
    """Which operations were met on what depends on a latent or a state, and how often."""

    counts: Counter[Any] = field(default_factory=Counter)
    whole: frozenset[str] = frozenset()  # parts of the state that are whole numbers, which nothing depends on

    def add(self, name: str, options: Mapping[str, Any]) -> None:
        """Count an operation by one of its names; x + 0 y is x, as `implicit.ops.norm_factor` writes it."""
        found = operation(name)
        if found is not None and options.get("alpha") != 0:
            self.counts[found] += 1


HEARD: ContextVar[Heard | None] = ContextVar("HEARD", default=None)
"""Operations on balls in this context are counted here; None where nobody counts them."""


@contextmanager
def listening(heard: Heard | None) -> Iterator[None]:
    """Count the operations on balls meanwhile in ``heard``, or nowhere."""
    token = HEARD.set(heard)
    try:
        yield
    finally:
        HEARD.reset(token)


def operation(name: str) -> Any:
    """Return what names of one operation share, in place or not; None if it computes no number."""
    if name.startswith("__i"):
        name = name.replace("__i", "__", 1)
    elif not name.endswith("__"):
        name = name.removesuffix("_")
    if name in TAKES_NUMBERS:
        return "pow"
    return None if name in UNCHANGED or name.endswith("_like") else OPERATIONS.get(name)


def operands(arguments: Any, options: Mapping[str, Any]) -> Iterator[Any]:
    """Return what a function is given, and the entries of tuples and lists."""
    for each in (*arguments, *options.values()):
        if isinstance(each, tuple | list):
            yield from operands(each, {})
        else:
            yield each


class _Storage:
    """The storage of an array and its views: the places of its numbers, and the arrays that hold some.

    Those of its family may be one with it in PyTorch, or copies.
    """

    def __init__(self, size: int) -> None:
        self.places = torch.arange(size)
        self.holders: list[weakref.ref[EnclosedTensor]] = []
        self.family: list[_Storage] = [self]

    @property
    def is_held(self) -> bool:
        """Return whether an array is left that holds some of its numbers."""
        return any(holder() is not None for holder in self.holders)

    def relate(self, other: _Storage) -> None:
        """Make one family of two."""
        families = dict.fromkeys((*self.family, *other.family))
        family = [each for each in families if each in (self, other) or each.is_held]
        for each in family:
            each.family = family


class EnclosedTensor(Numbers):
    """Balls under the interface of a tensor; `Numbers` says what it holds."""

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
            name = getattr(function, "__name__", str(function))
            writes = name.startswith(("__i", "__set")) or (name.endswith("_") and not name.endswith("__"))
            if writes and isinstance(arguments[0], torch.Tensor):
                raise InputError(
                    f"torch.{name} writes balls into a constant tensor; begin with torch.zeros_like(h) or "
                    "h.new_zeros(...), or join the parts by torch.stack or torch.cat"
                )
            raise _no_form(name)
        given = {key: entry for key, entry in (options or {}).items() if not (key == "out" and entry is None)}
        return cls._call(name, function, arguments, given)

    @classmethod
    def _call(
        cls, name: str, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Compute a function on balls, and count it; the parts of which it is made do not count."""
        heard = HEARD.get()
        if heard is None:
            return cls._result(name, function, arguments, options)
        given = operands(arguments, options)
        if any(isinstance(each, Numbers) and each.tangent is not None for each in given):
            heard.add(name, options)
        with listening(None):
            return cls._result(name, function, arguments, options)

    @classmethod
    def _result(
        cls, name: str, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        if options.get("out") is not None:
            raise _no_form(f"{name} with out=")
        if options.get("inplace"):
            return arguments[0]._assign(cls._result(name, function, arguments, {**options, "inplace": False}))
        if name in REARRANGING:
            found = cls._rearrange(function, arguments, options)
            return arguments[0]._perhaps(found) if name in VIEW_OR_COPY else found
        if name in JOINING:
            parts = [cls.constant(part) for part in arguments[0]]
            return joined(parts, lambda entries: function(entries, *arguments[1:], **options))
        if name == "embedding":
            return embedding(arguments[0], cls.constant(arguments[1]), *arguments[2:], **options)
        if name in TAKES_NUMBERS:
            exponent = arguments[1]
            return power(cls.constant(arguments[0]), exponent)
        if name == "where":
            if function == torch.Tensor.where:  # the condition comes second
                arguments = (arguments[1], arguments[0], *arguments[2:])
            return OPERATIONS[name](arguments[0], *map(cls.constant, arguments[1:]))
        convert = cls.constant if name in BINARY else cls._if_tensor
        if name in UNCHANGED:
            x, *others = arguments
            if not isinstance(x, cls):  # a constant, in the type of balls
                copied = options.get("copy") or (name == "to" and len(others) > 2 and others[2])
                return x.double().clone() if copied else x.double()
            found = OPERATIONS[name](x, *others, **options)
            return x._perhaps(found) if name in VIEW_OR_COPY else found
        operands = [convert(argument) for argument in arguments]
        named = {key: cls._if_tensor(entry) for key, entry in options.items()}
        try:
            found = OPERATIONS[name](*operands, **named)
        except TypeError as fault:
            raise InputError(f"torch.{name} has no form on balls with these arguments ({fault})") from fault
        if name in THE_SAME and isinstance(arguments[0], cls):
            return arguments[0]
        if name == "einsum" and len(operands) == 2 and isinstance(arguments[1], cls):
            return arguments[1]._perhaps(found)  # of one array a view, where nothing is summed
        return found

    @classmethod
    def _if_tensor(cls, argument: Any) -> Any:
        mask = isinstance(argument, torch.Tensor) and argument.dtype is torch.bool
        return (
            argument if mask or not isinstance(argument, torch.Tensor | Numbers) else cls.constant(argument)
        )

    @classmethod
    def _rearrange(
        cls, function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Let PyTorch move the numbers of the entries; other arrays are asked for their shape only."""
        x, *others = (
            torch.empty(a.shape) if isinstance(a, Numbers) and i else a for i, a in enumerate(arguments)
        )
        if not isinstance(x, EnclosedTensor):
            raise InputError("an index is known only up to a radius; index with known integers")
        if any(isinstance(other, torch.dtype) for other in (*others, *options.values())):
            raise _no_form("view(dtype)")
        return x._moved(lambda entries: function(entries, *others, **options))

    def _moved(self, change: Callable[[torch.Tensor], Any]) -> Any:
        """Let PyTorch move the entries; a view shares its numbers with this array."""
        places, found = change(self._places), rearranged(self, change)
        pairs = zip(places, found, strict=True) if isinstance(found, tuple | list) else [(places, found)]
        storage = self.__dict__["_storage"]
        for place, part in pairs:
            if place.untyped_storage().data_ptr() == storage.places.untyped_storage().data_ptr():
                part._hold(storage, place)
        return found

    def _perhaps(self, numbers: Numbers) -> EnclosedTensor:
        """Return a copy of numbers that PyTorch may keep in the place of these."""
        copied = self.constant(numbers)
        for each in (self, copied):
            _ = each._places
        self.__dict__["_storage"].relate(copied.__dict__["_storage"])
        return copied

    def _hold(self, storage: _Storage, places: torch.Tensor) -> None:
        storage.holders.append(weakref.ref(self))
        self.__dict__.update(_storage=storage, _held=places)

    @property
    def _places(self) -> torch.Tensor:
        """Where the entries lie in the storage, with the strides of PyTorch."""
        if "_held" not in self.__dict__:
            storage = _Storage(self.numel())
            self._hold(storage, storage.places.reshape(self.shape))
        places: torch.Tensor = self.__dict__["_held"]
        return places

    def _assign(self, numbers: Any, places: torch.Tensor | None = None) -> EnclosedTensor:
        """Write numbers in place: into this array and all that share them."""
        places = self._places if places is None else places
        if places.unique().numel() < places.numel():
            raise InputError("an in-place operator writes one number twice; take a .clone() before")
        new, storage = self.constant(numbers), self.__dict__["_storage"]
        if any(each is not storage and each.is_held for each in storage.family):
            raise InputError(
                "an in-place operator writes numbers of which reshape, contiguous, .to or the like took a "
                "view or a copy, by their strides or type; take a .clone() before"
            )
        written = torch.full(storage.places.shape, -1)
        entries = torch.arange(new.numel()).reshape(new.shape).expand(places.shape)
        written[places.reshape(-1)] = entries.reshape(-1)
        for holder in storage.holders:
            array = holder()
            if array is not None and bool(((chosen := written[array._places]) >= 0).any()):
                found = where(chosen >= 0, new.taken(chosen.clamp(min=0).numpy()), array)
                array.__dict__.update(value=found.value, tangent=found.tangent)
        return self

    def __getattr__(self, name: str) -> Any:
        plain = name.removesuffix("_")
        if plain != name and name not in OPERATIONS and (plain in OPERATIONS or plain in TAKES_NUMBERS):
            return lambda *arguments, **options: self._assign(
                self._call(plain, getattr(torch.Tensor, plain), (self, *arguments), options)
            )
        if name.startswith("__") or not (name in NAMES.values() or name in OPERATIONS):
            if hasattr(torch.Tensor, name) and not name.startswith("__"):
                raise _no_form(name)
            raise AttributeError(name)
        method = getattr(torch.Tensor, name)
        return lambda *arguments, **options: self._call(name, method, (self, *arguments), options)

    @property
    def mT(self) -> Any:  # noqa: N802 (the name that PyTorch gives it)
        """The matrices transposed."""
        return self._moved(lambda entries: entries.mT)

    @property
    def T(self) -> Any:  # noqa: N802
        """The array with its axes in the opposite order."""
        return self._moved(lambda entries: entries.permute(*reversed(range(self.ndim))))

    def __copy__(self) -> EnclosedTensor:
        """Return the same numbers under another name, as PyTorch does."""
        return self._moved(lambda entries: entries.detach())

    def __deepcopy__(self, memo: object) -> EnclosedTensor:
        """Return a copy of the numbers."""
        return self.constant(self)

    @property
    def data(self) -> EnclosedTensor:
        """The same numbers."""
        return self

    @data.setter
    def data(self, numbers: Any) -> None:
        if numbers is not self:  # what `h.data -= z` leaves is h itself
            raise _no_form("data = ...")

    def copy_(self, numbers: Any, non_blocking: bool = False) -> EnclosedTensor:
        """Write numbers in the place of these."""
        return self._assign(numbers)

    fill_ = copy_

    def zero_(self) -> EnclosedTensor:
        """Write zeros in the place of these."""
        return self._assign(0.0)

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

    def __len__(self) -> int:
        return self.shape[0] if self.ndim else self._refuse()

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return self._moved(lambda entries: entries[_known(index)])

    def __setitem__(self, index: Any, numbers: Any) -> None:
        self._assign(numbers, self._places[_known(index)])

    def _refuse(self, *_arguments: object) -> NoReturn:
        raise InputError(
            "a condition, an index or a conversion (a comparison, float, .item, .numpy, print) asks for a "
            "number that is known only up to a radius; use torch.clamp, torch.maximum or a mask made before, "
            "and torch.stack in place of torch.tensor"
        )

    __bool__ = __float__ = __int__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __eq__ = __ne__ = __repr__ = __str__ = __format__ = __reduce_ex__ = _refuse
    __hash__ = object.__hash__  # that of the object, not of its numbers: torch keeps parameters in a set
    __array__ = item = tolist = numpy = _refuse


def _new(make: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    def new(self: EnclosedTensor, *given: Any, dtype: Any = None, device: Any = None, **options: Any) -> Any:  # noqa: ARG001
        found = make(*given, dtype=dtype or torch.float64, **options)
        return self.constant(found) if found.is_floating_point() else found

    return new


for _name in ("zeros", "ones", "full", "tensor"):
    setattr(EnclosedTensor, f"new_{_name}", _new(getattr(torch, _name)))


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: EnclosedTensor, *others: Any) -> Any:
        return self._call(name, getattr(torch.Tensor, name), (self, *others), {})

    return operate


for _name in (
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
    *("__matmul__", "__rmatmul__", "__neg__", "__pos__", "__abs__", "__pow__", "__rpow__"),
):
    setattr(EnclosedTensor, _name, _operator(_name))


def _in_place(name: str) -> Callable[..., Any]:
    def operate(self: EnclosedTensor, other: Any) -> Any:
        return self._assign(_operator(name)(self, other))

    return operate


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(EnclosedTensor, f"__i{_name}__", _in_place(f"__{_name}__"))


def _known(index: Any) -> Any:
    if any(isinstance(part, Numbers) for part in (index if isinstance(index, tuple) else (index,))):
        raise InputError("an index is known only up to a radius; index with known integers")
    return index


def _no_form(name: str) -> InputError:
    return InputError(
        f"torch.{name} has no form on balls; write it with functions that have, which "
        "docs/your_own_proof.md lists, or give the cell's own form (theory.rigorous.EnclosedTransitions)"
    )
