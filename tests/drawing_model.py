"""A user's model that draws from every source there is, when it is made and in every step of training."""

import random
import threading

import numpy as np
import torch
from torch import Tensor, nn

from implicit import ModelConfig, StepModel
from theory.transition import State


class Drawing(StepModel):
    """Its state is the sum of the embeddings, with dropout."""

    name = "drawing"
    description = "draws"
    config_class = ModelConfig

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        thread = threading.Thread(target=self.draw)
        thread.start()
        thread.join()
        self.dropout = nn.Dropout(0.5)

    def draw(self) -> None:
        """Make the weights, in a thread of its own."""
        self.embedding = nn.Embedding(self.config.vocabulary_size, 8)
        self.scale = nn.Parameter(torch.tensor(np.random.rand(8), dtype=torch.float32))  # noqa: NPY002
        self.shift = nn.Parameter(torch.full((8,), random.random()))
        self.head = nn.Linear(8, self.config.output_size)
        own = torch.rand(self.config.output_size, generator=torch.default_generator)
        self.bias = nn.Parameter(own)

    def init_state(self, batch_size: int) -> State:
        return {"h": self.shift.new_zeros(batch_size, 8)}

    def embed(self, tokens: Tensor) -> Tensor:
        return self.dropout(self.embedding(tokens)) * self.scale

    def update(self, state: State, inputs: Tensor) -> State:
        noise = random.random() + np.random.rand() if self.training else 0.0  # noqa: NPY002
        return {"h": torch.tanh(state["h"] + inputs + self.shift + noise)}

    def read(self, state: State) -> Tensor:
        return self.head(state["h"]) + self.bias
