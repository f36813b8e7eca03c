"""Which part of the state moves which: the Frobenius mass of the blocks of ds'/ds.

The state falls into blocks: the heads of each layer's SSM state, or the whole entry where there are no heads,
and the convolution windows. Theorem 1 speaks of the blocks among the states; an explicit Mamba-2 has mass
on the diagonal of each head, and from the window to the heads, and nowhere else.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray
from torch import Tensor

from analysis.framework.figures import legend_below, power_of_ten
from analysis.framework.palette import GREY
from automata.drawing import COLORS
from theory import State, Transition, full_state_jacobian, layer_jacobians

FULL_STATE_LIMIT = 4096
"""The most state entries at which the windows are included: the full matrix then takes 128 MiB."""


@dataclass(frozen=True)
class Block:
    """Rows and columns ``start`` to ``stop`` of a part of the state.

    ``kind`` is ``"state"`` for what Theorem 1 speaks of, ``"window"`` for the rest.
    """

    label: str
    kind: str
    start: int
    stop: int

    @property
    def slice(self) -> slice:
        """The block's rows and columns."""
        return slice(self.start, self.stop)


@dataclass(frozen=True, eq=False)
class StateJacobian:
    """The matrix ds'/ds at one state, its rows and columns sorted by blocks, the windows last."""

    matrix: Tensor  # [size, size], float64
    blocks: tuple[Block, ...]  # what the rows and columns are, in order
    has_windows: bool  # whether the convolution windows are part of it

    @classmethod
    def at(cls, transition: Transition, state: State, latent: Tensor) -> "StateJacobian":
        """Measure ds'/ds at a fixed point; without the windows where the state is larger than the limit."""
        states = tuple(dict.fromkeys(name for names in transition.layer_states for name in names))
        numbers = [name for name, entry in state.items() if entry.is_floating_point() and entry.numel()]
        windows = tuple(name for name in numbers if name not in states)
        has_windows = bool(windows) and sum(entry.numel() for entry in state.values()) <= FULL_STATE_LIMIT
        names = states + windows if has_windows else states
        if has_windows:
            full = full_state_jacobian(transition, state, latent)
            order = torch.cat(
                [torch.arange(full.slices[name].start, full.slices[name].stop) for name in names]
            )
            matrix = full.matrix[order][:, order]
        else:
            joined = dataclasses.replace(transition, layer_states=(states,))
            matrix = layer_jacobians(joined, state, latent)[0].dense()
        return cls(matrix, _blocks(state, names, states), has_windows)

    @property
    def state_size(self) -> int:
        """How many of the rows are the state that Theorem 1 speaks of; they come first."""
        return max(block.stop for block in self.blocks if block.kind == "state")

    @property
    def state_block(self) -> Tensor:
        """The block ∂h'/∂h that Theorem 1 speaks of, all layers together."""
        return self.matrix[: self.state_size, : self.state_size]

    @property
    def masses(self) -> NDArray[np.float64]:
        """‖block‖_F / ‖J‖_F for every pair of blocks, outputs in rows; their squares add up to 1."""
        norms = [
            [self.matrix[row.slice, column.slice].norm().item() for column in self.blocks]
            for row in self.blocks
        ]
        return np.array(norms) / (self.matrix.norm().item() or 1.0)

    @property
    def groups(self) -> dict[str, float]:
        """The same masses summed up, as roots of sums of squares, by what they mean."""
        total = self.matrix.norm().item() or 1.0
        squares = dict.fromkeys(GROUPS, 0.0)
        for row, masses in zip(self.blocks, self.masses, strict=True):
            for column, mass in zip(self.blocks, masses, strict=True):
                if row.kind != "state" or column.kind != "state":
                    squares[f"{column.kind} to {row.kind}"] += mass**2
                elif row is column:
                    entries = self.matrix[row.slice, row.slice]
                    diagonal = entries.diagonal().norm().item() / total
                    # The off-diagonal entries are summed by themselves: a difference of norms would cancel.
                    rest = (entries - entries.diagonal().diag()).norm().item() / total
                    squares["diagonal"] += diagonal**2
                    squares["within heads, off the diagonal"] += rest**2
                else:
                    squares["across heads"] += mass**2
        return {name: square**0.5 for name, square in squares.items()}


