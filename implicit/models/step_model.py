"""A model that is written as one step of its state: runs, padding and transitions follow from it.

| code     | meaning                                                                     |
|----------|-----------------------------------------------------------------------------|
| `embed`  | what the weights make of a token, ``[…]`` → ``[…, features]``               |
| `update` | the next state from the state and that, for a batch or for a single state   |
| `read`   | the logits from the state after the token                                   |
"""

from abc import abstractmethod

import torch
from torch import Tensor

from implicit.cells import keep_where
from implicit.models.interface import ModelOutput, SequenceModel
from implicit.modes import Solve
from theory.transition import State
from theory.transition_batch import TransitionBatch


class StepModel(SequenceModel):
    """An explicit model from four short methods: `init_state`, `embed`, `update` and `read`.

    Sequences are read token by token. All parts of the state count as one layer; a model of several layers
    says which parts belong together by `layer_states`.

    Example:
        >>> class Counter(StepModel):
        ...     '''Adds up a number per token.'''
        ...     def init_state(self, batch_size):
        ...         return {"sum": torch.zeros(batch_size, 1)}
        ...     def embed(self, tokens):
        ...         return tokens[..., None].float()
        ...     def update(self, state, inputs):
        ...         return {"sum": state["sum"] + inputs}
        ...     def read(self, state):
        ...         return torch.cat([state["sum"], -state["sum"]], dim=-1)
        >>> from implicit.models.interface import ModelConfig
        >>> model = Counter(ModelConfig(vocabulary_size=5, output_size=2))
        >>> model(torch.tensor([[4, 0, 3]]))[0, :, 0]
        tensor([4., 4., 7.])
    """

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Return what `update` is given of tokens of any shape: ``[…]`` → ``[…, features]``."""

    @abstractmethod
    def update(self, state: State, inputs: Tensor) -> State:
        """Return the next state, with or without a leading batch axis on state and inputs.

        It is transformed by ``torch.func``: write it in plain operations on tensors, without branching on
        their values and without the cells of `torch.nn` such as `torch.nn.GRUCell`, which cannot be batched.
        """

    @abstractmethod
    def read(self, state: State) -> Tensor:
        """Return the logits ``[…, output_size]`` from the state after a token."""

    @property
    def layer_states(self) -> tuple[tuple[str, ...], ...]:
        """For each layer the parts of the state that Theorem 1 speaks of; all of them as one layer."""
        return (tuple(self.init_state(1)),)

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_tokens(token[:, None])
        self.check_state(state, len(token))
        after = self.update(state, self.embed(token))
        return after, self.read(after)

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,  # noqa: ARG002 (explicit models have no fixed point to seek)
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences; padding leaves the state as it is, and its logits are 0."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        logits = []
        for t, inputs in enumerate(self.embed(tokens).unbind(1)):
            after = self.update(state, inputs)
            scores = self.read(after)
            if mask is not None:
                after, scores = keep_where(mask[:, t], after, state), scores * mask[:, t, None]
            state = after
            logits.append(scores)
        return ModelOutput(torch.stack(logits, dim=1), state)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every token."""
        self.check_tokens(tokens.reshape(1, -1))
        return TransitionBatch(
            advance=lambda latent, state, inputs: (latent, self.update(state, inputs["embedded"])),
            inputs={"embedded": self.embed(tokens.flatten()).detach()},
            latent_size=0,
            layer_states=self.layer_states,
        )
