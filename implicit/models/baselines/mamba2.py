"""Mamba2: the explicit control, the same cell run once per layer.

| code        | paper | meaning                                                       |
|-------------|-------|---------------------------------------------------------------|
| ``stream``  |       | the residual stream, ``[batch, length, d_model]``             |
| ``state``   | h     | per layer ``ssm.<layer>`` and the window ``conv.<layer>``     |
"""

from typing import ClassVar

from pydantic import PositiveInt
from torch import Tensor, nn

from implicit.cells import CellState, Mamba2Cell, RMSNorm
from implicit.models.interface import ModelConfig, SequenceModel
from theory.transition import State
from theory.transition_batch import TokenInputs, TransitionBatch


class Mamba2Config(ModelConfig):
    """Sizes of a `Mamba2`; the names are those of `implicit.models.implicit_mamba2.ImplicitMamba2Config`.

    Example:
        >>> Mamba2Config(vocabulary_size=2, output_size=2).d_model
        32
    """

    d_model: PositiveInt = 32
    layers: PositiveInt = 1
    expand: PositiveInt = 2
    d_state: PositiveInt = 16
    head_size: PositiveInt = 16
    d_conv: PositiveInt = 4
    groups: PositiveInt = 1


class Mamba2(SequenceModel):
    """Embedding → layers of stream + mixer(norm(stream)) → norm → head: an ordinary Mamba-2 language model.

    Source:
        Dao & Gu 2024, arXiv 2405.21060.

    Example:
        >>> import torch
        >>> model = Mamba2(Mamba2Config(vocabulary_size=3, output_size=5, d_model=8, head_size=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "mamba2"
    config_class: ClassVar[type[ModelConfig]] = Mamba2Config
    config: Mamba2Config

    def __init__(self, config: Mamba2Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.mixers = nn.ModuleList(
            Mamba2Cell(
                config.d_model, config.d_state, config.d_conv, config.expand, config.head_size, config.groups
            )
            for _ in range(config.layers)
        )
        self.mixer_norms = nn.ModuleList(RMSNorm(config.d_model) for _ in range(config.layers))
        self.final_norm = RMSNorm(config.d_model)
        self.head = nn.Linear(config.d_model, config.output_size)

    def init_state(self, batch_size: int) -> State:
        """Return zero windows and zero SSM states, ``conv.<layer>`` and ``ssm.<layer>``."""
        state: State = {}
        for layer, mixer in enumerate(self.mixers):
            assert isinstance(mixer, Mamba2Cell)
            state[f"conv.{layer}"], state[f"ssm.{layer}"] = mixer.init_state(batch_size)
        return state

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits after every token."""
        self.check_tokens(tokens)
        stream = self.embedding(tokens)
        for mixer, norm in zip(self.mixers, self.mixer_norms, strict=True):
            stream = stream + mixer(norm(stream))[0]
        return self.head(self.final_norm(stream))

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_tokens(token[:, None])
        stream, following = self._advance(self.embedding(token), state)
        return following, self.head(self.final_norm(stream))

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every one of the tokens: G is the whole transition."""
        self.check_tokens(tokens.reshape(1, -1))

        def advance(latent: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
            batched = {name: tensor[None] for name, tensor in state.items()}
            following = self._advance(inputs["embedding"][None], batched)[1]
            return latent, {name: tensor[0] for name, tensor in following.items()}

        return TransitionBatch(
            advance=advance,
            inputs={"embedding": self.embedding(tokens.flatten()).detach()},
            latent_size=0,
            layer_states=tuple((f"ssm.{layer}",) for layer in range(self.config.layers)),
        )

    def _advance(self, stream: Tensor, state: State) -> tuple[Tensor, State]:
        following: State = {}
        for layer, (mixer, norm) in enumerate(zip(self.mixers, self.mixer_norms, strict=True)):
            assert isinstance(mixer, Mamba2Cell)
            before = CellState(state[f"conv.{layer}"], state[f"ssm.{layer}"])
            output, after = mixer.step(norm(stream), before)
            stream = stream + output
            following[f"conv.{layer}"], following[f"ssm.{layer}"] = after
        return stream, following
