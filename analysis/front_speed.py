"""How fast do right answers advance in the simultaneous mode? ``python -m analysis.front_speed RUN…``.

Measured: sweeps of whole sequences from z = 0, against the fixed point of the sequential mode. Predicted in
two ways (``docs/when_modes_agree.md``):

- *linear*: from the derivatives at the fixed point, how a small error spreads (`theory.mode_agreement`).
  Where states forget small errors, the linear front is infinitely fast: it says nothing of a wrong answer,
  which is no small error.
- *wall*: two solutions of the same few tokens, from states that prefixes with different answers leave. The
  tokens are placed at the one, the state is switched to the other, and the time is taken in which the switch
  passes.
"""

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.analysis import Comparison
from analysis.framework.arrays import FloatArray
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.finding import Answer, Finding, Rows
from analysis.framework.needs import FIXED_POINTS, as_implicit
from analysis.framework.output import RunIdentity, loaded_runs
from analysis.framework.palette import RED
from analysis.framework.settings import AnalysisSettings, settings_from
from analysis.framework.visited_states import in_double_precision, relative_distance, sample_sequences
from automata.command_line import progress_bar
from automata.errors import InputError, printable
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from implicit.runs.loading import Run
from theory import State
from theory.mode_agreement import linear_response, linear_speed

__all__ = [
    "ANALYSIS",
    "Front",
    "FrontSpeedAnalysis",
    "FrontSpeedSettings",
    "RunFront",
    "analyse",
    "arrivals",
    "draw",
    "main",
]


