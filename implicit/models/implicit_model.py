"""The implicit model: a stack of cells iterated to a fixed point at every token.

Injections are Linear(RMSNorm(embedding)) per layer; `implicit.models.iterated_layers` has the other symbols.
Source: Schöne et al. 2025, arXiv 2502.07827, Eq. 1 and 2, with any cell in the place of Mamba-2.
"""

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from implicit.cells import Cell, RMSNorm
from implicit.fixed_point import DampedPicard, FixedPointProblem, Stopping
from implicit.models.explicit import model_of
from implicit.models.input_checks import as_column
from implicit.models.interface import FixedPointModel, ModelOutput, warn_unless_converged
from implicit.models.iterated_layers import IteratedLayers
from implicit.models.stack import CellStack, StackConfig, mlps_of
from implicit.modes import Recurrence, Solve
from implicit.modes.adjoint import sequence_problem
from implicit.ops.hand_written_passes import uncompiled
from theory.transition import State, TransitionBatch


class ImplicitConfig(StackConfig):
    """Sizes of an implicit model and how it finds its fixed point outside of training."""

    residual: bool = Field(
        default=True, description="whether the self-map adds its input before the norm, as in the paper"
    )
    damping: PositiveFloat = Field(
        default=0.8, le=1, description="damping of the fixed-point iteration, above 0 and at most 1"
    )
    rtol: NonNegativeFloat = Field(
        default=1e-4, description="relative tolerance of the fixed point outside of training"
    )
    max_iterations: PositiveInt = Field(
        default=1000, le=10**6, description="the most self-iterations outside of training"
    )


class ImplicitModel(CellStack, IteratedLayers, FixedPointModel):
    """Embedding → layers iterated to a fixed point at every token → head.

    `implicit_model` makes the class for a cell.
    """

    config: ImplicitConfig
    embedding_norm: RMSNorm
    latent_norm: RMSNorm

    def __init__(self, config: ImplicitConfig) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.embedding_norm = RMSNorm(config.d_model)
        self.mixers = self._make_cells()
        self.injections = self._make_injections()
        self.mixer_norms = nn.ModuleList(RMSNorm(config.d_model) for _ in range(config.layers))
        self.mlps = mlps_of(config.d_model, config.layers, config.mlp_size)
        self.latent_norm = RMSNorm(config.d_model)
        self.head = nn.Linear(config.d_model, config.output_size)
        self.residual, self.latent_size = config.residual, config.d_model

    def _make_injections(self) -> nn.ModuleList:
        """One per layer; see `_inject`."""
        width = self.config.d_model
        return nn.ModuleList(nn.Linear(width, cell.injection_size, bias=False) for cell in self.cells)

    @property
    def solver(self) -> DampedPicard:
        """The solver of the configuration."""
        return DampedPicard(self.config.damping)

    @property
    def stopping(self) -> Stopping:
        """The tolerance and the limit of the configuration."""
        return Stopping(rtol=self.config.rtol, max_iterations=self.config.max_iterations)

    @uncompiled
    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Find the fixed point of every token and say how that went; the status is in the solution.

        The default gradient is that of the fixed point, exact to the tolerance of the solve.
        """
        tokens, state, mask = self.begin(tokens, state, lengths)
        solution, after = self.solved(self._inject(tokens), state, mask, solve)
        logits = self.head(solution.value)
        if mask is not None:
            logits = logits.masked_fill(~mask[..., None], 0)
        return ModelOutput(logits, after, solution)

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token; a `NotConvergedWarning` tells of sequences not converged."""
        output = self.run(as_column(token), state, Solve("sequential"))
        warn_unless_converged(self, output.solution)
        return output.state, output.logits[:, 0]

    @torch.no_grad()
    def states(self, tokens: Tensor, state: State | None = None) -> State:
        """Return the state before every token and after the last, at the fixed points of the default mode."""
        self.require_constant_state()
        output = self.run(tokens, state)
        assert output.solution is not None
        return self.states_at(tokens, output.solution.latents, state)

    def problem(
        self, tokens: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> FixedPointProblem:
        """Return the fixed-point problem of the simultaneous mode: Φ of all tokens together."""
        return sequence_problem(self._recurrence(*self.begin(tokens, state, lengths)))

    def states_at(
        self, tokens: Tensor, latents: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last, each part ``[batch, length + 1, …]``."""
        recurrence = self._recurrence(*self.begin(tokens, state, lengths))
        return recurrence.states(latents, recurrence.inputs, recurrence.state)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) at every one of the tokens; the state is that of all cells."""
        self.require_constant_state()
        self.check_positions(tokens)
        positions = tokens.reshape(1, -1)
        injections = [injection[0] for injection in self._inject(positions)]
        return self._transitions(injections, self.config.damping)

    def _inject(self, tokens: Tensor) -> list[Tensor]:
        """The injection of every layer, ``[batch, length, injection_size]``, the same in all iterations."""
        embedded = self.embedding_norm(self.embedding(tokens))
        return [injection(embedded) for injection in self.injections]

    def _recurrence(self, tokens: Tensor, state: State, mask: Tensor | None = None) -> Recurrence:
        return self._recurrence_of(self._inject(tokens), state, mask)


def implicit_model(
    name: str, cell: type[Cell], description: str, base: type[ImplicitConfig] = ImplicitConfig
) -> type[ImplicitModel]:
    """Return the class of the implicit model of a cell, by the name that commands know it by.

    ``base`` has the sizes of the stack, with their defaults; the description is one line.

    Example:
        >>> from implicit.cells import Mamba2Cell
        >>> implicit_model("implicit-mamba2", Mamba2Cell, "Mamba-2 to a fixed point").name
        'implicit-mamba2'
    """
    return model_of(ImplicitModel, name, cell, description, base)
