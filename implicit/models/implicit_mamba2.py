"""ImplicitMamba2: Mamba-2 layers iterated to a fixed point at every token.

| code            | paper        | meaning                                                              |
|-----------------|--------------|----------------------------------------------------------------------|
| ``latent``      | z            | ``[batch, length, d_model]``, iterated from 0                        |
| ``injections``  | x            | per layer Linear(RMSNorm(embedding)), added to the input projection  |
| ``state``       | s            | per layer ``ssm.<layer>`` (h) and ``conv.<layer>`` (the window)      |
| ``self_map``    | Φ            | z ← norm(z + mixer(norm(z), injection)), through all layers          |
| ``damping``     | τ            | z ← (1 − τ) z + τ Φ(z)                                               |

Source: Schöne et al. 2025, arXiv 2502.07827, Eq. 1 and 2.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn

from automata.errors import InputError, unknown_name
from implicit.cells import CellState, Mamba2Cell, RMSNorm
from implicit.cells.mamba2_derivative import output_with_derivative
from implicit.fixed_point import (
    DampedPicard,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Stopping,
)
from implicit.gradients import GradientRule, Phantom
from implicit.models.interface import ModelConfig, SequenceModel
from implicit.modes import (
    ModeResult,
    Recurrence,
    Windowed,
    solve_sequentially,
    solve_simultaneously,
    solve_windowed,
)
from implicit.modes.fused import request_of, self_map_of, solve_sequentially_fused
from implicit.modes.recurrence import Inputs
from implicit.ops.sequential_solve import choose
from theory.transition import State
from theory.transition_batch import TokenInputs, TransitionBatch

Mode = Literal["simultaneous", "sequential", "windowed"]
_MODES: dict[str, Callable[[Recurrence, Solver, Stopping, GradientRule, Tensor], ModeResult]] = {
    "simultaneous": solve_simultaneously,
    "sequential": solve_sequentially,
    "windowed": partial(solve_windowed, options=Windowed()),
}


class ImplicitMamba2Config(ModelConfig):
    """Sizes of an `ImplicitMamba2` and how it finds its fixed point outside of training.

    Attributes:
        d_model: features of the latent.
        layers: Mamba-2 layers inside the fixed point.
        expand: d_inner = expand · d_model.
        d_state: state size per channel.
        head_size: channels a head.
        d_conv: width of the short convolution.
        groups: groups that share B and C.
        residual: whether the self-map adds its input, z ← norm(z + mixer(…)), as in the paper.
        damping: τ of the iteration.
        rtol: relative tolerance of the fixed point outside of training.
        max_iterations: the most self-iterations outside of training.

    Example:
        >>> ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=32).layers
        1
    """

    d_model: PositiveInt = 32
    layers: PositiveInt = 1
    expand: PositiveInt = 2
    d_state: PositiveInt = 16
    head_size: PositiveInt = 16
    d_conv: PositiveInt = 4
    groups: PositiveInt = 1
    residual: bool = True
    damping: PositiveFloat = Field(default=0.8, le=1)
    rtol: NonNegativeFloat = 1e-4
    max_iterations: PositiveInt = 1000


@dataclass(frozen=True)
class SequenceSolution(Solution):
    """The fixed points of a batch of sequences with what the model makes of them.

    Attributes:
        logits: ``[batch, length, output_size]``.
        state: the state after the last token.
        evaluations: how often each token went through the layers, for its own sake or because others were
            evaluated with it, ``[batch, length]``, int64; what gradients take is not counted.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=8, head_size=8)
        >>> model = ImplicitMamba2(config)
        >>> solution = model.solve(torch.tensor([[0, 1, 1]]), mode="sequential")
        >>> solution.latents.shape, solution.logits.shape, solution.share_converged
        (torch.Size([1, 3, 8]), torch.Size([1, 3, 2]), 1.0)
    """

    logits: Tensor
    state: State
    evaluations: Tensor

    @property
    def latents(self) -> Tensor:
        """The latents z*, ``[batch, length, d_model]``: the value of the solution under its name here."""
        return self.value


class ImplicitMamba2(SequenceModel):
    """Mamba-2 whose layers are iterated to a fixed point at every token.

    Attributes:
        sequential_backend: what runs the sequential mode: ``"loop"`` (plain PyTorch), ``"triton"`` (all
            tokens in one launch, without gradient) or ``"auto"``, see
            `implicit.ops.explain_sequential_solve`.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=8, head_size=8)
        >>> model = ImplicitMamba2(config)
        >>> tokens = torch.tensor([[0, 1, 1, 0]])
        >>> state, steps = model.init_state(1), []
        >>> for t in range(4):
        ...     state, logits = model.step(state, tokens[:, t])
        ...     steps.append(logits)
        >>> torch.allclose(model(tokens), torch.stack(steps, 1), atol=1e-3)
        True
    """

    name: ClassVar[str] = "implicit-mamba2"
    config_class: ClassVar[type[ModelConfig]] = ImplicitMamba2Config
    config: ImplicitMamba2Config

    def __init__(self, config: ImplicitMamba2Config) -> None:
        super().__init__(config)
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.embedding_norm = RMSNorm(config.d_model)
        self.mixers = nn.ModuleList(
            Mamba2Cell(
                config.d_model, config.d_state, config.d_conv, config.expand, config.head_size, config.groups
            )
            for _ in range(config.layers)
        )
        self.injections = nn.ModuleList(
            nn.Linear(config.d_model, mixer.d_in_proj, bias=False) for mixer in self._cells()
        )
        self.mixer_norms = nn.ModuleList(RMSNorm(config.d_model) for _ in range(config.layers))
        self.latent_norm = RMSNorm(config.d_model)
        self.sequential_backend = "auto"
        self.head = nn.Linear(config.d_model, config.output_size)

    @property
    def solver(self) -> DampedPicard:
        """The solver of the configuration."""
        return DampedPicard(self.config.damping)

    @property
    def stopping(self) -> Stopping:
        """The tolerance and the limit of the configuration."""
        return Stopping(rtol=self.config.rtol, max_iterations=self.config.max_iterations)

    def init_state(self, batch_size: int) -> State:
        """Return zero windows and zero SSM states, ``conv.<layer>`` and ``ssm.<layer>``."""
        state: State = {}
        for layer, mixer in enumerate(self._cells()):
            state[f"conv.{layer}"], state[f"ssm.{layer}"] = mixer.init_state(batch_size)
        return state

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the simultaneous mode; a `NotConvergedWarning` tells if some token failed."""
        solution = self.solve(tokens)
        _warn_unless_converged(solution)
        return solution.logits

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token by the sequential mode; a `NotConvergedWarning` tells of sequences not converged."""
        solution = self.solve(token[:, None], mode="sequential", state=state)
        _warn_unless_converged(solution)
        return solution.state, solution.logits[:, 0]

    def solve(
        self,
        tokens: Tensor,
        mode: Mode | Windowed = "simultaneous",
        *,
        state: State | None = None,
        solver: Solver | None = None,
        stopping: Stopping | None = None,
        gradient: GradientRule | None = None,
        start: Tensor | None = None,
    ) -> SequenceSolution:
        """Find the fixed point of every token and say how that went.

        Args:
            tokens: ``[batch, length]``, int64.
            mode: ``"simultaneous"`` iterates all tokens together, ``"sequential"`` one after the other;
                ``"windowed"``, or a `Windowed` with its options, finds the answer of the latter with windows
                that follow the front of convergence (docs/solvers.md helps to choose).
            state: the state before the first token; the initial state if None.
            solver: damped Picard with the configured damping if None.
            stopping: the configured tolerance and limit if None.
            gradient: how the solution is differentiated; `Phantom` if None.
            start: z₀, ``[batch, length, d_model]``; zero if None.

        Returns:
            Latents, logits, the state after the last token, and per token iterations, residual, status and
            evaluations.

        Raises:
            InputError: for tokens that the model cannot read, a start that does not fit, an unknown mode, or
                a solver or gradient rule that the windowed mode cannot use.
        """
        self.check_tokens(tokens)
        recurrence = self._recurrence(tokens, state)
        solver, stopping = solver or self.solver, stopping or self.stopping
        gradient = gradient or Phantom(damping=self.config.damping)
        if start is None:
            start = recurrence.inputs[0].new_zeros(*tokens.shape, self.config.d_model)
        elif start.shape != (*tokens.shape, self.config.d_model):
            expected = (*tokens.shape, self.config.d_model)
            raise InputError(f"start has shape {tuple(start.shape)}; give {expected} for these tokens")
        if isinstance(mode, Windowed):
            result = solve_windowed(recurrence, solver, stopping, gradient, start, mode)
        elif mode == "sequential":
            result = self._solve_sequentially(recurrence, solver, stopping, gradient, start)
        elif mode in _MODES:
            result = _MODES[mode](recurrence, solver, stopping, gradient, start)
        else:
            raise unknown_name("mode", str(mode), _MODES)
        found = result.solution
        return SequenceSolution(
            found.value,
            found.iterations,
            found.residual,
            found.status,
            self.head(found.value),
            result.state,
            result.evaluations,
        )

    def problem(self, tokens: Tensor, state: State | None = None) -> FixedPointProblem:
        """Return the fixed-point problem of the simultaneous mode: Φ of all tokens together.

        Args:
            tokens: ``[batch, length]``, int64.
            state: the state before the first token; the initial state if None.
        """
        self.check_tokens(tokens)
        return self._recurrence(tokens, state).problem()

    def states(self, tokens: Tensor, latents: Tensor, state: State | None = None) -> State:
        """Return the state before every token and after the last, ``[batch, length + 1, …]``, from latents.

        Args:
            tokens: ``[batch, length]``, int64.
            latents: of these tokens, ``[batch, length, d_model]``.
            state: the state before the first token; the initial state if None.
        """
        recurrence = self._recurrence(tokens, state)
        return recurrence.states(latents, recurrence.inputs, recurrence.state)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) at every one of the tokens; the state is windows and SSM states."""
        positions = tokens.reshape(1, -1)
        self.check_tokens(positions)
        names = [f"injection.{layer}" for layer in range(self.config.layers)]
        injections = [injection[0].detach() for injection in self._inject(positions)]

        def advance(latent: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
            batched = {name: tensor[None] for name, tensor in state.items()}
            image, following = self._advance(latent[None], [inputs[name] for name in names], batched)
            return image[0], {name: tensor[0] for name, tensor in following.items()}

        return TransitionBatch(
            advance=advance,
            inputs=dict(zip(names, injections, strict=True)),
            latent_size=self.config.d_model,
            layer_states=tuple((f"ssm.{layer}",) for layer in range(self.config.layers)),
            damping=self.config.damping,
        )

    def _cells(self) -> list[Mamba2Cell]:
        return [mixer for mixer in self.mixers if isinstance(mixer, Mamba2Cell)]

    def _norms(self) -> list[RMSNorm]:
        return [norm for norm in self.mixer_norms if isinstance(norm, RMSNorm)]

    def _inject(self, tokens: Tensor) -> list[Tensor]:
        """Every layer's injection, ``[batch, length, d_in_proj]``; it does not change over iterations."""
        embedded = self.embedding_norm(self.embedding(tokens))
        return [injection(embedded) for injection in self.injections]

    def _recurrence(self, tokens: Tensor, state: State | None) -> Recurrence:
        before = self.init_state(len(tokens)) if state is None else state
        return Recurrence(
            self._inject(tokens), before, self._sweep, self._advance, self._states, self._derivative
        )

    def _solve_sequentially(
        self,
        recurrence: Recurrence,
        solver: Solver,
        stopping: Stopping,
        gradient: GradientRule,
        start: Tensor,
    ) -> ModeResult:
        """The sequential mode by the backend that is chosen for it."""
        cells = self._cells()
        weights = [
            weight
            for part in (self.mixers, self.mixer_norms, self.latent_norm)
            for weight in part.parameters()
        ]
        request = request_of(cells[0], weights, recurrence, solver, gradient, start)
        if choose(self.sequential_backend, request) == "loop" or not isinstance(solver, DampedPicard):
            return solve_sequentially(recurrence, solver, stopping, gradient, start)
        norms = [norm for norm in self.mixer_norms if isinstance(norm, RMSNorm)]
        self_map = self_map_of(cells, norms, self.latent_norm, residual=self.config.residual)
        return solve_sequentially_fused(self_map, recurrence, solver, stopping, start)

    def _sweep(self, latent: Tensor, injections: Inputs, state: State) -> tuple[Tensor, State]:
        """Φ and G of all tokens together: one scan per layer."""
        stream = latent
        following: State = {}
        for layer, (mixer, norm) in enumerate(zip(self.mixers, self.mixer_norms, strict=True)):
            before = CellState(state[f"conv.{layer}"], state[f"ssm.{layer}"])
            output, after = mixer(norm(stream), injections[layer], before)
            stream = self._add(stream, output)
            following[f"conv.{layer}"], following[f"ssm.{layer}"] = after
        return self.latent_norm(stream), following

    def _advance(self, latent: Tensor, injections: Inputs, state: State) -> tuple[Tensor, State]:
        """Φ and G of one token; latent ``[batch, d_model]``."""
        stream = latent
        following: State = {}
        for layer, (mixer, norm) in enumerate(zip(self._cells(), self.mixer_norms, strict=True)):
            before = CellState(state[f"conv.{layer}"], state[f"ssm.{layer}"])
            output, after = mixer.step(norm(stream), before, injections[layer])
            stream = self._add(stream, output)
            following[f"conv.{layer}"], following[f"ssm.{layer}"] = after
        return self.latent_norm(stream), following

    def _states(self, latent: Tensor, injections: Inputs, state: State) -> State:
        """The state before every token and after the last."""
        stream = latent
        states: State = {}
        for layer, (mixer, norm) in enumerate(zip(self._cells(), self.mixer_norms, strict=True)):
            before = CellState(state[f"conv.{layer}"], state[f"ssm.{layer}"])
            states[f"conv.{layer}"], states[f"ssm.{layer}"] = mixer.states(
                norm(stream), injections[layer], before
            )
            if layer + 1 < len(self.mixers):
                stream = self._add(stream, mixer(norm(stream), injections[layer], before)[0])
        return states

    def _derivative(self, latent: Tensor, injections: Inputs, state: State) -> Tensor:
        """∂zΦ of single tokens, the states before them held fixed, ``[batch, d_model, d_model]``."""
        stream = latent
        along = torch.eye(latent.shape[-1], dtype=latent.dtype, device=latent.device).expand(
            len(latent), -1, -1
        )
        for layer, (mixer, norm) in enumerate(zip(self._cells(), self._norms(), strict=True)):
            before = CellState(state[f"conv.{layer}"], state[f"ssm.{layer}"])
            output, slope = output_with_derivative(mixer, norm(stream), before, injections[layer])
            along = self._add(along, slope @ norm.push_forward(stream, along))
            stream = self._add(stream, output)
        return self.latent_norm.push_forward(stream, along)

    def _add(self, stream: Tensor, output: Tensor) -> Tensor:
        return stream + output if self.config.residual else output


def _warn_unless_converged(solution: Solution) -> None:
    if not bool(solution.converged.all()):
        warnings.warn(
            f"outputs of tokens without a fixed point: {solution.message()}",
            NotConvergedWarning,
            stacklevel=3,
        )
