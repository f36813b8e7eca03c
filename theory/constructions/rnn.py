"""Every Elman RNN is an implicit SSM with a constant diagonal Λ."""

import torch
from torch import Tensor

from automata.errors import InputError
from theory.constructions.implicit_ssm import ImplicitSSM, ssm_of_map

_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


def ssm_of_rnn(
    rnn: torch.nn.RNN, initial: Tensor | None = None, decay: float = 0.0625, bound: float | None = None
) -> ImplicitSSM:
    """Return the implicit SSM that computes h' = φ(W h + U x + b) with the weights of a one-layer RNN.

    u(z, x) = φ(W r(z) + U x + b) − λ r(z) and f(z, h', x) = (h' − u(z, x)) / λ, where r clamps every
    entry to [−bound, bound].

    Args:
        rnn: one layer, one direction, φ tanh or ReLU; its input is ``[B, L, m]``. Its weights are read
            and detached.
        initial: h₀, shape ``[n]``; zeros if None.
        decay: λ, not 0.
        bound: what no entry of a reachable state exceeds; 1 for tanh and none for ReLU if None. It only
            matters to simultaneous sweeps, which it keeps from growing.

    Raises:
        InputError: the RNN has several layers or two directions, or h₀ exceeds the bound.

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
