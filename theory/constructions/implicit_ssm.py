"""Implicit SSMs whose self-map is constant, so that the fixed point is unique and known in closed form.

| code       | symbol      | meaning                                                                     |
|------------|-------------|-----------------------------------------------------------------------------|
| ``decay``  | Λ(z, x)     | the diagonal, with no entry zero                                            |
| ``drive``  | u(z, x)     | what is written                                                             |
| ``update`` | G(z; h, x)  | Λ(z, x) ⊙ h + u(z, x), the next state                                       |
| ``read``   | f(z, h', x) | (h' − u(z, x)) / Λ(z, x), which undoes the update                           |

Since f undoes G, Φ(z; h, x) = f(z, G(z; h, x), x) = h whatever z is. So z* = h, one iteration reaches it,
and the transition is h ↦ Λ(h, x) ⊙ h + u(h, x): *any* map, by the choice of u.
``docs/what_can_be_tracked.md`` has the proofs.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from automata.errors import InputError
from theory.transition import Transition

Map = Callable[[Tensor, Tensor], Tensor]
"""A function of latents ``[..., n]`` and of what is read at the tokens, ``[...]`` or ``[..., m]``."""


@dataclass(frozen=True, eq=False)
class SweepResult:
    """The result of iterating all tokens together.

    Attributes:
        states: h after every token in the last sweep, shape ``[B, L, n]``.
        latents: z after the last sweep, shape ``[B, L, n]``.
        sweeps: the last sweep that changed the latent of the token, int64 ``[B, L]``.
        converged: whether the last sweep changed neither the token nor one before it, ``[B, L]``.
    """

    states: Tensor
    latents: Tensor
    sweeps: Tensor
    converged: Tensor


@dataclass(frozen=True, eq=False)
class ImplicitSSM:
    """h' = Λ(z, x) ⊙ h + u(z, x) with z = f(z, h', x), where f undoes the update.

    The form is that of Schöne et al. 2025 (arXiv 2502.07827, Eq. 1 and 2).

    Attributes:
        decay: Λ; takes latents ``[..., n]`` and inputs, returns what broadcasts to ``[..., n]``.
        drive: u; returns ``[..., n]``.
        initial: h₀, shape ``[n]``. Its type is that of all arithmetic.
        check_inputs: raises InputError for inputs ``[B, L]`` or ``[B, L, m]`` that Λ and u cannot read;
            asked by `run` and `solve`.

    Example:
        h' = max(h, x), which no linear recurrence computes, with Λ = 1/2:

        >>> running_maximum = ImplicitSSM(
        ...     decay=lambda z, x: torch.tensor(0.5),
        ...     drive=lambda z, x: torch.maximum(z, x) - 0.5 * z,
        ...     initial=torch.zeros(1),
        ... )
        >>> inputs = torch.tensor([[[1.0], [3.0], [2.0]]])
        >>> running_maximum.run(inputs).flatten().tolist()
        [1.0, 3.0, 3.0]
    """

    decay: Map
    drive: Map
    initial: Tensor
    check_inputs: Callable[[Tensor], None] | None = None

    @property
    def size(self) -> int:
        """n, the number of entries of the state and of the latent."""
        return len(self.initial)

    def update(self, latent: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """Return G(z; h, x) = Λ(z, x) ⊙ h + u(z, x), shape ``[..., n]``."""
        return self.decay(latent, inputs) * state + self.drive(latent, inputs)

    def read(self, latent: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """Return f(z, h', x) = (h' − u(z, x)) / Λ(z, x), shape ``[..., n]``."""
        return (state - self.drive(latent, inputs)) / self.decay(latent, inputs)

    def self_map(self, latent: Tensor, state: Tensor, inputs: Tensor) -> Tensor:
        """Return Φ(z; h, x) = f(z, G(z; h, x), x), which is h up to rounding."""
        return self.read(latent, self.update(latent, state, inputs), inputs)

    def transition(self, inputs: Tensor) -> Transition:
        """Return (Φ, G) of one token, its inputs without further axes; the state entry is called ``"h"``."""
        return Transition(
            self_map=lambda latent, state: self.self_map(latent, state["h"], inputs),
            state_update=lambda latent, state: {"h": self.update(latent, state["h"], inputs)},
            latent_size=self.size,
            layer_states=(("h",),),
        )

    def step(self, state: Tensor, inputs: Tensor, start: Tensor | None = None) -> Tensor:
        """Return the next state ``[..., n]`` by one iteration of Φ from ``start`` (zeros if None), then G."""
        guess = torch.zeros_like(state) if start is None else start
        return self.update(self.self_map(guess, state, inputs), state, inputs)

    def run(self, inputs: Tensor, state: Tensor | None = None) -> Tensor:
        """Return the states after every token, ``[B, L, n]``, one after the other, one iteration at each.

        Inputs are ``[B, L]`` or ``[B, L, m]``; the state before the first token, ``[B, n]``, is h₀ if None.
        InputError if there is no token, or one that cannot be read.
        """
        self._require(inputs)
        current = self.initial.expand(len(inputs), -1) if state is None else state
        states = []
        for position in range(inputs.shape[1]):
            current = self.step(current, inputs[:, position])
            states.append(current)
        return torch.stack(states, dim=1)

    def sweep(self, latents: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate all tokens together once: the scan of h with Λ and u of these latents, then f.

        Return the next latents and the states, both ``[B, L, n]``.
        """
        drive = self.drive(latents, inputs)
        decay = self.decay(latents, inputs).expand_as(drive)
        state, states = self.initial.expand(len(inputs), -1), torch.empty_like(drive)
        for position in range(inputs.shape[1]):
            state = decay[:, position] * state + drive[:, position]
            states[:, position] = state
        return (states - drive) / decay, states

    def solve(
        self,
        inputs: Tensor,
        start: Tensor | None = None,
        *,
        tolerance: float = 0.0,
        max_sweeps: int | None = None,
    ) -> SweepResult:
        """Iterate all tokens together until no latent moves by more than the tolerance.

        In exact arithmetic the state after token t = 1, 2, … is right from sweep t on if the first token
        starts at h₀, and from sweep t + 1 on whatever the start. So L + 1 sweeps do. InputError if there is
        no token, or one that cannot be read, or max_sweeps is below 1.

        Args:
            inputs: shape ``[B, L]`` or ``[B, L, m]``.
            start: z before the first sweep, ``[B, L, n]``; h₀ at every token if None.
            tolerance: the largest change of an entry that counts as none; 0 for constructions that are
                exact.
            max_sweeps: L + 1 if None.
        """
        self._require(inputs)
        batch, length = inputs.shape[:2]
        limit = length + 1 if max_sweeps is None else max_sweeps
        if limit < 1:
            raise InputError(f"max_sweeps is {limit}; give at least 1")
        latents = self.initial.expand(batch, length, -1) if start is None else start
        sweeps = torch.zeros(batch, length, dtype=torch.int64)
        moved, states = torch.ones(batch, length, dtype=torch.bool), latents
        for number in range(1, limit + 1):
            following, states = self.sweep(latents, inputs)
            # written so that NaN counts as a change
            moved = ~((following - latents).abs().amax(dim=-1) <= tolerance)
            sweeps[moved] = number
            latents = following
            if not moved.any():
                break
        return SweepResult(states, latents, sweeps, moved.cumsum(dim=1) == 0)

    def _require(self, inputs: Tensor) -> None:
        if inputs.ndim < 2 or inputs.shape[1] < 1:
            raise InputError(f"inputs has shape {list(inputs.shape)}; give [B, L] or [B, L, m] with L ≥ 1")
        if self.check_inputs is not None:
            self.check_inputs(inputs)


