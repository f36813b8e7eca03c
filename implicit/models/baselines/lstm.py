"""LSTM: the non-linear recurrent control.

| code             | symbol | meaning                                                    |
|------------------|--------|------------------------------------------------------------|
| ``hidden.<layer>`` | h    | output of the layer, ``[batch, d_model]``                  |
| ``cell.<layer>``   | c    | memory of the layer, ``[batch, d_model]``                  |
"""

from typing import ClassVar

import torch
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from implicit.models.interface import ModelConfig, SequenceModel
from theory.transition import State
from theory.transition_batch import TransitionBatch


class LSTMConfig(ModelConfig):
    """Sizes of an `LSTM`.

    Example:
        >>> LSTMConfig(vocabulary_size=2, output_size=2).d_model
        32
    """

    d_model: PositiveInt = 32
    layers: PositiveInt = 1


class LSTM(SequenceModel):
    """Embedding → `torch.nn.LSTM` → head.

    Source:
        Hochreiter & Schmidhuber 1997, "Long short-term memory", in the form of `torch.nn.LSTM`.

    Example:
        >>> model = LSTM(LSTMConfig(vocabulary_size=3, output_size=5, d_model=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "lstm"
    config_class: ClassVar[type[ModelConfig]] = LSTMConfig
    config: LSTMConfig

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.lstm = nn.LSTM(config.d_model, config.d_model, config.layers, batch_first=True)
        self.head = nn.Linear(config.d_model, config.output_size)

    def init_state(self, batch_size: int) -> State:
        """Return zero hidden and cell states."""
        zeros = self.embedding.weight.new_zeros(batch_size, self.config.d_model)
        return {
            f"{part}.{layer}": zeros for layer in range(self.config.layers) for part in ("hidden", "cell")
        }

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits after every token."""
        self.check_tokens(tokens)
        return self.head(self.lstm(self.embedding(tokens))[0])

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_tokens(token[:, None])
        following = self._advance(self.embedding(token), state)
        return following, self.head(following[f"hidden.{self.config.layers - 1}"])

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every token; a layer's state is its hidden and cell state."""
        self.check_tokens(tokens.reshape(1, -1))
        return TransitionBatch(
            advance=lambda latent, state, inputs: (latent, self._advance(inputs["embedding"], state)),
            inputs={"embedding": self.embedding(tokens.flatten()).detach()},
            latent_size=0,
            layer_states=tuple((f"hidden.{layer}", f"cell.{layer}") for layer in range(self.config.layers)),
        )

    def _advance(self, inputs: Tensor, state: State) -> State:
        """Step all layers with the weights of `torch.nn.LSTM`, whose own op torch.func cannot batch."""
        following: State = {}
        for layer in range(self.config.layers):
            gates = functional.linear(
                inputs, getattr(self.lstm, f"weight_ih_l{layer}"), getattr(self.lstm, f"bias_ih_l{layer}")
            ) + functional.linear(
                state[f"hidden.{layer}"],
                getattr(self.lstm, f"weight_hh_l{layer}"),
                getattr(self.lstm, f"bias_hh_l{layer}"),
            )
            write, keep, candidate, show = gates.chunk(4, dim=-1)
            cell = torch.sigmoid(keep) * state[f"cell.{layer}"] + torch.sigmoid(write) * torch.tanh(candidate)
            inputs = torch.sigmoid(show) * torch.tanh(cell)
            following[f"hidden.{layer}"], following[f"cell.{layer}"] = inputs, cell
        return following