GROUPS = (
    "diagonal",
    "within heads, off the diagonal",
    "across heads",
    "window to state",
    "state to window",
    "window to window",
)
"""The sums of the masses of a block structure."""


@dataclass(frozen=True, eq=False)
class BlockStructure:
    """Masses of the blocks, as root mean squares over several states."""

    blocks: tuple[str, ...]  # labels of the blocks
    masses: NDArray[np.float64]  # [blocks, blocks], ‖block‖_F / ‖J‖_F; rows are outputs, columns sources
    groups: dict[str, float]  # the masses by meaning, see `GROUPS`
    states: int  # over how many states
    has_windows: bool  # whether the convolution windows are included

    @classmethod
    def over(cls, jacobians: Sequence[StateJacobian]) -> "BlockStructure":
        """Return the structure of several states' Jacobians."""
        first = jacobians[0]
        masses = np.sqrt(np.mean([jacobian.masses**2 for jacobian in jacobians], axis=0))
        each = [jacobian.groups for jacobian in jacobians]
        groups = {name: float(np.sqrt(np.mean([found[name] ** 2 for found in each]))) for name in GROUPS}
        return cls(
            tuple(block.label for block in first.blocks), masses, groups, len(jacobians), first.has_windows
        )

    @property
    def named_groups(self) -> dict[str, float]:
        """The masses by meaning, under the names of what the state has."""
        return named_groups(self.blocks, self.groups, has_windows=self.has_windows)


def named_groups(
    blocks: Sequence[str], groups: Mapping[str, float], *, has_windows: bool
) -> dict[str, float]:
    """Return the masses under the names of what the state has: nothing of heads or windows where none are.

    Example:
        >>> groups = {"diagonal": 0.6, "within heads, off the diagonal": 0.8, "across heads": 0.0}
        >>> named_groups(["hidden.0"], groups, has_windows=False)
        {'diagonal': 0.6, 'off the diagonal': 0.8}
        >>> list(named_groups(["hidden.0", "cell.0"], groups, has_windows=False))
        ['diagonal', 'within parts of the state, off the diagonal', 'across parts of the state']
    """
    masses = {name: mass for name, mass in groups.items() if has_windows or "window" not in name}
    if any(block.startswith("head ") for block in blocks):
        return masses
    if len(blocks) == 1:
        masses.pop("across heads", None)
        return {name.removeprefix("within heads, "): mass for name, mass in masses.items()}
    return {name.replace("heads", "parts of the state"): mass for name, mass in masses.items()}


def _blocks(state: State, names: Sequence[str], states: Sequence[str]) -> tuple[Block, ...]:
    """A block per head where an SSM state ``[heads, head_size, d_state]`` has them, else one per entry."""
    blocks: list[Block] = []
    start = 0
    many_layers = len(states) > 1
    for name in names:
        entry, kind = state[name], "state" if name in states else "window"
        layer = f" of {name}" if many_layers else ""
        heads = len(entry) if kind == "state" and entry.ndim == 3 else 1
        size = entry.numel() // heads
        for head in range(heads):
            label = f"head {head}{layer}" if heads > 1 else name
            blocks.append(Block(label, kind, start, start + size))
            start += size
    return tuple(blocks)


