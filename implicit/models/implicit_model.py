"""The implicit model: a stack of cells iterated to a fixed point at every token.

| code            | paper        | meaning                                                              |
|-----------------|--------------|----------------------------------------------------------------------|
| ``latent``      | z            | ``[batch, length, d_model]``, iterated from 0                        |
| ``injections``  | x            | per layer Linear(RMSNorm(embedding)), added to the input projection  |
| ``state``       | s            | per layer ``<part>.<layer>``: h, and the window of a convolution     |
| ``_self_map``   | Φ            | z ← norm(z + cell(norm(z), injection)), through all layers           |
| ``damping``     | τ            | z ← (1 − τ) z + τ Φ(z)                                               |

Source: Schöne et al. 2025, arXiv 2502.07827, Eq. 1 and 2, with any cell in the place of Mamba-2.
"""

import sys
from dataclasses import replace
from functools import partial
from typing import ClassVar, Self

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from automata.errors import InputError
from implicit.cells import Cell, Mamba2Cell, RMSNorm, keep_where
from implicit.cells.plain import is_plain, like
from implicit.fixed_point import AdjointSolution, DampedPicard, FixedPointProblem, Solver, Stopping
from implicit.gradients import GradientRule, Phantom
from implicit.models.explicit import config_class, named
from implicit.models.input_checks import as_column
from implicit.models.interface import FixedPointModel, ModelOutput, warn_unless_converged
from implicit.models.stack import CellStack, StackConfig
from implicit.models.stack_derivative import has_derivative, push_forward
from implicit.modes import (
    Inputs,
    Mode,
    Recurrence,
    SequenceSolution,
    Solve,
    Windowed,
    checked_solve,
    chosen_mode,
    solve_by,
)
from implicit.modes.fused import (
    has_fused_self_map,
    request_of,
    self_map_of,
    solve_adjoint_fused,
    solve_sequentially_fused,
)
from implicit.modes.problems import sequence_problem
from implicit.ops.sequential_solve import SelfMap, choose
from implicit.ops.uncompiled import uncompiled
from theory.transition import State
from theory.transition_batch import TokenInputs, TransitionBatch


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


