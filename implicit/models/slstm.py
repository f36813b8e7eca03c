"""sLSTM: an LSTM with exponential gates, a normaliser, and recurrent weights by head.

| code                   | symbol | meaning                                                       |
|------------------------|--------|---------------------------------------------------------------|
| ``hidden.<layer>``     | h      | output of the layer, ``[batch, d_model]``                     |
| ``cell.<layer>``       | c      | memory, times e^−m                                            |
| ``normaliser.<layer>`` | n      | sum of the gates that the memory was written with, times e^−m |
| ``exponent.<layer>``   | m      | the largest exponent in either, which keeps both in range     |

    i = e^(W_i x + R_i h + b_i)     f = σ(W_f x + R_f h + b_f)     c' = f c + i tanh(W_z x + R_z h + b_z)
    h' = σ(W_o x + R_o h + b_o) c' / n'                            n' = f n + i
"""

from typing import ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from automata.errors import InputError
from implicit.cells.plain import like
from implicit.models.interface import ModelConfig
from implicit.models.step_model import StepModel
from implicit.models.torch_rnn import TorchRNNConfig
from theory.transition import State

PARTS = ("hidden", "cell", "normaliser", "exponent")


class SLSTMConfig(TorchRNNConfig):
    """Sizes of an sLSTM."""

    heads: PositiveInt = Field(default=4, description="blocks of the recurrent weights; divides d_model")


class SLSTMLayer(nn.Module):
    """One layer: W and b in ``inputs``, R by head in ``recurrent``, the gates in the order i, f, z, o."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(size, 4 * size)
        self.recurrent = nn.Parameter(torch.zeros(heads, size // heads, 4 * size // heads))
        with torch.no_grad():
            self.inputs.bias.zero_()[size : 2 * size] = torch.linspace(3, 6, size)

    def forward(self, inputs: Tensor, state: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return hidden, cell, normaliser and exponent after a token."""
        hidden, cell, normaliser, exponent = state
        from_hidden = torch.einsum("...hk,hkg->...hg", hidden.unflatten(-1, (self.heads, -1)), self.recurrent)
        of_gates = [gate.flatten(-2) for gate in from_hidden.chunk(4, dim=-1)]
        write, forget, candidate, show = (
            a + b for a, b in zip(self.inputs(inputs).chunk(4, dim=-1), of_gates, strict=True)
        )
        # Nothing is kept where nothing was written: a first write as small as e^-200 has its own exponent.
        kept = torch.where(normaliser > 0, exponent + functional.logsigmoid(forget), write)
        largest = torch.maximum(write, kept)
        keep, added = torch.exp(kept - largest), torch.exp(write - largest)
        cell = keep * cell + added * torch.tanh(candidate)
        normaliser = keep * normaliser + added
        return torch.sigmoid(show) * cell / normaliser, cell, normaliser, largest


class SLSTM(StepModel):
    """Embedding → layers of sLSTM → head, without the blocks around them.

    InputError if the heads do not divide d_model.

    Source: Beck et al. 2024, "xLSTM", arXiv 2405.04517, section 2.2; initial values as in their package: no
    recurrent weights, and biases of the forget gate from 3 to 6.

    Example:
        >>> model = SLSTM(SLSTMConfig(vocabulary_size=3, output_size=5, d_model=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "slstm"
    description: ClassVar[str] = "an LSTM with exponential gates and recurrent weights by head"
    config_class: ClassVar[type[ModelConfig]] = SLSTMConfig
    config: SLSTMConfig

    def __init__(self, config: SLSTMConfig) -> None:
        super().__init__(config)
        size, heads = config.d_model, config.heads
        if size % heads:
            raise InputError(f"heads is {heads}; it must divide d_model = {size}")
        self.embedding = nn.Embedding(config.vocabulary_size, size)
        self.layers = nn.ModuleList(SLSTMLayer(size, heads) for _ in range(config.layers))
        self.head = nn.Linear(size, config.output_size)

    @property
    def layer_states(self) -> tuple[tuple[str, ...], ...]:
        """The four parts of every layer."""
        return tuple(tuple(f"{part}.{layer}" for part in PARTS) for layer in range(self.config.layers))

    def init_state(self, batch_size: int) -> State:
        """Return zeros for every part of every layer."""
        zeros = like(self.embedding, self).new_zeros(batch_size, self.config.d_model)
        return {part: zeros for parts in self.layer_states for part in parts}

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the embeddings."""
        embedded: Tensor = self.embedding(tokens)
        return embedded

    def update(self, state: State, inputs: Tensor) -> State:
        """Step all layers."""
        after: State = {}
        for parts, layer in zip(self.layer_states, self.layers, strict=True):
            stepped = layer(inputs, [state[part] for part in parts])
            after |= dict(zip(parts, stepped, strict=True))
            inputs = stepped[0]
        return after

    def read(self, state: State) -> Tensor:
        """Return the logits from the output of the last layer."""
        logits: Tensor = self.head(state[self.layer_states[-1][0]])
        return logits
