"""LSTM: the non-linear recurrent control."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from implicit.models.torch_rnn import TorchRNN, TorchRNNConfig
from theory.transition import State

LSTMConfig = TorchRNNConfig


class LSTM(TorchRNN):
    """Embedding → `torch.nn.LSTM` → head.

    Source:
        Hochreiter & Schmidhuber 1997, "Long short-term memory", in the form of `torch.nn.LSTM`.

    Example:
        >>> model = LSTM(LSTMConfig(vocabulary_size=3, output_size=5, d_model=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "lstm"
    description: ClassVar[str] = "the non-linear recurrent control"
    network_class = nn.LSTM
    parts: ClassVar[tuple[str, ...]] = ("hidden", "cell")

    def layer_step(self, inputs: Tensor, state: State, layer: int) -> State:
        """Return hidden and cell state of one layer after one token."""
        from_inputs, from_hidden = self.gates(inputs, state["hidden"], layer)
        write, keep, candidate, show = (from_inputs + from_hidden).chunk(4, dim=-1)
        cell = torch.sigmoid(keep) * state["cell"] + torch.sigmoid(write) * torch.tanh(candidate)
        return {"hidden": torch.sigmoid(show) * torch.tanh(cell), "cell": cell}
