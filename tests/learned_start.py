"""A user's model: a learned initial state; frozen, tied, unused, complex parameters; a mask with infinity."""

import torch
from torch import Tensor, nn

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
        self.mask: Tensor
        self.register_buffer("mask", torch.full((3,), -torch.inf))
        self.turns = nn.Parameter(torch.polar(torch.ones(config.d_model), torch.arange(config.d_model) / 4))
        self.rotations: Tensor
        self.register_buffer("rotations", self.turns.detach().clone(), persistent=False)

    def init_state(self, batch_size: int) -> State:
        turned = (self.start * self.rotations * self.turns).real
        return {f"hidden.{layer}": start.expand(batch_size, -1) for layer, start in enumerate(turned)}
