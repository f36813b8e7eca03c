"""Theorem 1 of a model in one call: at states that sequences of tokens visit."""

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from automata.checks import check_integer, check_type
from automata.errors import InputError
from theory.fixed_point import solve_fixed_point
from theory.theorem1.check import check_theorem1
from theory.theorem1.report import Theorem1Report
from theory.transition import State, Transition


@runtime_checkable
class HasTransition(Protocol):
    """What is checked: any model that gives its initial state and (Φ, G) of a token."""

    def init_state(self, batch_size: int) -> State:
        """Return the state before the first token, with a leading batch axis."""
        ...

    def transition(self, token: int) -> Transition:
        """Return (Φ, G) at a token."""
        ...


def check(
    model: HasTransition,
    tokens: Tensor | Sequence[int] | Sequence[Sequence[int]],
    *,
    states: int = 16,
    max_iterations: int = 4000,
    seed: int | None = None,
) -> Theorem1Report:
    """Say whether a model's state transition is non-diagonal and non-linear, and whether Theorem 1 says so.

    The model is checked in float64, at states that the tokens lead to, each with the token that is read next.
    Printing the report shows the answer in words; ``headline`` is its first part.

    Args:
        model: a module with ``init_state(batch_size)`` and ``transition(token)``. A copy of it is used.
        tokens: one sequence or several, ``[length]`` or ``[sequences, length]``.
        states: how many states are checked at most, spread over the sequences. The state before a first
            token is not among them, unless sequences have one token.
        max_iterations: the most damped iterations of a solve.
        seed: as for `check_theorem1`.

    Raises:
        InputError: for a model or tokens of another kind.

    Example:
        >>> class Halved(nn.Module):
        ...     '''h' = h/2 + token: linear, and without a fixed point.'''
        ...     def init_state(self, batch_size):
        ...         return {"h": torch.zeros(batch_size, 2)}
        ...     def transition(self, token):
        ...         return Transition(lambda z, s: z, lambda z, s: {"h": s["h"] / 2 + token}, 0, (("h",),))
        >>> check(Halved(), [0, 1, 1])
        Diagonal and linear; Theorem 1 does not apply (no fixed point); measured at 2 visited states.
        The transition is diagonal and linear: as in Mamba-2, ...
    """
    check_type("model", model, HasTransition, "give a model with init_state and transition")
    check_integer("states", states, 1)
    rows = _rows(tokens)
    if isinstance(model, nn.Module):
        model = copy.deepcopy(model).double().eval()
    transitions: dict[int, Transition] = {}
    visited: dict[int, list[State]] = defaultdict(list)
    places = [(row, at) for row in range(len(rows)) for at in range(min(1, len(rows[0]) - 1), len(rows[0]))]
    chosen = np.linspace(0, len(places) - 1, min(states, len(places))).round().astype(int)
    wanted = {places[place] for place in chosen}
    for number, row in enumerate(rows):
        last = max((at for of, at in wanted if of == number), default=-1)
        state = _without_batch(model.init_state(1))
        for at, token in enumerate(row[: last + 1]):
            if token not in transitions:
                transitions[token] = model.transition(token)
            if (number, at) in wanted:
                visited[token].append(state)
            if at < last:
                transition = transitions[token]
                latent = solve_fixed_point(transition, state, max_iterations=max_iterations).latent
                with torch.no_grad():
                    state = transition.state_update(latent, state)
    everywhere = [state for several in visited.values() for state in several]
    return Theorem1Report.merge(
        check_theorem1(
            transitions[token],
            several,
            alternatives=everywhere,
            max_iterations=max_iterations,
            label=f"token {token}",
            seed=seed,
        )
        for token, several in visited.items()
    )


def _rows(tokens: object) -> list[list[int]]:
    """The sequences as lists of whole numbers."""
    try:
        found = torch.as_tensor(tokens)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(
            f"tokens is {type(tokens).__name__}; give whole numbers, such as [0, 1, 1]"
        ) from None
    if found.is_floating_point() or found.is_complex() or found.ndim not in (1, 2) or not found.numel():
        raise InputError(
            f"tokens is {found.dtype} of shape {[*found.shape]}; give whole numbers, "
            "[length] or [sequences, length]"
        )
    rows: list[list[int]] = found.reshape(-1, found.shape[-1]).tolist()
    return rows


def _without_batch(state: State) -> State:
    """The state of one sequence, in float64."""
    return {name: part[0].double() if part.is_floating_point() else part[0] for name, part in state.items()}
