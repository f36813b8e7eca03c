"""Which of PyTorch's functions and methods has a form on balls: the tables by their names."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

from theory.rigorous.balls.functions import RULES
from theory.rigorous.tensors import functions as on_balls
from theory.rigorous.tensors.numbers import Numbers


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


UNCHANGED = _words("to float double half bfloat16 cpu cuda type_as positive __pos__ requires_grad_")
"""Methods that change no real number."""
REARRANGING = _words(
    "reshape view flatten unflatten squeeze unsqueeze transpose swapaxes permute movedim expand "
    "expand_as repeat repeat_interleave tile broadcast_to chunk split tensor_split unbind "
    "select narrow index_select gather take_along_dim flip roll diagonal ravel t view_as "
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
    **dict.fromkeys(("sub", "subtract", "__sub__"), on_balls.subtracted),
    **dict.fromkeys(("rsub", "__rsub__"), lambda x, other: other.plus(x.negated())),
    **dict.fromkeys(("mul", "multiply", "__mul__", "__rmul__"), Numbers.times),
    **dict.fromkeys(("div", "divide", "true_divide", "__truediv__"), Numbers.over),
    **dict.fromkeys(("__rtruediv__", "__rdiv__"), lambda x, other: other.over(x)),
    **dict.fromkeys(("neg", "negative", "__neg__"), Numbers.negated),
    **dict.fromkeys(("matmul", "__matmul__", "mm", "mv", "bmm", "dot"), on_balls.matmul),
    "__rmatmul__": lambda x, other: on_balls.matmul(other, x),
    **dict.fromkeys(("sum",), on_balls.summed),
    **dict.fromkeys(("clamp", "clip", "clamp_min"), on_balls.clamp),
    **dict.fromkeys(("outer", "ger"), lambda x, other: on_balls.column(x).times(other)),
    **dict.fromkeys(("ones_like",), on_balls.like(1.0)),
    **dict.fromkeys(("zeros_like",), on_balls.like(0.0)),
    "absolute": lambda x: x.mapped(*RULES["abs"]),
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
