"""The Elman network: h' = tanh(W x + U h + b), the simplest non-linear recurrent control."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from implicit.models.torch_rnn import TorchRNN
from theory.transition import State


class Elman(TorchRNN):
    """Embedding → `torch.nn.RNN` with tanh → head.

    Source:
        Elman 1990, "Finding structure in time", in the form of `torch.nn.RNN`.

    Example:
        >>> model = Elman(Elman.config_class(vocabulary_size=3, output_size=5, d_model=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "elman"
    description: ClassVar[str] = "the simplest non-linear recurrent control: h' = tanh(W x + U h + b)"
    network_class = nn.RNN
    parts: ClassVar[tuple[str, ...]] = ("hidden",)

    def layer_step(self, inputs: Tensor, state: State, layer: int) -> State:
        """Return the hidden state of one layer after one token."""
        from_inputs, from_hidden = self.gates(inputs, state["hidden"], layer)
        return {"hidden": torch.tanh(from_inputs + from_hidden)}
