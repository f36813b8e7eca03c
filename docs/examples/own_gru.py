"""A GRU of one's own in thirty lines: what its state is, and how one token changes it."""

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from implicit import ModelConfig, StepModel
from theory import State


class Sizes(ModelConfig):
    """They become flags of ``python -m implicit.train``."""

    d_model: PositiveInt = Field(default=16, description="entries of the state")


class OwnGRU(StepModel):
    """h' = (1 − u) ⊙ tanh(x_c + r ⊙ W h) + u ⊙ h, with gates r and u of token and state."""

    name = "own-gru"
    description = "a GRU, written out"
    config_class = Sizes

    def __init__(self, config: Sizes) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary_size, 3 * config.d_model)
        self.recurrent = nn.Linear(config.d_model, 3 * config.d_model)
        self.head = nn.Linear(config.d_model, config.output_size)

    def init_state(self, batch_size: int) -> State:
        """Return zeros: the state before the first token."""
        return {"h": self.head.weight.new_zeros(batch_size, self.head.in_features)}

    def embed(self, tokens: Tensor) -> Tensor:
        """Return what the weights make of a token."""
        return self.embedding(tokens)

    def update(self, state: State, inputs: Tensor) -> State:
        """Return the state after a token."""
        h = state["h"]
        (x_r, x_u, x_c), (h_r, h_u, h_c) = inputs.chunk(3, -1), self.recurrent(h).chunk(3, -1)
        reset, keep = torch.sigmoid(x_r + h_r), torch.sigmoid(x_u + h_u)
        return {"h": (1 - keep) * torch.tanh(x_c + reset * h_c) + keep * h}

    def read(self, state: State) -> Tensor:
        """Return the logits from the state after the token."""
        return self.head(state["h"])
