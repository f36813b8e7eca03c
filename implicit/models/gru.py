"""GRU: the gated recurrent control with one state per layer."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from implicit.models.torch_rnn import TorchRNN
from theory.transition import State


class GRU(TorchRNN):
    """Embedding → `torch.nn.GRU` → head.

    Source:
        Cho et al. 2014, arXiv 1406.1078, in the form of `torch.nn.GRU`.

    Example:
        >>> model = GRU(GRU.config_class(vocabulary_size=3, output_size=5, d_model=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "gru"
    description: ClassVar[str] = "the gated recurrent control with one state per layer"
    network_class = nn.GRU
    parts: ClassVar[tuple[str, ...]] = ("hidden",)

    def layer_step(self, inputs: Tensor, state: State, layer: int) -> State:
        """Return the hidden state of one layer after one token."""
        from_inputs, from_hidden = (
            part.chunk(3, dim=-1) for part in self.gates(inputs, state["hidden"], layer)
        )
        forget, keep = (torch.sigmoid(from_inputs[gate] + from_hidden[gate]) for gate in (0, 1))
        candidate = torch.tanh(from_inputs[2] + forget * from_hidden[2])
        return {"hidden": (1 - keep) * candidate + keep * state["hidden"]}
