"""The form in which every recurrent model is analysed: a self-map Φ and a state update G.

| code                | paper          | meaning                                                        |
|---------------------|----------------|----------------------------------------------------------------|
| ``latent``          | z              | what is iterated to the fixed point, shape ``[latent_size]``   |
| ``state``           | s, (h)         | what is carried from token to token                            |
| ``self_map``        | Φ(z; s, x)     | one self-iteration; the fixed point is z* = Φ(z*; s, x)        |
| ``state_update``    | G(z; s, x)     | the next state s' = G(z*; s, x)                                |
| ``damping``         | τ              | the iteration is z ← (1 − τ) z + τ Φ(z)                        |

For the implicit SSM of Schöne et al. 2025 (arXiv 2502.07827, Eq. 1 and 2), G(z; h, x) = Λ(z, x) ⊙ h + u(z, x)
and Φ(z; h, x) = f(z, G(z; h, x), x).

A `TransitionBatch` takes the token as an argument, so that ``torch.func.vmap`` maps one evaluation over many
pairs (state, token) in place of one Python call each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from torch import Tensor

from automata.checks import check_integer, check_number, check_type, shown
from automata.errors import InputError

State = dict[str, Tensor]
"""A recurrent state: named tensors, without a batch axis here and with a leading one in the models."""


@dataclass(frozen=True)
class Transition:
    """One token's transition of a recurrent model as a pair (Φ, G), for a single sequence.

    InputError for what is no function, or a number outside of its range.

    Attributes:
        self_map: Φ(z; s), with the token x fixed; takes the latent of shape ``[latent_size]`` and the state,
            returns the next latent. Must be a pure function that ``torch.func`` can transform.
        state_update: G(z; s), with the token x fixed; returns the next state with the names and shapes of s.
        latent_size: the number of entries of z; 0 for a model without a fixed point (then Φ is the map on
            the empty vector and G is the whole transition).
        layer_states: for each layer the names of the state entries that Theorem 1 speaks of: the SSM state h
            without the convolution window; for an LSTM its hidden and cell state together.
        damping: τ of the iteration that the model runs, in (0, 1].

    Example:
        A scalar RNN s' = tanh(2 s) in implicit form: z = s and G(z; s) = s/2 + (tanh(2 z) − z/2).

        >>> import torch
        >>> transition = Transition(
        ...     self_map=lambda z, state: state["h"],
        ...     state_update=lambda z, state: {"h": 0.5 * state["h"] + torch.tanh(2 * z) - 0.5 * z},
        ...     latent_size=1,
        ...     layer_states=(("h",),),
        ... )
        >>> transition.state_update(torch.ones(1), {"h": torch.ones(1)})["h"]
        tensor([0.9640])
    """

    self_map: Callable[[Tensor, State], Tensor] = field(repr=False)  # may hold weights and inputs
    state_update: Callable[[Tensor, State], State] = field(repr=False)
    latent_size: int
    layer_states: tuple[tuple[str, ...], ...]
    damping: float = 1.0

    def __post_init__(self) -> None:
        for name in ("self_map", "state_update"):
            given = getattr(self, name)
            if not callable(given):
                raise InputError(f"{name} is {shown(given)}; give a function of latent and state")
        check_integer("latent_size", self.latent_size, 0)
        if not 0 < check_number("damping", self.damping) <= 1:
            raise InputError(f"damping is {self.damping}; give a number above 0 and at most 1")
        check_type("layer_states", self.layer_states, Sequence, "give the names of each layer, (('h',),)")
        for names in self.layer_states:
            if isinstance(names, str):  # type: ignore[unreachable]
                raise InputError(
                    f"layer_states holds the text {names!r}; give the names of each layer as a tuple, "
                    f"(({names!r},),)"
                )


TokenInputs = dict[str, Tensor]
"""The part of a token in Φ and G: named tensors, in a batch with a leading axis of positions."""


def _keep_latent(
    update: Callable[[State, TokenInputs], State], latent: Tensor, state: State, inputs: TokenInputs
) -> tuple[Tensor, State]:
    """Return the latent as it is, and the next state; a function of the module, so that it can be pickled."""
    return latent, update(state, inputs)


@dataclass(frozen=True, eq=False)
class TransitionBatch:
    """The pairs (Φ, G) of the tokens at T positions.

    InputError if there are no inputs, or not equally many of each.

    Attributes:
        advance: (z, s, x) ↦ (Φ(z; s, x), G(z; s, x)) of one position: the next latent, of shape
            ``[latent_size]``, and the next state, with the names and shapes of s. No argument has an axis of
            positions. A pure function that ``torch.func`` can transform; in one piece, as Φ of an SSM
            contains G.
        inputs: x at every position, each entry ``[T, …]``.
        latent_size: the number of entries of z; 0 for a model without a fixed point.
        layer_states: for each layer the names of the state entries that Theorem 1 speaks of.
        damping: τ of the iteration that the model runs, in (0, 1].

    Example:
        h' = λ(x) h + x, without a latent, at three positions.

        >>> import torch
        >>> batch = TransitionBatch(
        ...     advance=lambda z, s, x: (z, {"h": x["decay"] * s["h"] + x["drive"]}),
        ...     inputs={"decay": torch.tensor([0.5, 0.5, 0.0]), "drive": torch.tensor([0.0, 1.0, 2.0])},
        ...     latent_size=0,
        ...     layer_states=(("h",),),
        ... )
        >>> len(batch), batch[1].state_update(torch.zeros(0), {"h": torch.ones(1)})
        (3, {'h': tensor([1.5000])})
    """

    advance: Callable[[Tensor, State, TokenInputs], tuple[Tensor, State]] = field(repr=False)
    inputs: TokenInputs = field(repr=False)
    latent_size: int
    layer_states: tuple[tuple[str, ...], ...]
    damping: float = 1.0

    def __post_init__(self) -> None:
        counts = {name: entry.shape[0] if entry.ndim else 0 for name, entry in self.inputs.items()}
        if len(set(counts.values())) != 1 or 0 in counts.values():
            raise InputError(
                f"inputs has {counts} positions; give at least one entry, the same T ≥ 1 for each"
            )

    @classmethod
    def without_latent(
        cls,
        update: Callable[[State, TokenInputs], State],
        inputs: TokenInputs,
        layer_states: tuple[tuple[str, ...], ...],
    ) -> Self:
        """Return the pairs of a model without a fixed point, whose whole transition is (s, x) ↦ G."""
        return cls(partial(_keep_latent, update), inputs, 0, layer_states)

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def __getitem__(self, position: int) -> Transition:
        return self.at({name: entry[position] for name, entry in self.inputs.items()})

    def at(self, inputs: TokenInputs) -> Transition:
        """Return (Φ, G) of the token with these inputs, without an axis of positions."""
        return Transition(
            self_map=partial(self._part, 0, inputs),
            state_update=partial(self._part, 1, inputs),
            latent_size=self.latent_size,
            layer_states=self.layer_states,
            damping=self.damping,
        )

    def _part(self, part: int, inputs: TokenInputs, latent: Tensor, state: State) -> Any:
        return self.advance(latent, state, inputs)[part]