PIXELS = 256  # cells along a side of the heat map; a larger matrix is averaged down to them
DECADES = 6  # range of the colours: below the largest entry by more than this is drawn as the smallest
DENSE_SPECTRUM_LIMIT = 1500
"""The largest matrix whose eigenvalues are all computed (under two seconds on one core)."""
LEADING_EIGENVALUES = 100


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of ∂h'/∂h at one state.

    Example:
        >>> Spectrum.of(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()).values.round(12)
        array([0.+1.j, 0.-1.j])
    """

    values: NDArray[np.complex128]  # complex
    complete: bool  # whether they are all of them, or only those of largest modulus

    @classmethod
    def of(cls, matrix: Tensor) -> "Spectrum":
        """Compute all eigenvalues of a matrix up to the limit, else the leading ones by Arnoldi iteration.

        Those of a matrix that is not finite are NaN.
        """
        if not matrix.isfinite().all():
            return cls(np.full(len(matrix), np.nan, dtype=np.complex128), complete=True)
        if len(matrix) <= DENSE_SPECTRUM_LIMIT:
            return cls(torch.linalg.eigvals(matrix).numpy(), complete=True)
        start = np.ones(len(matrix))  # the default is random
        values = scipy.sparse.linalg.eigs(
            matrix.numpy(), k=LEADING_EIGENVALUES, v0=start, return_eigenvectors=False
        )
        return cls(np.asarray(values), complete=False)

    def numbers(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"complete": self.complete, "real": self.values.real, "imaginary": self.values.imag}


def draw_matrix(axes: Axes, jacobian: StateJacobian, title: str) -> None:
    """Draw the absolute entries of a Jacobian in logarithmic colours, its blocks outlined."""
    image, cell = averaged(jacobian.matrix.detach().double().numpy())
    size = len(jacobian.matrix)
    largest = image.max() or 1.0
    picture = axes.imshow(
        np.maximum(image, largest * 10.0**-DECADES),
        norm=LogNorm(largest * 10.0**-DECADES, largest),
        cmap="magma",
        extent=(0, size, size, 0),
        interpolation="nearest",
    )
    if axes.figure is not None:
        what = f"RMS over {cell}×{cell} entries" if cell > 1 else "absolute value"
        bar = axes.figure.colorbar(
            picture,
            cax=axes.inset_axes((1.04, 0, 0.05, 1)),
            label=what,
            ticks=LogLocator(numticks=6),
            format=FuncFormatter(power_of_ten),
        )
        bar.ax.yaxis.set_minor_locator(NullLocator())
    for block in jacobian.blocks[1:]:
        for line in (axes.axhline, axes.axvline):
            line(block.start, color="white", linewidth=1.2 if block.kind == "window" else 0.5, alpha=0.7)
    axes.set(title=title, xlabel="state before the token", ylabel="state after the token")
    axes.set_xticks(*_block_ticks(jacobian), rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(*_block_ticks(jacobian))
    axes.tick_params(length=0)
    axes.grid(visible=False)


def averaged(matrix: NDArray[np.float64], most: int = PIXELS) -> tuple[NDArray[np.float64], int]:
    """Return root mean squares over square cells, at most so many a side, and the side of a cell."""
    size = len(matrix)
    cell = -(-size // most)
    starts = np.arange(0, size, cell)
    sums = np.add.reduceat(np.add.reduceat(matrix**2, starts, axis=0), starts, axis=1)
    widths = np.minimum(cell, size - starts)
    return np.sqrt(sums / np.outer(widths, widths)), cell


def _block_ticks(jacobian: StateJacobian) -> tuple[list[float], list[str]]:
    return (
        [(block.start + block.stop) / 2 for block in jacobian.blocks],
        [block.label for block in jacobian.blocks],
    )


def draw_spectra(axes: Axes, spectra: dict[str, Spectrum]) -> None:
    r"""Draw the eigenvalues of several states in the complex plane with the unit circle."""
    circle = np.exp(1j * np.linspace(0, 2 * np.pi, 361))
    axes.plot(circle.real, circle.imag, color=GREY, linewidth=0.8)
    for (label, spectrum), color, marker in zip(spectra.items(), COLORS, "osD^v<>", strict=False):
        values = spectrum.values
        axes.plot(values.real, values.imag, marker, color=color, alpha=0.6, markeredgewidth=0, label=label)
    first = next(iter(spectra.values()))
    which = "all" if first.complete else "the leading"
    axes.set(
        title=f"spectrum of ∂h'/∂h\n({which} {len(first.values)} eigenvalues)",
        xlabel="real part",
        ylabel="imaginary part",
    )
    axes.set_aspect("equal", adjustable="datalim")
    legend_below(axes)
