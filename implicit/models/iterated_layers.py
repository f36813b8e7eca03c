"""Layers iterated to a fixed point at every token: what implicit models and implicit layers share.

| code            | paper        | meaning                                                              |
|-----------------|--------------|----------------------------------------------------------------------|
| ``latent``      | z            | ``[batch, length, latent_size]``, iterated from 0                    |
| ``injections``  | x            | one per layer, added to the input projection of its cell             |
| ``state``       | s            | per layer ``<part>.<layer>``: h, and the window of a convolution     |
| ``_sweep``      | Φ            | z ← norm(z + cell(norm(z), injection)), through all layers           |
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from automata.errors import InputError
from implicit.cells import Mamba2Cell, RMSNorm, SwiGLU, keep_where
from implicit.cells.plain import is_plain, like
from implicit.fixed_point import DampedPicard, Solver, Stopping
from implicit.fixed_point.loop import autocasts
from implicit.gradients import FactoredImplicit, GradientRule, Implicit
from implicit.models.stack import Layers, has_derivative, of_layer
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
    fused_adjoint,
    has_fused_self_map,
    request_of,
    self_map_of,
    solve_sequentially_fused,
)
from implicit.ops.hand_written_passes import is_recorded
from implicit.ops.sequential_solve import BACKENDS, SelfMap
from theory.transition import State, TokenInputs, TransitionBatch

MOST_FACTORED = 64
"""Features up to which the default gradient takes a matrix per token where no kernel solves it.

