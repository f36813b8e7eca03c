"""(Φ, G) written for PyTorch, evaluated on balls, as `theory.rigorous.enclosure` takes it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError, unknown_name
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import concatenate
from theory.rigorous.tensors.enclosed_tensor import HEARD, EnclosedTensor
from theory.transition import TransitionBatch


@dataclass(frozen=True, eq=False)
class WholeUpdate:
    """One layer's h' = G(z; h), enclosed with its derivatives: any function, where a decay says more."""

    following: Dual  # h', [T, n]

    @property
    def coefficients(self) -> Dual:
        """Everything that h' depends on: h' itself, which is never independent of h."""
        return self.following

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        """Return one entry of h' at each position as what is added to a decay of zero, ``[T, 1]`` each."""
        drive = self.following.at(rows)
        return Dual.constant(Ball.exact(np.zeros(drive.value.shape)), drive.columns), drive


class EnclosedTransitionBatch:
    """The pairs (Φ, G) of a `theory.TransitionBatch` on balls, by running its own code on them.

    A layer's block of several parts of the state, such as h and c of an LSTM, is one vector here: `enclosed`
    puts states into this form. InputError for code with something that has no form on balls.

    Args:
        transitions: (Φ, G) at T positions. Their inputs, and the tensors that their code refers to, are taken
            as the real numbers that their floats are; what it computes of those alone, PyTorch computes, and
            the result is taken so too.
        shapes: of every part of a state.
    """

    def __init__(self, transitions: TransitionBatch, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.latent_size, self.damping = transitions.latent_size, transitions.damping
        self.layer_states = transitions.layer_states
        named = [name for names in self.layer_states for name in names]
        for name in named:
            if name not in shapes:
                raise unknown_name("state entry", name, shapes)
            if named.count(name) > 1:
                raise InputError(f"layer_states names {name!r} in two layers; prove each layer by itself")
        self.blocks = tuple("+".join(names) for names in self.layer_states)
        self._advance: Any = transitions.advance
        self._shapes = dict(shapes)
        self._inputs = {name: _at_positions(entry) for name, entry in transitions.inputs.items()}

    def enclosed(self, state: Mapping[str, NDArray[np.float64]], radius: Any = 0.0) -> dict[str, Ball]:
        """Return states, each part ``[T, …]``, with a ball of some radius for every entry of a block."""
        found = {
            block: np.concatenate([state[name].reshape(len(state[name]), -1) for name in names], axis=1)
            for block, names in zip(self.blocks, self.layer_states, strict=True)
        }
        own = {name for names in self.layer_states for name in names}
        wide = np.asarray(radius, dtype=np.float64)
        return {
            **{name: Ball.exact(entry) for name, entry in state.items() if name not in own},
            **{
                block: Ball.around(entry, wide[..., None] if wide.ndim else wide)
                for block, entry in found.items()
            },
        }

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, list[WholeUpdate]]:
        """Return Φ and the updates of all layers; see `theory.rigorous.EnclosedTransitions.advance`.

        Derivatives by h are NaN where Φ or G may have none in some direction of latent and h.
        """
        positions, columns = len(latent.value.midpoint), latent.columns
        if directions:  # and all directions at once, which shows a kink beside those that are asked for
            all_at_once = Ball.around(np.zeros((*latent.value.shape, 1)), 1.0)
            latent = Dual(latent.value, concatenate([latent.tangent, all_at_once], -1))
        entries: dict[str, EnclosedTensor] = {}
        for layer, (block, names) in enumerate(zip(self.blocks, self.layer_states, strict=True)):
            flat = state[block].reshape(positions, -1)
            tangent = None
            if directions:
                along = directions[block].reshape(positions, 1, -1)
                seed = np.zeros((1, columns, 1))
                seed[:, self.latent_size + layer] = 1.0
                tangent = concatenate(
                    [along * Ball.exact(seed), Ball.around(np.zeros_like(along.midpoint), 1.0)], 1
                )
            entries |= self._split(EnclosedTensor(flat, tangent), names)
        for name, shape in self._shapes.items():
            if name not in entries:
                # who listens hears of all that is done with a state, as on tensors
                heard = HEARD.get()
                unheard = heard is None or name in heard.whole
                none = None if unheard else Ball.exact(np.zeros((positions, latent.columns, *shape)))
                entries[name] = EnclosedTensor(state[name].reshape(positions, *shape), none)
        image, following = self._called(latent, entries)
        found = [to_dual(image, positions, latent.columns)]
        for names in self.layer_states:
            parts = [self._part(following, name) for name in names]
            found.append(to_dual(EnclosedTensor.joined(parts), positions, latent.columns))
        if directions:
            found = _where_smooth(found, columns, self.latent_size)
        return found[0], [WholeUpdate(update) for update in found[1:]]

    def whole(self, latent: Dual, state: Dual) -> tuple[Dual, Dual]:
        """Return Φ and the whole next state, with the derivatives that latent and state come with.

        A state is all its parts one after the other, in the order of the shapes, ``[T, n]``.
        """
        positions, columns = len(state.value.midpoint), state.columns
        entries = self._split(from_dual(state), tuple(self._shapes))
        image, following = self._called(latent, entries)
        parts = EnclosedTensor.joined([self._part(following, name) for name in self._shapes])
        return to_dual(image, positions, columns), to_dual(parts, positions, columns)

    def _called(self, latent: Dual, entries: Mapping[str, EnclosedTensor]) -> tuple[EnclosedTensor, Any]:
        """Φ and what the code gives for the next state."""
        try:
            image, following = self._advance(from_dual(latent), entries, self._inputs)
        except (AssertionError, AttributeError, IndexError, RuntimeError, TypeError, ValueError) as fault:
            if isinstance(fault, InputError):
                raise
            raise InputError(
                f"on balls Φ or G raises {type(fault).__name__}: {' '.join(str(fault).split())[:120]}; "
                "write them with PyTorch's functions only"
            ) from fault
        image = EnclosedTensor.constant(image)
        if tuple(image.shape) != (self.latent_size,):
            raise InputError(
                f"Φ has shape {tuple(image.shape)}; return ({self.latent_size},), that of the latent"
            )
        return image, following

    def _split(self, block: EnclosedTensor, names: Sequence[str]) -> dict[str, EnclosedTensor]:
        sizes = [math.prod(self._shapes[name]) for name in names]
        parts = block.split(sizes)
        return {name: part.reshaped(self._shapes[name]) for name, part in zip(names, parts, strict=True)}

    def _part(self, following: Mapping[str, Any], name: str) -> EnclosedTensor:
        if name not in following:
            raise unknown_name("state entry", name, following)
        part = EnclosedTensor.constant(following[name])
        if tuple(part.shape) != tuple(self._shapes[name]):
            wanted = tuple(self._shapes[name])
            raise InputError(
                f"G returns {name!r} of shape {tuple(part.shape)}; return {wanted}, as in the state"
            )
        return part


