"""Layers for a network of one's own: features in, features out, the state in and out.

`ImplicitLayer` iterates cells to a fixed point at every token, and `ExplicitLayer` runs them once. Both read
what `torch.nn.GRU` reads with ``batch_first=True``, and return outputs and state as it does.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from automata.checks import by_known_names, check_integer, check_type, shown
from automata.errors import InputError
from implicit.cells import Cell, RMSNorm
from implicit.cells.contract import check_cell
from implicit.cells.interface import has_hooks
from implicit.cells.plain import like
from implicit.fixed_point.loop import autocasts
from implicit.models.input_checks import check_state, mask_of
from implicit.models.interface import warn_unless_converged
from implicit.models.iterated_layers import IteratedLayers
from implicit.models.stack import Layers, mlps_of
from implicit.modes import SequenceSolution, Solve, checked_solve
from implicit.ops.hand_written_passes import uncompiled
from theory.status import Status
from theory.transition import State, Transition, TransitionBatch


@dataclass(frozen=True, eq=False)
class LayerOutput:
    """The outputs of a layer for a batch of sequences.

    ``features``, ``[batch, length, d_model]``, are 0 at padding; the state is that after the last real token
    of each sequence; ``solution`` is None for an explicit layer.
    """

    features: Tensor
    state: State
    solution: SequenceSolution | None = None


class FeatureLayer(Layers):
    """The base of both layers: the cells, and the checks of inputs."""

    d_model: int

    def __init__(
        self, cells: Cell | Iterable[Cell], d_model: int | None = None, *, mlp_size: int = 0
    ) -> None:
        super().__init__()
        if isinstance(cells, nn.Module | str) or not isinstance(cells, Iterable):
            cells = [cells]
        several = list(cells)
        if not several:
            raise InputError("cells is empty; give at least one cell, such as Mamba2Cell(32)")
        for cell in several:
            if not isinstance(cell, Cell):
                raise InputError(f"one of cells is {shown(cell)}; give a Cell, such as Mamba2Cell(32)")
        if d_model is None:
            d_model = getattr(getattr(several[0], "in_proj", None), "in_features", None)
            if d_model is None:
                name = type(several[0]).__name__
                raise InputError(f"d_model is None, and {name} has no in_proj to tell it; give d_model")
        check_integer("d_model", d_model, 1)
        check_integer("mlp_size", mlp_size, 0)
        for cell in several:
            read = getattr(getattr(cell, "in_proj", None), "in_features", d_model)
            if read != d_model:
                raise InputError(
                    f"d_model is {d_model}, but {type(cell).__name__} reads {read}; give one width"
                )
            check_cell(cell, d_model, iterated=isinstance(self, IteratedLayers))
        self.d_model, self.state_grows = d_model, any(cell.state_grows for cell in several)
        self.mixers = nn.ModuleList(several)
        self.mixer_norms = nn.ModuleList(RMSNorm(d_model) for _ in several)
        self.mlps = mlps_of(d_model, len(several), mlp_size)

    @abstractmethod
    def run(
        self, features: Tensor, state: State | None = None, *, lengths: Tensor | None = None
    ) -> LayerOutput:
        """Read whole sequences, from the initial state if none is given.

        Args:
            features: ``[batch, length, d_model]``; what stands at padding is not read.
            state: before the first token.
            lengths: real tokens of each sequence, int64 ``[batch]``, or which tokens are real, bool
                ``[batch, length]`` with padding behind them; all if None.
        """

    @abstractmethod
    def at(self, features: Tensor) -> TransitionBatch:
        """Return (Φ, G) at the features of tokens, ``[positions, d_model]``."""

    def transition(self, features: Tensor) -> Transition:
        """Return (Φ, G) at the features of one token, ``[d_model]``; `theory.check` takes many of them."""
        takes = f"a layer takes features, [{self.d_model}], not tokens: theory.check(layer, features)"
        check_type("token", features, Tensor, takes)
        if self.state_grows:
            raise InputError("the state of this layer grows with every token; give cells of constant state")
        if has_hooks(self):
            raise InputError("this layer has hooks, which its transition does not call; remove them first")
        if features.shape != (self.d_model,):
            raise InputError(f"features of a token have shape {[*features.shape]}; give [{self.d_model}]")
        self.begin(features[None, None], None, None)
        return self.at(features[None])[0]

    def forward(
        self, features: Tensor, state: State | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Return features and state of `run`; a `NotConvergedWarning` tells if a token has no fixed point."""
        output = self.run(features, state, lengths=lengths)
        warn_unless_converged(self, output.solution)
        return output.features, output.state

    def begin(
        self, features: Tensor, state: State | None, lengths: Tensor | None
    ) -> tuple[Tensor, State, Tensor | None]:
        """Check what `run` is given: return features with 0 at padding, the state, and the mask."""
        check_type("features", features, Tensor, "give a tensor, [batch, length, d_model]")
        shape, weight = tuple(features.shape), like(self)
        if len(shape) != 3 or shape[2] != self.d_model or 0 in shape:
            raise InputError(f"features has shape {shape}; give [batch, length, {self.d_model}]")
        autocast = autocasts(features)
        if features.device != weight.device or (features.dtype != weight.dtype and not autocast):
            raise InputError(
                f"features has dtype {features.dtype} on {features.device}, and the layer {weight.dtype} on "
                f"{weight.device}; convert one of them with .to(...)"
            )
        mask = mask_of(features[..., 0], lengths)
        if mask is not None:
            features = features.masked_fill(~mask[..., None], 0)
        initial = self.init_state(len(features))
        if state is not None:
            check_state(state, initial, type(self).__name__, grows=self.state_grows)
        return features, initial if state is None else state, mask


