"""How does the search for the fixed points go? ``python -m analysis.convergence RUN``.

Residuals against self-iterations and iterations against position and length, in both modes of evaluation, in
float64. One run over the longest sequences tells about all shorter ones: the model is causal and every token
stops by itself, so the first L tokens of a sequence are found exactly as if it ended there.
"""

import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.analysis import ReportSection, RunAnalysis
from analysis.framework.arrays import FloatArray
from analysis.framework.figures import (
    TEXT_WIDTH,
    legend_below,
    log_axis,
    mark_quantiles,
    new_panels,
    powers_of_two,
    styled,
)
from analysis.framework.finding import Answer, Finding, Rows, for_title
from analysis.framework.needs import FIXED_POINTS, as_implicit
from analysis.framework.output import RunIdentity
from analysis.framework.palette import GREY, MODE_LOOKS
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number, percent
from analysis.framework.visited_states import in_double_precision, sample_sequences
from implicit.fixed_point import DampedPicard, Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run

__all__ = [
    "ANALYSIS",
    "MODES",
    "ConvergenceAnalysis",
    "ConvergenceSettings",
    "ModeConvergence",
    "RecordingPicard",
    "analyse",
    "draw",
    "follow",
    "main",
]

MODES: tuple[Mode, Mode] = ("simultaneous", "sequential")


class ConvergenceSettings(SampleSettings):
    """How far the iteration is followed."""

    sequences: PositiveInt = Field(default=8, description="sequences of the task that are looked at")
    length: PositiveInt = Field(
        default=256, description="tokens per sequence; shorter ones are their prefixes"
    )
    rtol: PositiveFloat = Field(default=1e-6, description="relative tolerance to iterate to, in float64")
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations")


