"""The sequential mode by a fused kernel, for models whose self-map is a stack of Mamba-2 layers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from implicit.cells import Cell, Mamba2Cell, RMSNorm
from implicit.cells.plain import is_plain
from implicit.fixed_point import AdjointSolution, DampedPicard, Solution, Solver, Stopping
from implicit.gradients import GradientRule, Unrolled
from implicit.modes.adjoint import differentiated, solve_adjoint
from implicit.modes.recurrence import ModeResult, Recurrence
from implicit.ops.hand_written_passes import is_transformed
from implicit.ops.sequential_solve import SelfMap, sequential_solve
from implicit.ops.sequential_solve.solve import Request


def has_fused_self_map(cells: Sequence[Cell], norms: Sequence[nn.Module]) -> bool:
    """Return whether the kernels have a form for these cells and norms; `is_plain` says what has none."""
    known = all(type(cell) is Mamba2Cell for cell in cells) and all(type(norm) is RMSNorm for norm in norms)
    if not (known and is_plain(*cells, *norms)):
        return False
    if any(cell.norm.groups != cell.groups for cell in _mamba2(cells)):
        return False
    sizes = {(cell.groups, *(part.shape for part in cell.parameters())) for cell in _mamba2(cells)}
    return (
        len(sizes) == len({part.epsilon for part in (*norms, *(cell.norm for cell in _mamba2(cells)))}) == 1
    )


def self_map_of(
    cells: Sequence[Cell], norms: Sequence[RMSNorm], latent_norm: RMSNorm, *, residual: bool
) -> SelfMap:
    """Gather the weights of Φ: views of the parameters for one layer, copies for more."""
    layers = _mamba2(cells)
    return SelfMap(
        mixer_norm=_stacked([norm.weight for norm in norms]),
        in_proj=_stacked([cell.in_proj.weight for cell in layers]),
        conv_weight=_stacked([cell.conv1d.weight[:, 0] for cell in layers]),
        conv_bias=_stacked([cell.conv_bias for cell in layers]),
        dt_bias=_stacked([cell.dt_bias for cell in layers]),
        A_log=_stacked([cell.A_log for cell in layers]),
        D=_stacked([cell.D for cell in layers]),
        gate_norm=_stacked([cell.norm.weight for cell in layers]),
        out_proj=_stacked([cell.out_proj.weight for cell in layers]),
        latent_norm=latent_norm.weight,
        groups=layers[0].groups,
        residual=residual,
        epsilon=latent_norm.epsilon,
    )


def request_of(
    cells: Sequence[Cell],
    weights: Iterable[Tensor],
    recurrence: Recurrence,
    solver: Solver,
    gradient: GradientRule,
    start: Tensor,
    *,
    chained: bool = True,
) -> Request:
    """Return what decides whether a kernel can run a solve.

    The weights, all that Φ reads, the inputs and the start tell whether a gradient is wanted. With
    ``chained`` it goes from solve to solve; otherwise it is that of all tokens together.
    """
    tensors = [*weights, *recurrence.inputs, *recurrence.state.values(), start]
    wanted = chained and torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    layers = _mamba2(cells)
    weight = layers[0].out_proj.weight
    given = [*recurrence.inputs[: len(layers)], *recurrence.state.values(), start]
    return Request(
        weight.device.type,
        weight.dtype,
        len(weight),
        layers[0].d_state,
        type(gradient if isinstance(gradient, Unrolled) else solver).__name__,
        wanted or is_transformed(tensors),
        padded=len(recurrence.inputs) > len(layers),
        others=tuple(tensor.dtype for tensor in given),
    )


def solve_sequentially_fused(
    self_map: SelfMap,
    recurrence: Recurrence,
    solver: DampedPicard,
    stopping: Stopping,
    start: Tensor,
    gradient: GradientRule,
    backend: str,
    *,
    state_after: bool,
) -> ModeResult:
    """Solve token after token in one call of a kernel, then attach a gradient over all tokens.

    The recurrence computes Φ, too; its inputs are the injections of the layers, and behind them the mask if
    there is one, its state ``conv.<layer>`` and ``ssm.<layer>``. The
    result is that of `solve_sequentially`, but for fewer evaluations and the gradient, that of the
    simultaneous mode.
    """
    layers = range(self_map.layers)
    injections, windows, states, mask = _given(recurrence, self_map.layers)
    with torch.no_grad():
        walk = sequential_solve(self_map, injections, start, windows, states, solver, stopping, mask, backend)
    found = Solution(walk.value, walk.iterations, walk.residual, walk.status)
    after = {f"conv.{layer}": walk.windows[layer] for layer in layers}
    after |= {f"ssm.{layer}": walk.states[layer] for layer in layers}
    result = ModeResult(found, after, walk.iterations)
    return differentiated(recurrence, solver, stopping, gradient, result, state_after=state_after)


def fused_adjoint(
    self_map: Callable[[], SelfMap],
    form: Callable[[], tuple[object, ...]],
    weights: Iterable[Tensor],
    recurrence: Recurrence,
) -> Callable[[Tensor, Tensor], AdjointSolution | None]:
    """Return how the kernel for CPUs solves the adjoint system of all tokens in one call, or None of it.

    It returns None where what it reads was written into, or where the ``form`` of Φ, beside weights, is
    another than now. A sequence that the kernel does not solve to rounding, as where I − ∂zΦ is nearly
    singular, is solved by the factors of every token; then no residual is returned. Φ is gathered from the
    weights only when it is called: many gradients never ask, and it may copy them.
    """
    read = [*weights, *recurrence.inputs, *recurrence.state.values()]
    versions, made = [tensor._version for tensor in read], form()

    @torch.no_grad()
    def solve(latent: Tensor, gradient: Tensor) -> AdjointSolution | None:
        if versions != [tensor._version for tensor in read] or made != form():
            return None
        from implicit.ops.sequential_solve.numba_kernels.launch import TOLERANCES, walk_back

        gathered = self_map()
        injections, windows, states, mask = _given(recurrence, gathered.layers)
        value, residual = walk_back(gathered, injections, latent, windows, states, gradient, mask)
        exact = residual <= 10 * TOLERANCES[latent.dtype] * value.norm(dim=-1)  # not where it is not finite
        inexact = ~exact.all(dim=-1)
        if not bool(inexact.any()):
            return AdjointSolution(value, residual)
        alone = replace(
            recurrence,
            inputs=[tensor[inexact] for tensor in recurrence.inputs],
            state={name: tensor[inexact] for name, tensor in recurrence.state.items()},
        )
        value[inexact] = solve_adjoint(alone, latent[inexact], gradient[inexact])
        return AdjointSolution(value, None)

    return solve


def _given(recurrence: Recurrence, layers: int) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Injections, windows and states of all layers, and the mask if there is one."""
    windows, states = (
        _stacked([recurrence.state[f"{part}.{layer}"] for layer in range(layers)]) for part in ("conv", "ssm")
    )
    mask = recurrence.inputs[layers] if len(recurrence.inputs) > layers else None
    return _stacked(recurrence.inputs[:layers]), windows, states, mask


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors along a new first axis, a single one without a copy."""
    return tensors[0][None] if len(tensors) == 1 else torch.stack(list(tensors))


def _mamba2(cells: Sequence[Cell]) -> list[Mamba2Cell]:
    return [cell for cell in cells if isinstance(cell, Mamba2Cell)]