class ImplicitLayer(IteratedLayers, FeatureLayer):
    """Cells iterated to a fixed point at every token, as a layer of a network.

    The features x of a token are injected into every cell, and the latent z is iterated from 0 through all
    cells in turn: z ← norm(cell(norm(z), W norm(x))). The output is z*, of length about √d_model. The norms
    before the cells begin with a weight of 0.1, so that an untrained layer finds its fixed points in some ten
    iterations. InputError for what is no cell, or sizes that do not fit.

    Args:
        cells: a `Cell`, of `implicit.cells` or one of yours, or several, first layer first.
        d_model: features; those that the first cell's ``in_proj`` reads if None.
        mlp_size: hidden features of a SwiGLU MLP after every cell; 0 for none.
        residual: whether every cell adds its input, as in the paper and in the models of this package.
        solve: mode, stopping rule, solver and gradient; damped Picard to a relative tolerance of 10⁻⁴ and the
            exact gradient if None. Every call may have its own: ``layer.run(x, solve=...)``.

    Example:
        >>> import torch
        >>> from implicit.cells import Mamba2Cell
        >>> _ = torch.manual_seed(0)
        >>> layer = ImplicitLayer(Mamba2Cell(16, d_state=4, head_size=8))
        >>> output, state = layer(torch.randn(2, 7, 16))
        >>> output.shape, sorted(state)
        (torch.Size([2, 7, 16]), ['conv.0', 'ssm.0'])
        >>> layer.run(torch.randn(2, 3, 16), state).solution.share_converged
        1.0
    """

    @by_known_names
    def __init__(
        self,
        cells: Cell | Iterable[Cell],
        d_model: int | None = None,
        *,
        mlp_size: int = 0,
        residual: bool = False,
        solve: Solve | None = None,
    ) -> None:
        super().__init__(cells, d_model, mlp_size=mlp_size)
        check_type("residual", residual, bool, "give True or False")
        self.residual = residual
        self.solve = checked_solve(solve)
        self.latent_size = self.d_model
        for norm in self.norms:
            nn.init.constant_(norm.weight, 0.1)
        self.input_norm, self.latent_norm = RMSNorm(self.d_model), RMSNorm(self.d_model)
        self.injections = nn.ModuleList(
            nn.Linear(self.d_model, cell.injection_size, bias=False) for cell in self.cells
        )

    @uncompiled
    def run(
        self,
        features: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> LayerOutput:
        """Find the fixed point of every token, by the layer's own ``solve`` if None; see `FeatureLayer`.

        Features are NaN where the search met NaN or infinity; the solution holds the last finite iterate.
        """
        features, state, mask = self.begin(features, state, lengths)
        normalised = self.input_norm(features)
        injections = [injection(normalised) for injection in self.injections]
        solution, after = self.solved(injections, state, mask, self.solve if solve is None else solve)
        # A finite iterate would hide a fault of the input behind a number.
        found = solution.value.masked_fill((solution.status == Status.NON_FINITE)[..., None], torch.nan)
        return LayerOutput(found, after, solution)

    def at(self, features: Tensor) -> TransitionBatch:
        """Return (Φ, G) at features, with the damping of the layer's own solver."""
        normalised = self.input_norm(features)
        injections = [injection(normalised) for injection in self.injections]
        return self._transitions(injections, getattr(self.solve.solver or self.solver, "damping", 1.0))


class ExplicitLayer(FeatureLayer):
    """Cells run once, as a layer of a network: x ← x + cell(norm(x)), through all cells in turn, then a norm.

    Arguments and errors are those of `ImplicitLayer`, which has the same cells.

    Example:
        >>> import torch
        >>> from implicit.cells import DeltaNetCell
        >>> layer = ExplicitLayer([DeltaNetCell(8), DeltaNetCell(8)])
        >>> output, state = layer(torch.randn(2, 7, 8))
        >>> output.shape, "memory.1" in state
        (torch.Size([2, 7, 8]), True)
    """

    @by_known_names
    def __init__(
        self, cells: Cell | Iterable[Cell], d_model: int | None = None, *, mlp_size: int = 0
    ) -> None:
        super().__init__(cells, d_model, mlp_size=mlp_size)
        self.residual, self.final_norm = True, RMSNorm(self.d_model)

    def run(
        self, features: Tensor, state: State | None = None, *, lengths: Tensor | None = None
    ) -> LayerOutput:
        """Read whole sequences, one pass through the layers; see `FeatureLayer.run`."""
        features, state, mask = self.begin(features, state, lengths)
        stream, after = self.sweep(features, [None] * len(self.mixers), state, mask)
        stream = self.final_norm(stream)
        return LayerOutput(stream if mask is None else stream.masked_fill(~mask[..., None], 0), after)

    def at(self, features: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at features: G is the whole transition."""
        return self.updates(features)