@dataclass(frozen=True)
class RecordingPicard:
    """Damped Picard iteration that keeps the relative residual of every token at every step.

    ``runs`` holds a list for each solve, with ``[batch, tokens]`` residuals for every step.

    Example:
        >>> from implicit.fixed_point import FixedPointProblem, solve
        >>> solver = RecordingPicard(DampedPicard(1.0))
        >>> _ = solve(FixedPointProblem(lambda z: z / 2 + 1), solver, Stopping(rtol=0.1), torch.ones(1, 1, 1))
        >>> [round(residual.item(), 3) for residual in solver.runs[0]]
        [0.5, 0.167]
    """

    picard: DampedPicard
    runs: list[list[Tensor]] = field(default_factory=list)

    def start(self, latent: Tensor) -> list[Tensor]:
        """Begin the record of a solve."""
        self.picard.start(latent)
        self.runs.append([])
        return self.runs[-1]

    def step(
        self, latent: Tensor, change: Tensor, active: Tensor, memory: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Record the residual and take the step."""
        scale = latent.norm(dim=-1)
        # The iteration starts at zero, where a relative residual means nothing: 1 by convention.
        residual = torch.where(scale > 0, change.norm(dim=-1) / scale.clamp_min(1e-300), 1.0)
        memory.append(residual)
        return self.picard.step(latent, change, active, None)[0], memory


@dataclass(frozen=True, eq=False)
class ModeConvergence:
    """How the tokens of the sequences converged in one mode.

    Example:
        >>> iterations, residual = np.array([[3, 5, 4]]), np.zeros((1, 3))
        >>> mode = ModeConvergence(iterations, residual == 0, residual, np.ones((3, 5)))
        >>> mode.until(2), mode.until(3), mode.evaluations(3, shared=True), mode.evaluations(3, shared=False)
        (array([5]), array([5]), 15.0, 12.0)
    """

    iterations: NDArray[np.int64]  # evaluations of Φ until the token was done, ``[sequences, length]``
    # ``[sequences, length]``; a token after one that did not converge counts as not converged
    converged: NDArray[np.bool_]
    residual: FloatArray  # final relative residual, ``[sequences, length]``
    # relative residual of every token before each step, ``[sequences * length, steps]``; a token that is done
    # keeps its last one
    history: FloatArray

    @property
    def share_converged(self) -> float:
        """The share of all tokens that reached the tolerance."""
        return float(self.converged.mean())

    def until(self, length: int) -> NDArray[np.int64]:
        """Return for each sequence the most iterations that one of its first tokens needed."""
        return self.iterations[:, :length].max(axis=1)

    def evaluations(self, length: int, *, shared: bool) -> float:
        """Return the mean number of token evaluations of Φ that a sequence takes.

        ``shared``: all tokens are evaluated until the last one is done (simultaneous mode).
        """
        if shared:
            return float(length * self.until(length).mean())
        return float(self.iterations[:, :length].sum(axis=1).mean())


@dataclass(frozen=True, eq=False)
class ConvergenceAnalysis(Answer):
    """The answer of `analyse`; ``modes`` are by name."""

    run: RunIdentity
    settings: ConvergenceSettings
    modes: dict[Mode, ModeConvergence]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Powers of two up to the length, and the length itself: those that tables and figures show."""
        powers = [2**k for k in range(int(math.log2(self.settings.length)) + 1)]
        return tuple(sorted({*powers, self.settings.length}))[-6:]

    @property
    def finding(self) -> Finding:
        """The shares of converged tokens, and what the search takes in both modes."""
        sentence = "; ".join(
            f"{mode} mode: {percent(found.share_converged, 2)} of tokens converged, "
            f"{found.iterations.mean():.1f} iterations per token"
            for mode, found in self.modes.items()
        )
        rows = [
            [
                mode,
                str(length),
                percent(found.converged[:, :length].mean(), 2),
                f"{np.median(found.until(length)):.0f} (at most {found.until(length).max()})",
                number(found.evaluations(length, shared=mode == "simultaneous"), 6),
            ]
            for mode, found in self.modes.items()
            for length in self.lengths
        ]
        columns = ["mode", "length", "converged", "iterations", "token evaluations"]
        return Finding(sentence, [Rows(columns, rows)], limits="Measured on these sequences, in float64.")

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON: quantiles of the residuals, iterations by position and by length."""
        levels = (0.01, 0.25, 0.5, 0.75, 0.99)
        return {
            mode: {
                "share_converged": found.share_converged,
                "mean_iterations": found.iterations.mean(),
                "residual_by_iteration": dict(
                    zip(map(str, levels), np.quantile(found.history, levels, axis=0), strict=True)
                ),
                "iterations_by_position": {
                    "min": found.iterations.min(axis=0),
                    "median": np.median(found.iterations, axis=0),
                    "max": found.iterations.max(axis=0),
                },
                "by_length": {
                    length: {
                        "iterations_until_done": found.until(length),
                        "share_converged": found.converged[:, :length].mean(),
                        "token_evaluations": found.evaluations(length, shared=mode == "simultaneous"),
                    }
                    for length in self.lengths
                },
            }
            for mode, found in self.modes.items()
        }


def analyse(run: Run, settings: ConvergenceSettings | None = None, **chosen: Any) -> ConvergenceAnalysis:
    """Follow the fixed-point iteration of every token in both modes.

    The run is of an implicit model; settings can be given by name instead. InputError for a bad setting, or a
    model without fixed points.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=1, length=4)
        >>> {mode: result.share_converged for mode, result in found.modes.items()}
        {'simultaneous': 1.0, 'sequential': 1.0}
    """
    settings = settings_from(ConvergenceSettings, chosen, settings)
    model = in_double_precision(as_implicit(run))
    drawn, _ = sample_sequences(run.task, settings.sequences, settings.length, settings.seed)
    tokens = drawn.to(model.device)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    return ConvergenceAnalysis(
        RunIdentity.of(run), settings, {mode: follow(model, tokens, mode, stopping) for mode in MODES}
    )


@torch.no_grad()
def follow(model: FixedPointModel, tokens: Tensor, mode: Mode, stopping: Stopping) -> ModeConvergence:
    """Solve in one mode and keep the residuals on the way."""
    solver = RecordingPicard(model.solver)
    solution = model.fixed_points(tokens, solve=Solve(mode, solver=solver, stopping=stopping))
    final = solution.relative_residual
    steps = max(len(run) for run in solver.runs)
    # A simultaneous solve is one record of all tokens, a sequential one a record for every token.
    columns = [
        torch.stack([*run, *([last] * (steps + 1 - len(run)))], dim=-1)
        for run, last in zip(solver.runs, final.split(final.shape[1] // len(solver.runs), dim=1), strict=True)
    ]
    history = torch.cat(columns, dim=1)  # [sequences, length, steps + 1]
    done = torch.arange(steps + 1, device=history.device) >= solution.iterations[..., None] - 1
    history = torch.where(done, final[..., None], history)
    return ModeConvergence(
        solution.iterations.cpu().numpy(),
        solution.converged.cpu().numpy(),
        final.cpu().numpy(),
        history.flatten(0, 1).cpu().numpy(),
    )


def draw(found: ConvergenceAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw residuals, iterations by position, and what a sequence costs."""
    settings = found.settings
    with styled():
        figure, (residual, position, cost) = new_panels(
            width, 3, **for_title(found.run.title, found.finding), height=2.6
        )
        for mode, result in found.modes.items():
            look = MODE_LOOKS[mode]
            steps, places = (np.arange(1.0, n + 1) for n in (result.history.shape[1], settings.length))
            mark_quantiles(residual, steps, result.history, look.color, mode)
            label = f"{mode}: {percent(result.share_converged)} converged"
            mark_quantiles(position, places, result.iterations.astype(float), look.color, label)
            evaluations = [
                result.evaluations(length, shared=mode == "simultaneous") for length in found.lengths
            ]
            cost.plot(found.lengths, evaluations, marker=look.marker, color=look.color, label=mode)
        residual.axhline(settings.rtol, color=GREY, linewidth=0.8, linestyle="--", label="tolerance")
        residual.set(
            title="residual over tokens", xlabel="self-iteration", ylabel="relative residual ‖Φ(z) − z‖ / ‖z‖"
        )
        position.set(title="iterations until the tolerance", ylabel="self-iterations", ylim=(0, None))
        position.set_xlabel("position of the token")
        cost.set(title="cost of a sequence", xlabel="length (tokens)", ylabel="token evaluations of Φ")
        log_axis(residual)
        log_axis(cost)
        powers_of_two(cost, found.lengths)
        for axes in (residual, position, cost):
            legend_below(axes)
        return figure


ANALYSIS = RunAnalysis(
    name="convergence",
    question="How does the search for the fixed points go, and what does it cost?",
    description="Follow the fixed-point iteration of a trained implicit model: residuals, iterations, cost.",
    settings=ConvergenceSettings,
    measure=analyse,
    draw=draw,
    shows="Left: the relative residual of all tokens after each iteration, as the median with bands of the "
    "middle 50% and 98%. Middle: iterations until the tolerance, by position, over the sequences. Right: "
    "evaluations of Φ per sequence (mean). The simultaneous mode evaluates all tokens until the last one is "
    "done, the sequential mode each token until it is done.",
    needs=FIXED_POINTS,
    section=ReportSection(
        settings={
            "sequences": "convergence_sequences",
            "length": "mode_length",
            "max_iterations": "max_iterations",
            "seed": "seed",
        },
        priority=1,
        content=lambda _run, result: {
            "convergence": {
                mode: {key: found[key] for key in ("share_converged", "mean_iterations", "by_length")}
                for mode, found in result.items()
            }
        },
    ),
)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