def _where_smooth(found: Sequence[Dual], columns: int, size: int) -> list[Dual]:
    """Leave out the last column, and make those by h NaN at a position where an entry of it is not finite."""
    last = [dual.tangent[..., columns] for dual in found]
    rough = ~np.all([np.isfinite(one.magnitude).all(axis=1) for one in last], axis=0)
    by_state = rough[:, None, None] & (np.arange(columns) >= size)
    return [
        Dual(
            dual.value,
            Ball(
                np.where(by_state, np.nan, dual.tangent.midpoint[..., :columns]),
                dual.tangent.radius[..., :columns],
            ),
        )
        for dual in found
    ]


def _at_positions(entry: Any) -> EnclosedTensor:
    """Take the first axis of an entry, or of what was computed on balls, for that of positions."""
    return EnclosedTensor(EnclosedTensor.constant(entry).value[0])


def from_dual(dual: Dual) -> EnclosedTensor:
    """Return balls with their derivatives as what code for PyTorch computes with."""
    tangent = Ball(np.moveaxis(dual.tangent.midpoint, -1, 1), np.moveaxis(dual.tangent.radius, -1, 1))
    return EnclosedTensor(dual.value, tangent if dual.columns else None)


def to_dual(numbers: EnclosedTensor, positions: int, columns: int) -> Dual:
    """Undo `from_dual`, for so many positions and directions."""
    shape = (positions, *numbers.shape)
    value = Ball(
        *(np.array(np.broadcast_to(a, shape)) for a in (numbers.value.midpoint, numbers.value.radius))
    )
    if numbers.tangent is None or not columns:
        return Dual.constant(value, columns)
    wide = (positions, columns, *numbers.shape)
    parts = (numbers.tangent.midpoint, numbers.tangent.radius)
    return Dual(value, Ball(*(np.moveaxis(np.broadcast_to(part, wide), 1, -1).copy() for part in parts)))
