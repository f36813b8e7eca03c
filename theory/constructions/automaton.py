"""Every finite automaton is an implicit SSM, exactly and at every length.

Two forms. ``ssm_of_automaton`` looks up the next state by the nearest code, and so removes noise.
``relu_rnn_of_automaton`` writes the automaton as the weights of a ReLU RNN with one unit for every pair
of state and token, which ``ssm_of_rnn`` turns into an implicit SSM that is smooth at the states it
visits.
"""

from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from automata.errors import InputError
from automata.monoids.cayley import IntArray, integer_array
from theory.constructions.implicit_ssm import ImplicitSSM, require_numbers, ssm_of_map

Encoding = Literal["one-hot", "number"]
"""The code of a state: a unit vector, or its number."""


def ssm_of_automaton(
    table: ArrayLike,
    initial: int = 0,
    decay: float | None = None,
    *,
    encoding: Encoding = "one-hot",
    dtype: torch.dtype = torch.float32,
) -> ImplicitSSM:
    """Return the implicit SSM that tracks a finite automaton, with a constant diagonal Λ = λ.

    With c(q) the code of state q and q(z) the state whose code is nearest to z,

        u(z, x) = c(δ(q(z), x)) − λ c(q(z)) .

    Codes are the unit vectors (``"one-hot"``), or the numbers 0, 1, 2, … themselves (``"number"``), with
    which one dimension is enough. Inputs are token numbers ``[B, L]``; ``decode_states`` reads the
    states.

    *Exact for every length*, as no operation rounds (Proposition 6 of ``docs/what_can_be_tracked.md``).

    *Sweeps.* h_t − c(δ(q(z_t), x_t)) = λ (h_{t−1} − c(q(z_t))) in any sweep. If codes are at most D apart
    in each entry, the right-hand side stays below λ D/(1 − λ), which is less than 1/2 for λ ≤ 1/4
    (one-hot, D = 1) and λ ≤ 1/(2n) (number, D = n − 1). Then h_t decodes to what was written at t, and a
    sweep is one step of Jacobi iteration on the automaton.

    InputError if the table holds something that is no state, the initial state is none, the decay is not such
    a power of two, or the type is too narrow.

    Args:
        table: δ, shape ``[states, tokens]``; the number of the state after the token.
        initial: the number of the initial state.
        decay: λ, a power of two from 2⁻⁷ (one-hot) or 2⁻¹² (number) to 1; the largest that gives Jacobi
            iteration if None.
        encoding: what stands for a state.
        dtype: of all arithmetic. Numbers need float32 or float64, at most 2000 states.

    Example:
        >>> parity = ssm_of_automaton([[0, 1], [1, 0]])
        >>> parity.run(torch.tensor([[1, 0, 1, 1]])).argmax(dim=-1).tolist()
        [[1, 1, 0, 1]]
    """
    delta = _checked(table, initial)
    states = len(delta)
    smallest, largest = (7, 2) if encoding == "one-hot" else (12, (2 * states - 1).bit_length())
    chosen = 2.0**-largest if decay is None else decay
    if chosen not in {2.0**-exponent for exponent in range(smallest + 1)}:
        raise InputError(f"decay is {chosen}; give a power of two from 2**-{smallest} to 1, such as 0.25")
    if encoding == "number" and (dtype not in (torch.float32, torch.float64) or states > 2000):
        raise InputError(
            f"encoding is 'number' with {states} states in {dtype}; give at most 2000 states in float32 or "
            "float64, or the encoding 'one-hot'"
        )
    numbers = torch.arange(states, dtype=dtype)[:, None]
    codes = torch.eye(states, dtype=dtype) if encoding == "one-hot" else numbers
    following = torch.from_numpy(delta)
    return ssm_of_map(
        lambda state, tokens: codes[following[decode_states(state, states), tokens]],
        codes[initial],
        chosen,
        retraction=lambda latents: codes[decode_states(latents, states)],
        check_inputs=require_numbers("tokens", delta.shape[1]),
    )


def decode_states(codes: Tensor, states: int) -> Tensor:
    """Return the states whose codes are nearest: the largest entry, or of ``[..., 1]`` the nearest number.

    Example:
        >>> decode_states(torch.tensor([[0.1, 0.8], [0.6, 0.4]]), 2).tolist()
        [1, 0]
    """
    if codes.shape[-1] == states:
        return codes.argmax(dim=-1)
    return codes[..., 0].round().clamp(0, states - 1).long()


def relu_rnn_of_automaton(table: ArrayLike, initial: int = 0) -> tuple[torch.nn.RNN, Tensor]:
    """Return a ReLU RNN that tracks a finite automaton, and its initial state.

    Unit (q, a) is 1 when the automaton has just come to q by reading a, and 0 otherwise. Its
    pre-activation is 2 [q = δ(p, a)] + 2 [x = a] − 3 for the state p before: 1 if both hold, −1 or −3 if
    not. All numbers are integers between −3 and 2. At no reachable state is a pre-activation 0, so the
    transition is differentiable there. InputError if the table holds something that is no state, or the
    initial state is none.

    Returns:
        The RNN (float64, batch first), which reads one-hot tokens ``[B, L, tokens]``, and h₀ of shape
        ``[states · tokens]``. The state of the automaton is ``h.unflatten(-1,
        table.shape).sum(-1).argmax(-1)``.

    Example:
        >>> rnn, initial = relu_rnn_of_automaton([[0, 1], [1, 0]])
        >>> tokens = torch.eye(2, dtype=torch.float64)[torch.tensor([[1, 0, 1, 1]])]
        >>> states, _ = rnn(tokens, initial[None, None])
        >>> states.unflatten(-1, (2, 2)).sum(-1).argmax(-1).tolist()
        [[1, 1, 0, 1]]
    """
    delta = _checked(table, initial)
    states, tokens = delta.shape
    # recur[(q, a), (p, b)] = 2 [q = δ(p, a)], for every b
    arrives = torch.from_numpy(delta.T[None] == np.arange(states)[:, None, None]).double()
    recur = 2 * arrives.reshape(states * tokens, states).repeat_interleave(tokens, dim=1)
    rnn = torch.nn.RNN(tokens, states * tokens, nonlinearity="relu", batch_first=True, dtype=torch.float64)
    enter = 2 * torch.eye(tokens, dtype=torch.float64).repeat(states, 1)
    bias = torch.full((states * tokens,), -3.0, dtype=torch.float64)
    rnn.load_state_dict(
        {
            "weight_hh_l0": recur,
            "weight_ih_l0": enter,
            "bias_hh_l0": bias,
            "bias_ih_l0": torch.zeros_like(bias),
        }
    )
    start = torch.zeros(states * tokens, dtype=torch.float64)
    start[initial * tokens] = 1.0
    return rnn, start


def _checked(table: ArrayLike, initial: int) -> IntArray:
    delta = np.array(integer_array("table", table))
    if delta.ndim != 2 or not delta.size:
        raise InputError(f"table has shape {list(delta.shape)}; give [states, tokens], at least one of each")
    for field, number in (("table", int(delta.min())), ("table", int(delta.max())), ("initial", initial)):
        if not 0 <= number < len(delta):
            raise InputError(f"{field} holds {number}; give numbers of states, 0 … {len(delta) - 1}")
    return delta