def arrivals(errors: NDArray[np.float64], level: float) -> NDArray[np.int64]:
    """Return after how many sweeps a token and all before it stay below an error.

    Errors before every sweep are ``[sweeps, B, L]``; arrivals, ``[B, L]``, never fall along a sequence.
    InputError if a token is not below the level at the end.
    """
    late = errors > level
    if late[-1].any():
        raise InputError(f"errors ends above the level {level}; give more sweeps or a larger level")
    last = len(errors) - np.argmax(late[::-1], axis=0)  # sweeps up to the last one that began above the level
    sweeps = np.where(late.any(axis=0), last, 0)
    return np.maximum.accumulate(sweeps, axis=1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Front:
    """Arrivals at the tokens of several sequences, ``[B, L]`` sweeps, and the speed that they show.

    The front forms in the first ``begin`` tokens, which are left out.
    """

    arrivals: NDArray[np.int64]
    begin: int

    @property
    def sweeps(self) -> NDArray[np.int64]:
        """Sweeps from the token where the front has formed to the last one, ``[B]``."""
        sweeps: NDArray[np.int64] = self.arrivals[:, -1] - self.arrivals[:, self.begin]
        return sweeps

    @property
    def speed(self) -> float:
        """Tokens per sweep: all tokens over all sweeps; infinite if the last ones arrive together."""
        mean, tokens = float(self.sweeps.mean()), self.arrivals.shape[1] - 1 - self.begin
        return tokens / mean if mean else float("inf")

    @property
    def error(self) -> float:
        """Standard error of the speed, from the spread between sequences; NaN for a single one."""
        count = len(self.sweeps)
        if count == 1 or not self.sweeps.mean():
            return float("nan")
        relative = float(self.sweeps.std(ddof=1) / np.sqrt(count) / self.sweeps.mean())
        return self.speed * relative

    def in_words(self, digits: int = 3) -> str:
        """The speed, with its standard error if there is one."""
        if np.isinf(self.speed):
            return "no front"
        return f"{self.speed:.{digits}f}" + ("" if np.isnan(self.error) else f" ± {self.error:.{digits}f}")


PREFIX = 8  # tokens that are read before a wall; states of both its sides are visited ones
RADII, ANGLES = (1.0, 1.02, 1.05, 1.1, 1.2), 3
"""|ω| at which the linear response is taken, and ω on each half circle: the other half is conjugate."""
RESPONSE_TOKENS, ALIGNING = 64, 8
"""Tokens along which the linear response is followed, and the first of them, left out, where it aligns."""


class FrontSpeedSettings(AnalysisSettings):
    """The measured speed, and the numbers that foretell it."""

    sequences: PositiveInt = Field(default=4, description="sequences that are swept as a whole")
    length: int = Field(default=256, ge=8, description="tokens of each")
    walls: PositiveInt = Field(default=32, description="walls from which the speed is foretold")
    window: int = Field(default=32, ge=8, description="tokens that a wall passes")
    level: PositiveFloat = Field(default=0.1, lt=1, description="relative error at which a token has arrived")
    max_iterations: PositiveInt = Field(default=2000, description="the most sweeps, and iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


@dataclass(frozen=True, eq=False)
class RunFront:
    """The results of one run: the fronts of whole sequences and of walls in windows of few tokens.

    ``exponents`` are the largest growths per token of the linear response on circles of ``radii`` |ω|,
    ``spectral_radius`` the largest of one token's damped iteration, ``errors`` those of the first
    sequence, relative, ``[sweeps, length]``.
    """

    run: RunIdentity
    measured: Front
    wall: Front
    radii: FloatArray
    exponents: FloatArray
    spectral_radius: float
    errors: FloatArray

    @property
    def linear(self) -> float:
        """The speed of the linear front, in tokens per sweep; infinite where small errors are forgotten."""
        return linear_speed(self.radii, self.exponents, self.spectral_radius)

    @property
    def sentence(self) -> str:
        """The finding."""
        measured, wall = self.measured, self.wall
        unit = "" if np.isinf(measured.speed) else " tokens per sweep"
        known = np.isfinite([wall.speed, measured.speed]).all()
        beside = f" ({wall.speed / measured.speed - 1:+.0%})" if known else ""
        return (
            f"measured {measured.in_words()}{unit}; predicted {wall.in_words()} from walls{beside}, "
            f"{self._linear_in_words} from derivatives"
        )

    @property
    def finding(self) -> Finding:
        """The speeds, measured and predicted."""
        columns = ["measured", "from walls", "from derivatives"]
        cells = [self.measured.in_words(), self.wall.in_words(), self._linear_in_words]
        rows = Rows(columns, [cells], title="tokens per sweep")
        return Finding(
            self.sentence, [rows], limits="Measured, with standard errors over sequences; no bound."
        )

    @property
    def _linear_in_words(self) -> str:
        if np.isnan(self.linear):
            return "nothing known"
        return "no front" if np.isinf(self.linear) else f"{self.linear:.2f}"


@dataclass(frozen=True, eq=False)
class FrontSpeedAnalysis(Answer):
    """The result of `analyse`, one entry per run."""

    settings: FrontSpeedSettings
    runs: tuple[RunFront, ...]

    def numbers(self) -> dict[str, Any]:
        """Return everything but the errors of the image, for JSON, by the name of the run."""
        return {
            found.run.name: {
                "run": asdict(found.run),
                "sentence": found.sentence,
                "measured_speed": found.measured.speed,
                "measured_error": found.measured.error,
                "wall_speed": found.wall.speed,
                "wall_error": found.wall.error,
                "linear_speed": found.linear,
                "radii": found.radii,
                "exponents": found.exponents,
                "spectral_radius": found.spectral_radius,
                "arrivals": found.measured.arrivals,
                "wall_arrivals": found.wall.arrivals,
            }
            for found in self.runs
        }


def analyse(
    runs: Run | Iterable[Run], settings: FrontSpeedSettings | None = None, **chosen: Any
) -> FrontSpeedAnalysis:
    """Measure the speed of the front in whole sequences, and foretell it.

    The runs are of implicit models and have different names; settings can be given by name instead.
    InputError for a bad setting, two runs of the same name, a model without fixed points, a sequence that did
    not converge in the limit, or a task whose answer never changes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=2, length=24, walls=4, window=8)
        >>> bool(0.4 < found.runs[0].measured.speed < 1.5), found.runs[0].linear
        (True, inf)
    """
    settings = settings_from(FrontSpeedSettings, chosen, settings)
    several = loaded_runs(runs)
    for run in several:
        FIXED_POINTS.require(run)
    return FrontSpeedAnalysis(settings, tuple(_measure(run, settings) for run in several))


@torch.no_grad()
def _measure(run: Run, settings: FrontSpeedSettings) -> RunFront:
    model = in_double_precision(as_implicit(run))
    tokens, _ = sample_sequences(run.task, settings.sequences, settings.length, settings.seed)
    first = model.init_state(len(tokens))
    right = _solved(run, model, tokens, first, settings)[0]
    errors = _sweep(run, model, tokens, first, torch.zeros_like(right), right, settings)
    response = _response(model, tokens[:, :RESPONSE_TOKENS], right[:, :RESPONSE_TOKENS], settings.seed)
    # the first quarter is left out, where the front forms
    return RunFront(
        RunIdentity.of(run),
        Front(arrivals(errors, settings.level), settings.length // 4),
        Front(arrivals(_wall(run, model, settings), settings.level), settings.window // 8),
        *response,
        errors[:, 0],
    )


def _solved(
    run: Run, model: FixedPointModel, tokens: Tensor, state: State, settings: FrontSpeedSettings
) -> tuple[Tensor, State]:
    """The latents of the sequential mode, well below the level, and the state after the tokens."""
    stopping = Stopping(rtol=1e-6 * settings.level, max_iterations=settings.max_iterations)
    output = model.run(tokens, state, Solve("sequential", stopping=stopping))
    assert output.solution is not None
    if output.solution.share_converged < 1:
        raise InputError(
            f"run {run.name} has tokens that do not converge in {settings.max_iterations} iterations; "
            "give a larger max_iterations, or a run whose fixed points exist"
        )
    return output.solution.latents, output.state


def _sweep(
    run: Run,
    model: FixedPointModel,
    tokens: Tensor,
    state: State,
    start: Tensor,
    right: Tensor,
    settings: FrontSpeedSettings,
) -> FloatArray:
    """The relative errors before every sweep, down to a twentieth of the level, ``[sweeps, B, L]``."""
    image, damping, latents = model.problem(tokens, state).function, model.solver.damping, start
    errors: list[FloatArray] = []
    bar = progress_bar(desc=printable(f"{run.name}: sweeps"), unit="sweep")
    for _ in range(settings.max_iterations):
        errors.append(relative_distance(latents, right).numpy())
        if (errors[-1] < settings.level / 20).all():
            bar.close()
            return np.stack(errors)
        latents = (1 - damping) * latents + damping * image(latents)
        bar.update()
    bar.close()
    raise InputError(
        f"the sweeps of run {run.name} do not reach the sequential answer in {settings.max_iterations}; "
        "give a larger max_iterations, or a run whose modes agree (python -m analysis.agreement)"
    )


def _wall(run: Run, model: FixedPointModel, settings: FrontSpeedSettings) -> FloatArray:
    """The errors while a switch of the state passes a window, ``[sweeps, walls, window]``."""
    count = settings.walls
    tokens, _ = sample_sequences(run.task, count, settings.window, settings.seed + 1)
    prefixes, labels = sample_sequences(run.task, 8 * count, PREFIX, settings.seed + 2)
    differ = (labels[:, -1] != labels[:, -1].roll(1)).nonzero()[:count, 0]
    if len(differ) < count:
        raise InputError(
            f"walls is {count}, but of {8 * count} pairs of prefixes for run {run.name} only "
            f"{len(differ)} have different answers; give fewer walls, or the run of a task with more"
        )
    beginning = model.init_state(count)
    right_state, wrong_state = (
        _solved(run, model, chosen[differ], beginning, settings)[1]
        for chosen in (prefixes, prefixes.roll(1, 0))
    )
    right = _solved(run, model, tokens, right_state, settings)[0]
    wrong = _solved(run, model, tokens, wrong_state, settings)[0]
    return _sweep(run, model, tokens, right_state, wrong, right, settings)


def _response(
    model: FixedPointModel, tokens: Tensor, latents: Tensor, seed: int
) -> tuple[FloatArray, FloatArray, float]:
    """Radii and exponents of the linear response, and the largest spectral radius of a token."""
    visited = model.states_at(tokens, latents)
    before = {name: part[:, :-1] for name, part in visited.items()}
    generator = torch.Generator().manual_seed(seed)
    start = {
        name: torch.randn(part.shape[2:], generator=generator, dtype=torch.float64)
        for name, part in before.items()
    }
    turns = np.exp(1j * np.linspace(0, np.pi, ANGLES))
    frequencies = [complex(radius * turn) for radius in RADII for turn in turns]
    found = linear_response(model.transitions(tokens), before, latents, frequencies, start)
    radii, exponents = found.circle_exponents(min(ALIGNING, tokens.shape[1] // 2))
    return radii, exponents, float(found.spectral_radii.max())


def draw(found: FrontSpeedAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw for every run the errors of one sequence with the front that walls foretell."""
    level = found.settings.level
    with styled():
        figure, panels = new_panels(width, len(found.runs), height=2.9)
        for axes, each in zip(panels, found.runs, strict=True):
            length = each.errors.shape[1]
            shading = axes.imshow(
                np.maximum(each.errors, 1e-12),
                norm=LogNorm(level / 1e3, 2, clip=True),
                aspect="auto",
                origin="lower",
                cmap="Greys",
                extent=(0.5, length + 0.5, -0.5, len(each.errors) - 0.5),
            )
            begin = each.measured.begin
            arrival = each.measured.arrivals[0]
            below = f"below {level:g}: {each.measured.in_words(2)}"
            axes.step(np.arange(1, length + 1), arrival, where="mid", color="black", label=below)
            # what is foretold is a slope; it is drawn from where the measured front has formed
            tokens = np.array([begin, length - 1])
            foretold = arrival[begin] + (tokens - begin) / each.wall.speed
            walls = f"walls: {each.wall.in_words(2)}"
            axes.plot(tokens + 1, foretold, "--", color=RED, label=walls)
            axes.set(title=each.run.name, xlabel="position of the token", ylabel="sweep")
            axes.grid(visible=False)
            legend_below(axes, title="tokens per sweep")
        # powers of ten would be smaller than the rest
        how: dict[str, Any] = {"orientation": "horizontal", "location": "top", "format": "%g"}
        figure.colorbar(shading, ax=panels[-1], label="relative error", **how)
        return figure


ANALYSIS = Comparison(
    name="front_speed",
    question="How fast do right answers advance in the simultaneous mode, and can that be predicted?",
    description="Measure the tokens per sweep of the simultaneous mode; predict them from short windows.",
    settings=FrontSpeedSettings,
    compare=analyse,
    draw=draw,
    shows="Error ‖z − z*‖ / ‖z*‖ of one sequence of each run over the sweeps of the simultaneous mode from "
    "z = 0, with z* the sequential answer, in float64. Line: the error here and at all tokens before stays "
    "below the level. Speeds are means over all sequences, without their first quarter, with standard "
    "errors. Dashed: the slope predicted from walls in windows of other tokens, from where the front has "
    "formed.",
    needs=FIXED_POINTS,
)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
