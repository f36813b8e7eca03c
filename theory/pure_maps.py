"""Checks of a user's Φ and G: what they return, and that torch.func can differentiate them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor
from torch.func import vjp

from automata.checks import check_type
from automata.errors import InputError, unknown_name
from theory.blocks import BlockMap, check_image, random_signs, validate
from theory.forward_mode import directional
from theory.transition import State, Transition

_REMEDY = "write it with torch operations only, without NumPy, .item(), .data or .detach()"
_SAME = 2.0**-40
"""How far two evaluations at one point may differ, relative to the norm: some sums are taken in any order."""
_PROBE = 2.0**-12
"""How far Φ and G are probed: far above rounding, near enough that the linear part of a change leads."""

Returned = TypeVar("Returned")


def validate_states(transition: Transition, states: Sequence[State]) -> None:
    """Raise unless there are states that can be analysed, and Φ and G are pure functions of torch."""
    if isinstance(states, dict):
        raise InputError("states is a single state; give a list of states")
    check_type("states", states, Sequence, "give a list of states")
    if not states:
        raise InputError("states is empty; give at least one visited state")
    for state in states:
        validate(transition, state)
    validate_maps(transition, states[0])


@torch.no_grad()
def validate_maps(transition: Transition, state: State) -> None:
    """Raise unless Φ and G return what they should, and torch.func can differentiate them."""
    names = tuple(dict.fromkeys(name for layer in transition.layer_states for name in layer))
    latent = state[names[0]].new_zeros(transition.latent_size)
    _check_returned(transition, state, latent, names)
    block = BlockMap(transition, state, names)
    if transition.latent_size:
        _check_derivative("self_map", lambda z: block.self_map(z, block.vector), latent)
        _check_derivative("self_map", lambda v: block.self_map(latent, v), block.vector, reverse=True)
        _check_derivative("state_update", lambda z: block.state_update(z, block.vector), latent)
    _check_derivative("state_update", lambda v: block.state_update(latent, v), block.vector)


def _check_returned(transition: Transition, state: State, latent: Tensor, names: Sequence[str]) -> None:
    """Raise unless Φ and G return what they should at a point, and change nothing that they are given."""
    image = called("self_map", transition.self_map, latent, state) if transition.latent_size else latent
    check_image(image, latent)
    following = called("state_update", transition.state_update, latent, state)
    check_type("what state_update returns", following, dict, "return a dictionary like the state")
    for name in names:
        if name not in following:
            raise unknown_name("state entry", name, following)
        found, wanted = following[name], state[name]
        check_type(f"state_update: entry {name!r}", found, Tensor, "return a tensor, as in the state")
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise InputError(
                f"state_update returns entry {name!r} as {found.dtype} of shape {tuple(found.shape)}; "
                f"return {wanted.dtype} of shape {tuple(wanted.shape)}, as in the state"
            )


@contextmanager
def differentiating(
    transition: Transition, state: State, latent: Tensor, names: Sequence[str]
) -> Iterator[None]:
    """Check what Φ and G return before they are differentiated, and say so where that cannot be done."""
    with torch.no_grad():
        _check_returned(transition, state, latent, names)
    try:
        yield
    except RuntimeError as error:
        validate_maps(transition, state)  # which of the two it is, and why
        raise without_derivative("self_map or state_update", error) from error


def called(
    name: str, function: Callable[[Tensor, State], Returned], latent: Tensor, state: State
) -> Returned:
    """Return what Φ or G returns; InputError if it raises, or changes what it is given."""
    given, parts = latent.clone(), {entry: part.clone() for entry, part in state.items()}
    held = dict(parts)
    try:
        found = function(given, parts)
    except (InputError, Warning):  # a warning that the user made an error says nothing of the function
        raise
    except Exception as error:
        shapes = ", ".join(f"{entry} {tuple(part.shape)}" for entry, part in state.items())
        raise InputError(
            f"{name} raised {_reason(error)} for a latent of shape {tuple(latent.shape)} and a state of "
            f"{shapes}; give float64 states of this model without a batch axis, and a model that is .double()"
        ) from error
    copies = [("latent", latent, given), *((f"state entry {e!r}", state[e], held[e]) for e in state)]
    for what, before, after in copies:
        changed = not (after.is_inference() or after._version == 0)  # also where the numbers stay the same
        if changed or not torch.equal(before.nan_to_num(), after.nan_to_num()):
            raise InputError(
                f"{name} changes its {what} in place; write z = z + ..., or take a .clone() before"
            )
    if parts.keys() != held.keys() or any(parts[entry] is not held[entry] for entry in held):
        raise InputError(f"{name} changes the dictionary that it is given; begin with state = dict(state)")
    return found


def _check_derivative(
    name: str, function: Callable[[Tensor], Tensor], point: Tensor, *, reverse: bool = False
) -> None:
    """Refuse a function that torch.func cannot transform, or whose derivative is lost on the way."""
    size = point.abs().max().item() if point.numel() else 1.0
    # Entries may be of very different units; one that is zero moves as far as the largest, or by 1.
    direction = random_signs(1, point.numel(), point)[0] * torch.where(point == 0, size or 1.0, point.abs())
    try:
        slope = directional(function, point, direction[None])
        if reverse:
            vjp(function, point)
    except Warning:
        raise
    except Exception as error:
        raise without_derivative(name, error) from error
    first, second = (function(point + direction) for _ in range(2))
    if (first - second).norm() > _SAME * first.norm():
        raise InputError(
            f"{name} gives two results at one point; it has to be a function of latent and state alone, "
            "without random numbers and without what it remembers"
        )
    if bool(slope.any()):
        return
    # A change in proportion to the step, over short and long ways and backwards, is that of a slope; that of
    # a jump, of steps or of a kink is not, nor a quadratic one.
    changes = [(function(point + k * _PROBE * direction) - function(point)) / k for k in (2**-16, 1, 2, -1)]
    tiny, near, far, behind = (change.norm().item() for change in changes)
    turns = (changes[3] - changes[1]).norm().item() > 0.5 * (near + behind)
    if not turns and 0.75 * near < far < 1.5 * near and 0.5 * near < tiny < 2 * near:
        raise InputError(
            f"{name} changes with its input, and its derivative is 0; leave out rounding, comparisons, .data "
            "and .detach()"
        )


def without_derivative(name: str, error: Exception) -> InputError:
    """Return the sentence about Φ or G that torch.func cannot differentiate."""
    remedy = "call model.eval() and draw no numbers" if "random" in str(error) else _REMEDY
    return InputError(f"{name} cannot be differentiated ({_reason(error)}); {remedy}")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
