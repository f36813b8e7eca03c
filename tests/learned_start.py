"""A user's model: its initial state is learned, and parameters are frozen, tied or never used."""

import torch
from torch import nn

from implicit.models.torch_rnn import GRU, TorchRNNConfig
from theory import State


class LearnedStart(GRU):
    """A GRU that begins in a learned state; embedding and head share their weights."""

    name = "learned-start"

    def __init__(self, config: TorchRNNConfig) -> None:
        super().__init__(config)
        self.start = nn.Parameter(torch.randn(config.layers, config.d_model))
        self.frozen = nn.Parameter(torch.randn(3), requires_grad=False)
        self.unused = nn.Parameter(torch.randn(2))
        self.head.weight = self.embedding.weight

    def init_state(self, batch_size: int) -> State:
        """Return the learned state for every sequence."""
        return {f"hidden.{layer}": start.expand(batch_size, -1) for layer, start in enumerate(self.start)}
