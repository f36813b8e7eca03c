"""The interface of every recurrent model: a map (state, token) → state, and its parallel form."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from pydantic import BaseModel, ConfigDict, PositiveInt
from torch import Tensor, nn

from automata.errors import InputError
from theory.transition import State, Transition
from theory.transition_batch import TransitionBatch


class ModelConfig(BaseModel):
    """What every model needs to know: the sizes of its input and output alphabets.

    Example:
        >>> ModelConfig(vocabulary_size=2, output_size=2)
        ModelConfig(vocabulary_size=2, output_size=2)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    vocabulary_size: PositiveInt
    output_size: PositiveInt


class SequenceModel(nn.Module, ABC):
    """A model that reads tokens and predicts, after each of them, a class.

    ``model(tokens)`` equals the scan of ``model.step`` over the tokens;
    tests/implicit/models/test_contract.py holds the tests that every model inherits.

    Class attributes:
        name: the name that commands know the model by.
        config_class: the model's own `ModelConfig`.

    Example:
        >>> from implicit.models.baselines.lstm import LSTM, LSTMConfig
        >>> model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=4))
        >>> state, logits = model.step(model.init_state(3), torch.tensor([0, 1, 1]))
        >>> logits.shape, model(torch.tensor([[0, 1, 1, 0]])).shape
        (torch.Size([3, 2]), torch.Size([1, 4, 2]))
    """

    name: ClassVar[str]
    config_class: ClassVar[type[ModelConfig]]

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def init_state(self, batch_size: int) -> State:
        """Return the state before the first token: named tensors with a leading batch axis."""

    @abstractmethod
    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read a token, int64 ``[batch]``; return the next state and logits, ``[batch, output_size]``."""

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits after every token: ``[batch, length]`` → ``[batch, length, output_size]``."""

    @abstractmethod
    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) at every one of the tokens, for the analysis of many states at once.

        Args:
            tokens: int64, of any shape; the positions of the batch are those of ``tokens.flatten()``.
        """

    def transition(self, token: int) -> Transition:
        """Return (Φ, G) at a token for the checks of theory/, over the model's own parameters and dtype."""
        return self.transitions(torch.tensor([token], device=self.device))[0]

    @property
    def device(self) -> torch.device:
        """Where the parameters are, and where tokens have to be."""
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    def parameter_count(self) -> int:
        """Return the number of trainable numbers."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def check_tokens(self, tokens: Tensor) -> None:
        """Refuse tokens that the model cannot read.

        Raises:
            InputError: for an empty sequence or batch, tokens that are not integers, or one outside the
                vocabulary.
        """
        if tokens.dtype not in (torch.int64, torch.int32):
            raise InputError(f"tokens has dtype {tokens.dtype}; give int64")
        if tokens.ndim != 2 or 0 in tokens.shape:
            raise InputError(
                f"tokens has shape {tuple(tokens.shape)}; give [batch, length] with at least one of each"
            )
        smallest, largest = (int(bound) for bound in torch.aminmax(tokens))
        if smallest < 0 or largest >= self.config.vocabulary_size:
            wrong = smallest if smallest < 0 else largest
            raise InputError(
                f"token {wrong} is outside the vocabulary; "
                f"give tokens from 0 to {self.config.vocabulary_size - 1}"
            )
