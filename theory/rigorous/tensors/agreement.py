"""One code read twice: Φ and G on tensors against Φ and G on balls, before anything is proved of them."""

import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from automata.errors import InputError
from theory.blocks import flatten
from theory.fixed_point import EPSILON
from theory.pure_maps import called
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.tensors.transitions import EnclosedTransitionBatch
from theory.transition_batch import TransitionBatch

SAME = 4.0
"""How far a number on tensors may be from that on balls, in radii and units in the last place: rounding."""
NEARBY = 2.0**-10
"""How far away, relatively, they are compared too: there shows what vanishes at a fixed point."""

IN_PLACE = {"__setitem__", *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "pow"))}
"""In-place operators whose names do not end as those of methods do."""

Array = NDArray[np.float64]


class AsReal(TorchFunctionMode):
    """Runs code on tensors as the function of real numbers that it stands for; notes its coarsest type.

    Attributes:
        coarsest: the machine epsilon of the coarsest type among the results.
        writes: whether an operator works in place.

    Example:
        >>> with AsReal() as seen:
        ...     tiny = functional.softplus(torch.tensor(25.0, dtype=torch.float64)) - 25
        >>> bool(tiny > 0), seen.coarsest == EPSILON
        (True, True)
    """

    coarsest = EPSILON
    writes = False

    def __torch_function__(
        self, function: Any, _types: Any, arguments: Any = (), options: Mapping[str, Any] | None = None
    ) -> Any:
        """Call a function of PyTorch."""
        # PyTorch takes softplus for x itself from a threshold on.
        chosen = _softplus if function is functional.softplus else function
        found = chosen(*arguments, **(options or {}))
        if isinstance(found, torch.Tensor) and found.is_floating_point():
            self.coarsest = max(self.coarsest, torch.finfo(found.dtype).eps)
        name = getattr(function, "__name__", "")
        in_place = name in IN_PLACE or (name.endswith("_") and not name.endswith("__"))
        self.writes |= in_place or bool((options or {}).get("inplace"))
        return found


def _softplus(x: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:  # noqa: ARG001
    return torch.logaddexp(beta * x, torch.zeros_like(x)) / beta


def compare_beside(
    transitions: TransitionBatch, balls: EnclosedTransitionBatch, state: Mapping[str, Array], latents: Array
) -> None:
    """Do as `compare`, at points and at random ones beside them."""
    drawn = np.random.default_rng(secrets.randbits(63))
    beside = {
        name: entry + NEARBY * (1 + np.abs(entry)) * drawn.standard_normal(entry.shape)
        if entry.dtype.kind == "f"
        else entry
        for name, entry in {"": latents, **state}.items()
    }
    compare(transitions, balls, state, latents)
    latents = beside.pop("")
    compare(transitions, balls, beside, latents)


@torch.no_grad()
@np.errstate(all="ignore")
def compare(
    transitions: TransitionBatch,
    balls: EnclosedTransitionBatch,
    state: Mapping[str, Array],
    latents: Array,
    *,
    finite: bool = False,
) -> None:
    """Refuse code that is one function of tensors and another one of balls.

    Args:
        transitions: (Φ, G) at T positions, in float64.
        balls: the same on balls.
        state: every part ``[T, …]``.
        latents: ``[T, d]``.
        finite: whether all numbers have to be finite.

    Raises:
        InputError: where Φ or G differ by more than rounding, or what they are given is changed, or code that
            uses a type coarser than float32 works in place.

    Example:
        >>> def advance(z, s, x):
        ...     return z, {"h": s["h"] * (x["w"] if isinstance(z, torch.Tensor) else 2)}
        >>> batch = TransitionBatch(advance, {"w": torch.ones(1)}, 0, (("h",),))
        >>> balls = EnclosedTransitionBatch(batch, {"h": (1,)})
        >>> compare(batch, balls, {"h": np.ones((1, 1))}, np.ones((1, 0)))
        Traceback (most recent call last):
        automata.errors.InputError: entry 0 of h' of h is 1 on tensors, 2 on balls; write one formula for ...
    """
    image, updates = balls.advance(Dual.constant(Ball.exact(latents), 0), balls.enclosed(state), {})
    for index, latent in enumerate(latents):
        z, transition = torch.from_numpy(latent), transitions[index]
        s = {name: torch.from_numpy(np.asarray(entry[index])) for name, entry in state.items()}
        with AsReal() as watched:
            expected = {"Φ": called("self_map", transition.self_map, z, s)}
            following = called("state_update", transition.state_update, z, s)
        if watched.writes and watched.coarsest > torch.finfo(torch.float32).eps:
            raise InputError(
                "Φ or G work in place beside numbers of a type coarser than float32, where tensors and balls "
                "are compared too roughly to trust that; write y = y + ... in place of y += ..."
            )
        found = {"Φ": image.value}
        for names, update in zip(balls.layer_states, updates, strict=True):
            block = f"h' of {'+'.join(names)}"
            expected[block], found[block] = flatten(following, names), update.following.value
        for name, tensor in expected.items():
            number = tensor.numpy()
            middle, radius = found[name].midpoint[index], found[name].radius[index]
            unit = watched.coarsest * np.abs(number) + watched.coarsest / EPSILON * radius
            excess = np.nan_to_num(np.abs(middle - number) - SAME * unit, nan=np.inf if finite else 0.0)
            worst = int(excess.argmax()) if excess.size else 0
            if excess.size and not excess[worst] <= 0:
                raise InputError(
                    f"entry {worst} of {name} is {number[worst]:.17g} on tensors, {middle[worst]:.17g} on "
                    "balls; write one formula for both, in float64, that is finite at the states"
                )
