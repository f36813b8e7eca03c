"""Blocks of a recurrent state as vectors: the maps Φ and G with everything but one block held fixed.

Theorem 1 speaks of one block v of the state s (the SSM state h of a layer) while the rest of the state, such
as a convolution window, stays where it is. A :class:`BlockMap` is the pair (Φ, G) as functions of (z, v).
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from automata.checks import check_type, shown
from automata.errors import InputError, unknown_name
from theory.transition import State, Transition


def flatten(state: State, names: Sequence[str] | None = None) -> Tensor:
    """Return the named entries of a state (all of them, if none are named) as one vector."""
    return torch.cat([state[name].reshape(-1) for name in (state if names is None else names)])


def replace(state: State, names: Sequence[str], vector: Tensor) -> State:
    """Return the state with the named entries read from a vector, the inverse of :func:`flatten`."""
    if len(names) == 1:
        return {**state, names[0]: vector.reshape(state[names[0]].shape)}
    sizes = [state[name].numel() for name in names]
    pieces = vector.split(sizes)
    return {
        **state,
        **{name: piece.reshape(state[name].shape) for name, piece in zip(names, pieces, strict=True)},
    }


def slices(state: State) -> dict[str, slice]:
    """Return where each entry of a state lies in ``flatten(state)``."""
    result, start = {}, 0
    for name, entry in state.items():
        result[name] = slice(start, start + entry.numel())
        start += entry.numel()
    return result


def real_entries(state: State) -> tuple[str, ...]:
    """Return the names of the entries that hold real numbers; counters and masks have no derivative."""
    return tuple(name for name, entry in state.items() if entry.is_floating_point())


def validate(transition: Transition, state: State) -> None:
    """Raise unless the state can be analysed: float64, finite, and with every entry that the layers name.

    Entries of integers or booleans, such as a position, may stand beside them; they are held fixed.
    """
    check_type("transition", transition, Transition, "give a Transition, such as model.transition(token)")
    check_type("state", state, dict, "give a dictionary of named tensors without a batch axis")
    for name, entry in state.items():
        if not isinstance(entry, Tensor):
            raise InputError(f"state entry {name!r} is {shown(entry)}; give a float64 tensor")
    if not transition.layer_states:
        raise InputError("layer_states is empty; name the state entries of at least one layer")
    blocks = dict.fromkeys(name for names in transition.layer_states for name in names)
    for name in blocks:
        if name not in state:
            raise unknown_name("state entry", name, state)
    for names in transition.layer_states:
        if len(set(names)) < len(names):
            raise InputError(
                f"layer_states has the layer {names}, which names an entry twice; name each once"
            )
        if not sum(state[name].numel() for name in names):
            raise InputError(f"layer_states has the layer {names} without a number; leave the layer out")
    for name, entry in state.items():
        if not (entry.is_floating_point() or entry.is_complex()):
            if name in blocks:
                raise InputError(
                    f"state entry {name!r} is {entry.dtype}, which has no derivative; "
                    "leave it out of layer_states (with `wrap`, name the others as layers)"
                )
            continue
        if entry.dtype != torch.float64:
            remedy = "convert model and state with .double()"
            if entry.is_complex():
                remedy = "keep its real and imaginary parts, as torch.view_as_real gives them"
            raise InputError(f"state entry {name!r} is {entry.dtype}; {remedy}")
        if not entry.isfinite().all():
            raise InputError(f"state entry {name!r} holds a non-finite number; give finite states only")


def check_image(image: object, latent: Tensor) -> None:
    """Raise unless Φ returned a latent."""
    wanted = f"return a {latent.dtype} tensor of shape {tuple(latent.shape)}, as the latent"
    if not isinstance(image, Tensor):
        raise InputError(f"what self_map returns is {shown(image)}; {wanted}")
    if image.shape != latent.shape or image.dtype != latent.dtype:
        if image.shape == (1, *latent.shape):
            wanted = f"give states without a batch axis, or {wanted}"
        raise InputError(f"self_map returns {image.dtype} of shape {tuple(image.shape)}; {wanted}")


@dataclass(frozen=True)
class BlockMap:
    """Φ and G as maps of the latent z and one block v, the entries ``names``, the rest held at ``state``.

    Example:
        >>> transition = Transition(
        ...     self_map=lambda z, s: s["window"],
        ...     state_update=lambda z, s: {"h": 2 * s["h"] + z, "window": s["window"]},
        ...     latent_size=1,
        ...     layer_states=(("h",),),
        ... )
        >>> state = {"h": torch.zeros(1), "window": torch.tensor([5.0])}
        >>> block = BlockMap(transition, state, ("h",))
        >>> block.vector, block.self_map(torch.zeros(1), torch.ones(1))
        (tensor([0.]), tensor([5.]))
    """

    transition: Transition
    state: State
    names: tuple[str, ...]

    @property
    def vector(self) -> Tensor:
        """The block's value v in ``state``, shape ``[n]``."""
        return flatten(self.state, self.names)

    def at(self, vector: Tensor) -> State:
        """Return the whole state with v in the block."""
        return replace(self.state, self.names, vector)

    def self_map(self, latent: Tensor, vector: Tensor) -> Tensor:
        """Return Φ(z; s) with v in the block, shape ``[latent_size]``."""
        return self.transition.self_map(latent, self.at(vector))

    def state_update(self, latent: Tensor, vector: Tensor) -> Tensor:
        """Return the same block of G(z; s) with v in the block, shape ``[n]``."""
        return flatten(self.transition.state_update(latent, self.at(vector)), self.names)


def last_place_displacements(vector: Tensor, probes: int, seed: int = 0) -> list[Tensor]:
    """Return vectors whose every entry is one unit in the last place above or below, at random."""
    signs = random_signs(probes, vector.numel(), vector, seed)
    return [vector.nextafter(sign * math.inf) for sign in signs]


def random_signs(count: int, size: int, like: Tensor, seed: int = 0) -> Tensor:
    """Return random ±1 vectors, shape ``[count, size]``: E ‖E r‖² = ‖E‖_F² for every matrix E."""
    draw = _signs if count * size <= 2**12 else _signs.__wrapped__  # few are drawn again and again
    return draw(count, size, seed).to(like, copy=True)


@functools.lru_cache(maxsize=64)
def _signs(count: int, size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, (count, size), generator=generator) * 2 - 1