A backward pass of 8 sequences of 64 tokens of untrained layers, which contract well, takes 0.15 s by factors
and 0.03 to 0.06 iterated at 64 features, and 1.0 to 6.9 s and 0.07 at 256 (leaky cell, Gated DeltaNet)."""


_ADJOINT = Stopping(rtol=1e-4, max_iterations=1000)
"""Least accuracy and limit of the adjoint, however loosely the fixed point is solved."""


class IteratedLayers(Layers):
    """Layers inside a fixed point, read and differentiated as a `Solve` says.

    The ``sequential_backend`` runs the sequential mode: ``"loop"`` (plain PyTorch), ``"numba"`` or
    ``"triton"`` (all tokens in one call of a kernel, for a CPU or a GPU) or ``"auto"``, see
    `implicit.ops.explain_sequential_solve`.
    """

    latent_norm: RMSNorm  # after the last layer
    latent_size: int  # features of the latent
    state_grows: bool  # with every token
    sequential_backend: str = "auto"

    @property
    def solver(self) -> DampedPicard:
        """The solver where a `Solve` names none."""
        return DampedPicard()

    @property
    def stopping(self) -> Stopping:
        """The tolerance and the limit where a `Solve` names none."""
        return Stopping()

    def _exact_gradient(self, recurrence: Recurrence, stopping: Stopping, start: Tensor) -> GradientRule:
        """The rule where a `Solve` names none.

        Solving token by token never fails; iterating costs less where a token takes a large matrix. Half
        precision and states that grow have no factors.
        """
        if start.dtype.itemsize == 2 or autocasts(start):
            return Implicit()
        small = self.latent_size <= MOST_FACTORED
        if not self.state_grows and (small or recurrence.adjoint is not None):
            return FactoredImplicit()
        rtol = min(stopping.rtol or _ADJOINT.rtol, _ADJOINT.rtol)
        limit = max(stopping.max_iterations, _ADJOINT.max_iterations)
        return Implicit(stopping=Stopping(rtol=rtol, max_iterations=limit))

    def solved(
        self, injections: Inputs, state: State, mask: Tensor | None, solve: Solve | None
    ) -> tuple[SequenceSolution, State]:
        """Return the fixed points of all tokens, and the state after the last where it is wanted."""
        solve = checked_solve(solve)
        if is_recorded():
            raise InputError("a graph records no iteration to a tolerance; export or trace an explicit model")
        recurrence = self._recurrence_of(injections, state, mask)
        solver, stopping = solve.solver or self.solver, solve.stopping or self.stopping
        start = self._start(recurrence, solve.start, mask)
        gradient = solve.gradient or self._exact_gradient(recurrence, stopping, start)
        fused = self._fused_backend(solve.mode, recurrence, solver, gradient, start)
        mode = chosen_mode(
            solve,
            solver,
            start,
            one_launch=fused is not None,
            state_grows=self.state_grows,
            stopping=stopping,
        )
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
        return solution, result.state if solve.state_after else {}

    def _recurrence_of(self, injections: Inputs, state: State, mask: Tensor | None) -> Recurrence:
        """Φ and G of a batch; the inputs are the injections, and behind them the mask if there is one.

        A backward pass may come when the module has other weights: what it evaluates is fixed here.
        """
        plain = is_plain(self.mixers, self.mixer_norms, self.mlps, self.latent_norm)
        norms_known = all(type(norm) is RMSNorm for norm in (*self.mixer_norms, self.latent_norm))
        known = plain and norms_known and all(has_derivative(type(cell)) for cell in self.cells)
        recurrence = Recurrence(
            injections if mask is None else [*injections, mask],
            state,
            self._sweep,
            self._advance,
            self._states,
            self._derivative if known else None,
        )
        if not torch.is_grad_enabled():
            return recurrence
        recurrence = replace(recurrence, as_built=_weights_of(self))
        start = self._start(recurrence, None, None)
        if self._fused_backend("auto", recurrence, self.solver, Implicit(), start) != "numba":
            return recurrence
        adjoint = fused_adjoint(self._fused_self_map, self._form, self.parameters(), recurrence)
        return replace(recurrence, adjoint=adjoint)

    def without_kernels(self) -> Self:
        """Compute by PyTorch's own operations from now on; return the model itself.

        Proofs of executed floats assume nothing about kernels and compilers.
        """
        self.sequential_backend = "loop"
        for cell in self.cells:
            if isinstance(cell, Mamba2Cell):
                cell.backend = "chunked"
        return self

    def _start(self, recurrence: Recurrence, start: Tensor | None, mask: Tensor | None) -> Tensor:
        """z₀ of every token, 0 at padding."""
        shape = (*recurrence.inputs[0].shape[:2], self.latent_size)
        given = like(self)  # injections have another type under autocast
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
        layers = len(self.mixers)
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

    def _transitions(self, injections: Inputs, damping: float) -> TransitionBatch:
        """Φ and G at positions; injections ``[positions, injection_size]``."""
        return TransitionBatch(
            advance=self._advance_one,
            inputs={f"injection.{layer}": part.detach() for layer, part in enumerate(injections)},
            latent_size=self.latent_size,
            layer_states=self.layer_states,
            damping=damping,
        )

    def _advance_one(self, latent: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
        """Φ and G without an axis of sequences."""
        batched = {name: tensor[None] for name, tensor in state.items()}
        injections = [inputs[f"injection.{layer}"] for layer in range(len(self.mixers))]
        stream, following = self.advance(latent[None], injections, batched)
        return self.latent_norm(stream)[0], {name: tensor[0] for name, tensor in following.items()}

    def _derivative(self, latent: Tensor, inputs: Inputs, state: State) -> Tensor:
        """∂zΦ of single tokens, the states before them held fixed, ``[batch, d_model, d_model]``."""
        injections, real = self._split(inputs)
        width, stream = latent.shape[-1], latent
        along = torch.eye(width, dtype=latent.dtype, device=latent.device).expand(len(latent), -1, -1)
        for layer, (cell, norm) in enumerate(zip(self.cells, self.norms, strict=True)):
            pair = cell.output_with_derivative(norm(stream), of_layer(state, layer), injections[layer])
            assert pair is not None  # as has_derivative told
            output, slope = pair
            slope = slope @ norm.push_forward(stream, along)
            stream, along = (stream + output, along + slope) if self.residual else (output, slope)
            if self.mlps:
                before, mlp = cast("tuple[RMSNorm, SwiGLU]", tuple(cast("nn.Sequential", self.mlps[layer])))
                normalised = before(stream)
                along = along + mlp.push_forward(normalised, before.push_forward(stream, along))
                stream = stream + mlp(normalised)
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
        """The kernel that runs the sequential mode, None where plain PyTorch does; refuse one that cannot."""
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
        request = request_of(*asked, chained=mode == "sequential")
        chosen = BACKENDS.choose(request, "auto" if mode == "auto" else backend)
        return None if chosen == "loop" else chosen

    def _fused_self_map(self) -> SelfMap:
        return self_map_of(self.cells, self.norms, self.latent_norm, residual=self.residual)

    def _form(self) -> tuple[object, ...]:
        """All that makes the fused self-map, but for its weights; modules are compared as objects."""
        cells = [cell for cell in self.cells if isinstance(cell, Mamba2Cell)]
        norms = [*self.norms, self.latent_norm, *(cell.norm for cell in cells)]
        groups = [(cell.groups, cell.norm.groups) for cell in cells]
        return self.residual, *cells, *norms, *groups, *(norm.epsilon for norm in norms)


def _weights_of(module: nn.Module) -> Callable[[], AbstractContextManager[None]]:
    """Return what puts the weights and buffers that a module has now in their places, while it is entered.

    `torch.func.functional_call` takes its own back before a backward pass.
    """
    stores: list[dict[str, Any]] = [
        store for part in module.modules() for store in (part._parameters, part._buffers)
    ]
    then = [(store, name, weight) for store in stores for name, weight in store.items()]

    @contextmanager
    def entered() -> Iterator[None]:
        others = [
            (store, name, store[name], weight)
            for store, name, weight in then
            if name in store and store[name] is not weight
        ]
        try:
            for store, name, _, weight in others:
                store[name] = weight
            yield
        finally:
            for store, name, now, _ in others:
                store[name] = now

    return entered
