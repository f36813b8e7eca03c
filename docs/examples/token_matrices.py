"""A model of one's own: every token has a matrix, and the state is the product, kept at length one."""

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn.functional import normalize

from implicit import ModelConfig, ModelOutput, SequenceModel, Solve
from implicit.cells import keep_where
from theory import State, TransitionBatch


class MatrixSizes(ModelConfig):
    """The sizes: they become flags of ``python -m implicit.train``."""

    d_model: PositiveInt = Field(default=8, description="entries of the state")


class TokenMatrices(SequenceModel):
    """h_t = M(x_t) h_{t-1} / ‖M(x_t) h_{t-1}‖."""

    name = "token-matrices"
    description = "a matrix per token, and a state of length one"
    config_class = MatrixSizes

    def __init__(self, config: MatrixSizes) -> None:
        super().__init__(config)
        size = config.d_model
        self.matrices = nn.Parameter(torch.randn(config.vocabulary_size, size, size) / size**0.5)
        self.head = nn.Linear(size, config.output_size)

    def init_state(self, batch_size: int) -> State:
        """Return the first unit vector for every sequence."""
        return {"h": torch.eye(len(self.matrices[0])).to(self.matrices)[:1].expand(batch_size, -1)}

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_tokens(token[:, None])
        after = _multiply(self.matrices[token], state)
        return after, self.head(after["h"])

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,  # explicit models have no fixed point to seek
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences; padding leaves the state as it is, and its logits are 0."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        logits = []
        for t in range(tokens.shape[1]):
            after, scores = self.step(state, tokens[:, t])
            if mask is not None:
                after, scores = keep_where(mask[:, t], after, state), scores * mask[:, t, None]
            state = after
            logits.append(scores)
        return ModelOutput(torch.stack(logits, dim=1), state)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return the map of the state at each token, for the analyses; there is no latent."""
        self.check_tokens(tokens.reshape(1, -1))
        return TransitionBatch(
            advance=lambda latent, state, inputs: (latent, _multiply(inputs["matrix"], state)),
            inputs={"matrix": self.matrices[tokens.flatten()].detach()},
            latent_size=0,
            layer_states=(("h",),),
        )


def _multiply(matrix: Tensor, state: State) -> State:
    return {"h": normalize((matrix @ state["h"][..., None])[..., 0], dim=-1)}