def require_numbers(field: str, count: int) -> Callable[[Tensor], None]:
    """Return a check that inputs are numbers 0 … count−1, which raises InputError if they are not."""

    def check(inputs: Tensor) -> None:
        low, high = inputs.min().item(), inputs.max().item()
        if inputs.dtype != torch.int64 or low < 0 or high >= count:
            raise InputError(
                f"{field} holds numbers from {low} to {high} in {inputs.dtype}; give int64 in 0 … {count - 1}"
            )

    return check


def ssm_of_map(
    step: Map,
    initial: Tensor,
    decay: float = 0.0625,
    *,
    retraction: Callable[[Tensor], Tensor] | None = None,
    check_inputs: Callable[[Tensor], None] | None = None,
) -> ImplicitSSM:
    """Return the implicit SSM with Λ = λ constant whose transition is h ↦ step(h, x).

    It takes u(z, x) = step(r(z), x) − λ r(z). At the fixed point z* = h the terms λ h and −λ r(z*)
    cancel, if the retraction r leaves every reachable state as it is. It keeps u bounded at latents that
    are no states, which sweeps go through; where u is large, (h' − u)/λ loses the digits of h.

    A sweep multiplies an error of z at one token by (∂step − λ) λᵏ on its way to the k-th token after it,
    and rounding adds about ε/λ. So a small λ keeps sweeps close to Jacobi iteration on the map, h_t ←
    step(h_{t-1}), and a large one the digits; 1/16 costs four bits. InputError if the decay is 0 or not
    finite: with λ = 0 the new state says nothing about the old one.

    Args:
        step: the map, from states ``[..., n]`` and inputs to states ``[..., n]``.
        initial: h₀, shape ``[n]``.
        decay: λ, not 0. A power of two makes λ h and λ z free of rounding.
        retraction: r, a map onto a set that holds all reachable states; the identity if None.
        check_inputs: as for `ImplicitSSM`.

    Example:
        >>> doubling = ssm_of_map(lambda h, x: 2 * h + x, torch.zeros(1), decay=0.25)
        >>> doubling.run(torch.ones(1, 4, 1)).flatten().tolist()
        [1.0, 3.0, 7.0, 15.0]
    """
    if not 0 < abs(decay) < float("inf"):
        raise InputError(f"decay is {decay}; give a finite number other than 0, such as 0.5")
    constant = torch.tensor(decay, dtype=initial.dtype)

    def drive(latents: Tensor, inputs: Tensor) -> Tensor:
        states = latents if retraction is None else retraction(latents)
        return step(states, inputs) - decay * states

    return ImplicitSSM(lambda latents, inputs: constant, drive, initial, check_inputs)  # noqa: ARG005