class ImplicitModel(CellStack, FixedPointModel):
    """A stack of cells iterated to a fixed point at every token; `implicit_model` makes the class for a cell.

    Attributes:
        sequential_backend: what runs the sequential mode: ``"loop"`` (plain PyTorch), ``"numba"`` or
            ``"triton"`` (all tokens in one call of a kernel, for a CPU or a GPU) or ``"auto"``, see
            `implicit.ops.explain_sequential_solve`.
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
        self.mixer_norms = self._make_norms()
        self.mlps = self._make_mlps()
        self.latent_norm = RMSNorm(config.d_model)
        self.sequential_backend = "auto"
        self.head = nn.Linear(config.d_model, config.output_size)
        self.residual, self.latent_size = config.residual, config.d_model

    def _make_injections(self) -> nn.ModuleList:
        """One per layer; see `_inject`."""
        width = self.config.d_model
        return nn.ModuleList(nn.Linear(width, cell.injection_size, bias=False) for cell in self.cells)

    def without_kernels(self) -> Self:
        """Compute by PyTorch's own operations from now on; return the model itself.

        What is proved of executed floats is proved of these: of the kernels' order of operations, and of what
        a compiler makes of it, nothing is assumed.
        """
        self.sequential_backend = "loop"
        for cell in self.cells:
            if isinstance(cell, Mamba2Cell):
                cell.backend = "chunked"
        return self

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

        The default gradient, `Phantom`, is biased: in ``docs/solvers.md`` a derivative is 24% too small. For
        the exact one give ``Solve(gradient=Implicit())``.

        Raises:
            InputError: for tokens, lengths or a state that do not fit, a start of another shape, or a solver
                or gradient rule that the windowed mode cannot use.
        """
        solve = checked_solve(solve)
        tokens, state, mask = self.begin(tokens, state, lengths)
        recurrence = self._recurrence(tokens, state, mask)
        solver, stopping = solve.solver or self.solver, solve.stopping or self.stopping
        gradient = solve.gradient or Phantom()
        start = self._start(recurrence, solve.start, mask)
        fused = self._fused_backend(solve.mode, recurrence, solver, gradient, start)
        mode = chosen_mode(solve, solver, start, one_launch=fused is not None, state_grows=self.state_grows)
        if mode == "sequential" and fused is not None and isinstance(solver, DampedPicard):
            self_map = self._fused_self_map()
            result = solve_sequentially_fused(
                self_map, recurrence, solver, stopping, start, gradient, fused, state_after=solve.state_after
            )
        else:
            result = solve_by(
                mode,
                recurrence,
                solver,
                stopping,
                gradient,
                start,
                chained=solve.mode == "sequential",
                state_after=solve.state_after,
            )
        found = result.solution
        name = mode if isinstance(mode, str) else "windowed"
        solution = SequenceSolution(
            found.value, found.iterations, found.residual, found.status, result.evaluations, name, mask
        )
        logits = self.head(found.value)
        if mask is not None:
            logits = logits.masked_fill(~mask[..., None], 0)
        return ModelOutput(logits, result.state if solve.state_after else {}, solution)

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token; a `NotConvergedWarning` tells of sequences not converged."""
        output = self.run(as_column(token), state, Solve("sequential"))
        warn_unless_converged(output)
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
        injections = [injection[0].detach() for injection in self._inject(positions)]
        return TransitionBatch(
            advance=self._advance_one,
            inputs={f"injection.{layer}": injection for layer, injection in enumerate(injections)},
            latent_size=self.config.d_model,
            layer_states=self.layer_states,
            damping=self.config.damping,
        )

    def _advance_one(self, latent: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
        """Φ and G without an axis of sequences."""
        batched = {name: tensor[None] for name, tensor in state.items()}
        injections = [inputs[f"injection.{layer}"] for layer in range(self.config.layers)]
        stream, following = self.advance(latent[None], injections, batched)
        return self.latent_norm(stream)[0], {name: tensor[0] for name, tensor in following.items()}

    def _inject(self, tokens: Tensor) -> list[Tensor]:
        """The injection of every layer, ``[batch, length, injection_size]``, the same in all iterations."""
        embedded = self.embedding_norm(self.embedding(tokens))
        return [injection(embedded) for injection in self.injections]

    def _recurrence(self, tokens: Tensor, state: State, mask: Tensor | None = None) -> Recurrence:
        """Φ and G of a batch; the inputs are the injections, and behind them the mask if there is one."""
        injections = self._inject(tokens)
        plain = is_plain(self.mixers, self.mixer_norms, self.mlps, self.latent_norm)
        known = plain and all(has_derivative(type(cell)) for cell in self.cells)
        recurrence = Recurrence(
            injections if mask is None else [*injections, mask],
            state,
            self._sweep,
            self._advance,
            self._states,
            self._derivative if known else None,
        )
        return replace(recurrence, adjoint=partial(self._adjoint, recurrence))

    def _start(self, recurrence: Recurrence, start: Tensor | None, mask: Tensor | None) -> Tensor:
        """z₀ of every token, 0 at padding."""
        shape = (*recurrence.inputs[0].shape[:2], self.config.d_model)
        given = like(self.embedding, self)  # injections have another type under autocast
        if start is None:
            return given.new_zeros(shape)
        if start.shape != shape:
            raise InputError(f"start has shape {tuple(start.shape)}; give {shape} for these tokens")
        if start.dtype != given.dtype or start.device != given.device:
            raise InputError(
                f"start has dtype {start.dtype} on {start.device}; give {given.dtype} on {given.device}"
            )
        return start if mask is None else start.masked_fill(~mask[..., None], 0)

    def _split(self, inputs: Inputs) -> tuple[Inputs, Tensor | None]:
        """The injections and the mask."""
        layers = self.config.layers
        return inputs[:layers], inputs[layers] if len(inputs) > layers else None

    def _sweep(self, latent: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
        """Φ and G of all tokens together: one scan per layer. Padding has the image 0, a fixed point."""
        injections, mask = self._split(inputs)
        stream, following = self.sweep(latent, injections, state, mask)
        image = self.latent_norm(stream)
        return image if mask is None else image.masked_fill(~mask[..., None], 0), following

    def _advance(self, latent: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
        """Φ and G of one token; latent ``[batch, d_model]``."""
        injections, real = self._split(inputs)
        if real is not None and self.state_grows:  # padding stands in the state, marked as such
            image, following = self._sweep(latent[:, None], [part[:, None] for part in inputs], state)
            return image[:, 0], following
        stream, following = self.advance(latent, injections, state)
        image = self.latent_norm(stream)
        if real is None:
            return image, following
        return image.masked_fill(~real[..., None], 0), keep_where(real, following, state)

    def _states(self, latent: Tensor, inputs: Inputs, state: State) -> State:
        """The state before every token and after the last."""
        injections, mask = self._split(inputs)
        return self.visited(latent, injections, state, mask)

    def _adjoint(self, recurrence: Recurrence, latent: Tensor, gradient: Tensor) -> AdjointSolution | None:
        """Solve the adjoint system in a kernel, where there is one."""
        if self._fused_backend("auto", recurrence, self.solver, Phantom(), latent) != "numba":
            return None
        return solve_adjoint_fused(self._fused_self_map(), recurrence, latent, gradient)

    def _derivative(self, latent: Tensor, inputs: Inputs, state: State) -> Tensor:
        """∂zΦ of single tokens, the states before them held fixed, ``[batch, d_model, d_model]``."""
        injections, real = self._split(inputs)
        stream, along = push_forward(self, latent, injections, state)
        derivative = self.latent_norm.push_forward(stream, along)
        return derivative if real is None else derivative.masked_fill(~real[..., None, None], 0)

    def _fused_backend(
        self,
        mode: Mode | Windowed,
        recurrence: Recurrence,
        solver: Solver,
        gradient: GradientRule,
        start: Tensor,
    ) -> str | None:
        """The kernel that runs the sequential mode; None where plain PyTorch does.

        Raises:
            InputError: if the mode and a kernel are asked for by name, and it cannot run the solve.
        """
        backend = self.sequential_backend
        if mode not in ("auto", "sequential") or backend == "loop" or not start.numel():
            return None
        if self.mlps or not has_fused_self_map(self.cells, [*self.mixer_norms, self.latent_norm]):
            if mode == "sequential" and backend != "auto":
                raise InputError(
                    f"sequential_backend is {backend!r}, which runs Mamba-2 cells with RMS norms, without "
                    "MLP, adapters and hooks; give 'auto' or 'loop'"
                )
            return None
        parts: tuple[nn.Module, ...] = (self.mixers, self.mixer_norms, self.latent_norm)
        weights = [weight for part in parts for weight in part.parameters()]
        asked = self.cells, weights, recurrence, solver, gradient, start
        chosen = choose(
            "auto" if mode == "auto" else backend, request_of(*asked, chained=mode == "sequential")
        )
        return None if chosen == "loop" else chosen

    def _fused_self_map(self) -> SelfMap:
        return self_map_of(self.cells, self.norms, self.latent_norm, residual=self.residual)


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

    class Model(ImplicitModel):
        cell_class: ClassVar[type[Cell]] = cell

    module = sys._getframe(1).f_globals.get("__name__", __name__)  # as in explicit_model
    return named(Model, name, description, config_class(cell, base), module)
