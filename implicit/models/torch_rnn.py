"""Recurrent controls under the interface of every model: networks of `torch.nn`, and sLSTM.

| code                   | symbol | meaning                                                              |
|------------------------|--------|----------------------------------------------------------------------|
| ``hidden.<layer>``     | h      | output of the layer, ``[batch, d_model]``                            |
| ``cell.<layer>``       | c      | memory of an LSTM; of sLSTM times e^−m                               |
| ``normaliser.<layer>`` | n      | sLSTM: sum of the gates that the memory was written with, times e^−m |
| ``exponent.<layer>``   | m      | sLSTM: the largest exponent in either, which keeps both in range     |

sLSTM is an LSTM with exponential gates, a normaliser, and recurrent weights by head:

    i = e^(W_i x + R_i h + b_i)     f = σ(W_f x + R_f h + b_f)     c' = f c + i tanh(W_z x + R_z h + b_z)
    h' = σ(W_o x + R_o h + b_o) c' / n'                            n' = f n + i
"""

from abc import abstractmethod
from typing import ClassVar, cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from automata.checks import check_integer
from automata.errors import InputError
from implicit.cells.contract import evaluation_mode
from implicit.cells.interface import has_hooks
from implicit.cells.plain import like
from implicit.models.interface import MOST_LAYERS, ModelConfig, ModelOutput, SequenceModel
from implicit.models.step_model import StepModel
from implicit.modes import Solve
from theory.transition import State, TokenInputs, TransitionBatch


class TorchRNNConfig(ModelConfig):
    """Sizes of a recurrent network.

    Example:
        >>> TorchRNNConfig(vocabulary_size=2, output_size=2, layers=2).d_model
        32
    """

    d_model: PositiveInt = Field(default=32, description="features of the recurrent state")
    layers: PositiveInt = Field(default=1, le=MOST_LAYERS, description="number of layers")