_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


def ssm_of_rnn(
    rnn: torch.nn.RNN, initial: Tensor | None = None, decay: float = 0.0625, bound: float | None = None
) -> ImplicitSSM:
    """Return the implicit SSM that computes h' = φ(W h + U x + b) with the weights of a one-layer RNN.

    u(z, x) = φ(W r(z) + U x + b) − λ r(z) and f(z, h', x) = (h' − u(z, x)) / λ, where r clamps every
    entry to [−bound, bound]. InputError if the RNN has several layers or two directions, or h₀ exceeds the
    bound.

    Args:
        rnn: one layer, one direction, φ tanh or ReLU; its input is ``[B, L, m]``. Its weights are read
            and detached.
        initial: h₀, shape ``[n]``; zeros if None.
        decay: λ, not 0.
        bound: what no entry of a reachable state exceeds; 1 for tanh and none for ReLU if None. It only
            matters to simultaneous sweeps, which it keeps from growing.

    Example:
        >>> rnn = torch.nn.RNN(3, 5, nonlinearity="relu", batch_first=True, dtype=torch.float64)
        >>> inputs = torch.randn(2, 7, 3, dtype=torch.float64)
        >>> expected = rnn(inputs)[0].detach()
        >>> bool((ssm_of_rnn(rnn).run(inputs) - expected).abs().max() < 1e-13)
        True
    """
    if rnn.num_layers != 1 or rnn.bidirectional:
        raise InputError(
            f"rnn has {rnn.num_layers} layers and bidirectional={rnn.bidirectional}; give one layer with one "
            "direction, and stack the results for more layers"
        )
    activation = _ACTIVATIONS[rnn.nonlinearity]
    weights = {name: weight.detach() for name, weight in rnn.named_parameters()}
    recur, enter = weights["weight_hh_l0"], weights["weight_ih_l0"]
    bias = weights["bias_hh_l0"] + weights["bias_ih_l0"] if rnn.bias else torch.zeros_like(recur[0])

    def step(state: Tensor, inputs: Tensor) -> Tensor:
        return activation(state @ recur.T + inputs @ enter.T + bias)

    def check(inputs: Tensor) -> None:
        if inputs.shape[-1] != rnn.input_size or inputs.dtype != recur.dtype:
            raise InputError(
                f"inputs has shape {list(inputs.shape)} and type {inputs.dtype}; "
                f"give [B, L, {rnn.input_size}] in {recur.dtype}"
            )

    start = torch.zeros(rnn.hidden_size, dtype=recur.dtype) if initial is None else initial
    largest = 1.0 if bound is None and rnn.nonlinearity == "tanh" else bound
    if largest is None:
        return ssm_of_map(step, start, decay, check_inputs=check)
    if not bool(start.abs().max() <= largest):
        raise InputError(
            f"bound is {largest} but an entry of initial is {start.abs().max():.3g}; give a larger bound"
        )
    return ssm_of_map(
        step, start, decay, retraction=lambda latents: latents.clamp(-largest, largest), check_inputs=check
    )
