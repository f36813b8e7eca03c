"""Float64 that errs as much as a coarser format may: an attack on bounds of rounding."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from theory.rigorous.rounded import FLOAT32


class Misrounding(TorchDispatchMode):
    """Executes float64 with the worst that the model allows float32: operations err by their whole bounds."""

    FUNCTIONS = ("exp", "exp2", "log1p", "softplus", "sigmoid", "silu", "rsqrt", "sqrt")
    ELEMENTARY = ("add", "sub", "mul", "div", "addcmul", "pow", "cumsum")
    EXACT = (
        *("view", "_unsafe_view", "reshape", "expand", "select", "slice", "split", "split_with_sizes"),
        *("unsqueeze", "squeeze", "transpose", "t", "permute", "unfold", "cat", "clone", "copy", "alias"),
        "index",
        *("detach", "empty", "new_empty", "new_zeros", "empty_like", "zeros", "full", "neg", "tril", "clamp"),
        *("where", "_to_copy", "embedding", "repeat", "unbind", "constant_pad_nd", "abs", "masked_fill"),
        *("flip", "contiguous", "empty_strided", "lift_fresh", "stack", "ones", "new_full", "index_copy"),
        *("zeros_like", "zero", "fill", "index_put", "gather", "isfinite", "max", "amax", "amin", "arange"),
    )

    def __init__(self, sign: float | None, times: float = 1.0, ulps: int = FLOAT32.ulps) -> None:
        super().__init__()
        self.times, self.format = times, replace(FLOAT32, ulps=ulps)
        self.sign, self.generator = sign, torch.Generator().manual_seed(0)
        self.seen: set[str] = set()

    def errors(self, like: Tensor, size: float | Tensor) -> Tensor:
        sign = torch.rand(like.shape, generator=self.generator, dtype=torch.float64) * 2 - 1
        return (sign.sign() if self.sign is None else torch.full_like(sign, self.sign)) * size * self.times

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.split("::")[1].rstrip("_")
        sums = self._absolute_sums(name, args)  # before it is overwritten
        out = func(*args, **(kwargs or {}))
        if (kwargs or {}).get("alpha") == 0:  # x + 0 · y is exact
            return out
        if not isinstance(out, Tensor) or out.dtype != torch.float64:
            return out
        u = FLOAT32.unit_roundoff
        if name in self.FUNCTIONS:
            out.mul_(1 + self.errors(out, self.format.function))
        elif name in self.ELEMENTARY:
            out.mul_(1 + self.errors(out, u if name != "cumsum" else 0.0))
        elif name in ("mean", "sum", "linalg_vector_norm", "norm"):  # of squares, so of one sign
            out.mul_(1 + self.errors(out, FLOAT32.gamma(max(args[0].shape) + 1)))
        elif sums is not None:
            out.add_(self.errors(out, sums))
        else:
            assert name in self.EXACT, name
        self.seen.add(name)
        return out

    def _absolute_sums(self, name: str, args: Any) -> Tensor | None:
        if name not in ("mm", "addmm", "bmm", "baddbmm", "convolution"):
            return None
        if name == "convolution":  # one tap
            image, weight, bias = args[:3]
            return FLOAT32.gamma(2) * (
                image.abs() * weight.abs().view(1, -1, 1, 1) + bias.abs().view(1, -1, 1, 1)
            )
        left, right = args[-2:]
        added = args[0].abs() if name in ("addmm", "baddbmm") else 0.0
        return FLOAT32.gamma(left.shape[-1] + 1) * (left.abs() @ right.abs() + added)