class TorchRNN(SequenceModel):
    """Embedding → a recurrent network of `torch.nn` → head.

    A subclass names the network and the parts of a layer's state, and writes one step of a layer.

    Class attributes:
        network_class: a class of `torch.nn`.
        parts: the parts of a layer's state, in the order of `torch.nn`.
    """

    network_class: ClassVar[type[nn.LSTM | nn.GRU | nn.RNN]]
    parts: ClassVar[tuple[str, ...]]
    config_class: ClassVar[type[ModelConfig]] = TorchRNNConfig
    config: TorchRNNConfig

    def __init__(self, config: TorchRNNConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        network = self.network_class(config.d_model, config.d_model, config.layers, batch_first=True)
        self.add_module(self.network_class.__name__.lower(), network)
        self.head = nn.Linear(config.d_model, config.output_size)

    @property
    def network(self) -> nn.RNNBase:
        """The recurrent network; stored weights have it under the name of its class."""
        return cast("nn.RNNBase", getattr(self, self.network_class.__name__.lower()))

    @abstractmethod
    def layer_step(self, inputs: Tensor, state: State, layer: int) -> State:
        """Return the state of one layer, by the names of `parts`, after a token, with the network's weights.

        The op of `torch.nn` itself cannot be batched by torch.func.
        """

    def gates(self, inputs: Tensor, hidden: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Return W x + b and U h + b of all gates of a layer, in the order of `torch.nn`."""
        network = self.network
        from_inputs = functional.linear(
            inputs, getattr(network, f"weight_ih_l{layer}"), getattr(network, f"bias_ih_l{layer}", None)
        )
        from_hidden = functional.linear(
            hidden, getattr(network, f"weight_hh_l{layer}"), getattr(network, f"bias_hh_l{layer}", None)
        )
        return from_inputs, from_hidden

    def init_state(self, batch_size: int) -> State:
        """Return zeros for every part of every layer."""
        check_integer("batch_size", batch_size, 0)
        zeros = like(self.embedding, self).new_zeros(batch_size, self.config.d_model)
        return {f"{part}.{layer}": zeros for layer in range(self.config.layers) for part in self.parts}

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        outputs, following = self._read(self.embedding(tokens), state, mask)
        logits = self.head(outputs)
        if mask is not None:
            logits = logits.masked_fill(~mask[..., None], 0)
        return ModelOutput(logits, following)

    def _read(self, embedded: Tensor, state: State, mask: Tensor | None = None) -> tuple[Tensor, State]:
        """Call the network; return its outputs and the state after the last real token."""
        if misfit := self._misfit():
            raise InputError(misfit)
        layers = range(self.config.layers)
        before = tuple(torch.stack([state[f"{part}.{layer}"] for layer in layers]) for part in self.parts)
        given = before if len(self.parts) > 1 else before[0]
        if mask is None:
            outputs, after = self.network(embedded, given)
        else:
            counts = mask.sum(dim=1).cpu()
            packed = pack_padded_sequence(embedded, counts, batch_first=True, enforce_sorted=False)
            packed_outputs, after = self.network(packed, given)
            outputs, _ = pad_packed_sequence(packed_outputs, batch_first=True, total_length=embedded.shape[1])
        parts = after if len(self.parts) > 1 else (after,)
        following = {
            f"{name}.{layer}": part[layer]
            for name, part in zip(self.parts, parts, strict=True)
            for layer in layers
        }
        return outputs, following

    @property
    def _has_to_be_called(self) -> bool:
        """Return whether the network may do something else than `layer_step` with its weights."""
        network = self.network
        if has_hooks(network) or type(network) not in (nn.LSTM, nn.GRU, nn.RNN) or self._misfit():
            return True
        return network.mode == "RNN_RELU" or (network.training and network.dropout > 0)

    def _misfit(self) -> str:
        """Return a sentence of what the network is made with that does not fit this class, or nothing."""
        made = {"num_layers": self.config.layers, "batch_first": True, "bidirectional": False, "proj_size": 0}
        for name, value in made.items():
            found = getattr(self.network, name, value)
            if found != value:
                return f"{name} of {type(self.network).__name__} is {found}; make it with {name}={value}"
        return ""

    def read(self, state: State) -> Tensor:
        """Return the logits from the state after a token."""
        logits: Tensor = self.head(state[f"hidden.{self.config.layers - 1}"])
        return logits

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_step(state, token)
        embedded = self.embedding(token)
        if self._has_to_be_called:
            outputs, following = self._read(embedded[:, None], state)
            return following, self.head(outputs[:, 0])
        following = self._advance(embedded, state)
        return following, self.read(following)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every token; a layer's state is all of its parts.

        InputError also for a network that hooks, adapters or a ReLU change, which torch.func cannot batch.
        """
        self.check_positions(tokens)
        if self._has_to_be_called and not self._steps_as_called(self.embedding(tokens.reshape(-1, 1))):
            raise InputError(
                f"model is {self.name} with a network that hooks, another class or a ReLU change, of which "
                "there is no step; remove them, or make the change permanent in its weights"
            )
        return TransitionBatch.without_latent(
            self._update_one,
            {"embedding": self.embedding(tokens.flatten()).detach()},
            tuple(tuple(f"{part}.{layer}" for part in self.parts) for layer in range(self.config.layers)),
        )

    def _update_one(self, state: State, inputs: TokenInputs) -> State:
        return self._advance(inputs["embedding"], state)

    @torch.no_grad()
    def _steps_as_called(self, embedded: Tensor) -> bool:
        """Return whether `layer_step` agrees with the network at some state; a call renews its weights."""
        state = {name: part + 0.5 for name, part in self.init_state(len(embedded)).items()}
        with evaluation_mode(self):
            called = self._read(embedded, state)[1]
        if not hasattr(self.network, "weight_hh_l0"):
            return False
        stepped = self._advance(embedded[:, 0], state)
        return all(torch.allclose(stepped[name], part, rtol=1e-3, atol=1e-4) for name, part in called.items())

    def _advance(self, inputs: Tensor, state: State) -> State:
        """Step all layers."""
        following: State = {}
        for layer in range(self.config.layers):
            after = self.layer_step(inputs, {part: state[f"{part}.{layer}"] for part in self.parts}, layer)
            inputs = after["hidden"]
            following.update({f"{part}.{layer}": after[part] for part in self.parts})
        return following


LSTMConfig = TorchRNNConfig


class LSTM(TorchRNN):
    """Embedding → `torch.nn.LSTM` → head (Hochreiter & Schmidhuber 1997, "Long short-term memory").

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


class GRU(TorchRNN):
    """Embedding → `torch.nn.GRU` → head (Cho et al. 2014, arXiv 1406.1078).

    Example:
        >>> model = GRU(TorchRNNConfig(vocabulary_size=3, output_size=5, d_model=8))
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


class Elman(TorchRNN):
    """Embedding → `torch.nn.RNN` with tanh → head (Elman 1990, "Finding structure in time").

    Example:
        >>> model = Elman(TorchRNNConfig(vocabulary_size=3, output_size=5, d_model=8))
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
