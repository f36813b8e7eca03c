"""How fast do right answers advance in the simultaneous mode, and can that be foretold?

Measured: sweeps of whole sequences from z = 0, against the fixed point of the sequential mode. Foretold in
two ways (``docs/when_modes_agree.md``):

- *linear*: from the derivatives at the fixed point, how a small error spreads (`theory.mode_agreement`).
  Where states forget small errors, the linear front is infinitely fast: it says nothing of a wrong answer,
  which is no small error.
- *wall*: two solutions of the same few tokens, from states that prefixes with different answers leave. The
  tokens are placed at the one, the state is switched to the other, and the time is taken in which the switch
  passes.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor
from tqdm import tqdm

from analysis.framework.needs import FIXED_POINTS, as_implicit
from analysis.framework.output import RunIdentity, require_different_names
from analysis.framework.settings import settings_from
from analysis.framework.visited_states import in_double_precision, sample_sequences
from analysis.front_speed.fronts import Front, arrivals
from automata.checks import check_type, printable
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from implicit.runs.loading import Run
from theory import State
from theory.mode_agreement import linear_response, linear_speed

PREFIX = 8
"""Tokens that are read before a wall; states of both its sides are visited ones."""
RADII, ANGLES = (1.0, 1.02, 1.05, 1.1, 1.2), 3
"""|ω| at which the linear response is taken, and ω on each half circle: the other half is conjugate."""
RESPONSE_TOKENS, ALIGNING = 64, 8
"""Tokens along which the linear response is followed, and the first of them, left out, where it aligns."""

FloatArray = NDArray[np.float64]


class FrontSpeedSettings(CheckedConfig):
    """What is measured, and from what it is foretold.

    Example:
        >>> FrontSpeedSettings(level=0.01).window
        32
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sequences: PositiveInt = Field(default=4, description="sequences that are swept as a whole")
    length: int = Field(default=256, ge=8, description="tokens of each")
    walls: PositiveInt = Field(default=32, description="walls from which the speed is foretold")
    window: int = Field(default=32, ge=8, description="tokens that a wall passes")
    level: PositiveFloat = Field(default=0.1, lt=1, description="relative error at which a token has arrived")
    max_iterations: PositiveInt = Field(default=2000, description="the most sweeps, and iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


@dataclass(frozen=True, eq=False)
class RunFront:
    """What was found of one run.

    Attributes:
        run: which run.
        measured: the front in whole sequences.
        wall: walls in windows of few tokens.
        radii: |ω| of the linear response.
        exponents: the largest growth per token of it on each circle.
        spectral_radius: the largest of one token's damped iteration.
        errors: of the first sequence, relative, ``[sweeps, length]``.

    Example:
        `analyse` makes them.
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
        return linear_speed(self.radii, self.exponents)

    @property
    def sentence(self) -> str:
        """The finding."""
        measured, wall = self.measured, self.wall
        return (
            f"measured {measured.speed:.3f} ± {measured.error:.3f} tokens per sweep; foretold "
            f"{wall.speed:.3f} ± {wall.error:.3f} from walls ({wall.speed / measured.speed - 1:+.0%}), "
            f"{'no front at all' if np.isinf(self.linear) else f'{self.linear:.2f}'} from derivatives"
        )


@dataclass(frozen=True, eq=False)
class FrontSpeedAnalysis:
    """What `analyse` returns.

    Attributes:
        settings: what was chosen.
        runs: one entry per run.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=2, length=24, walls=4, window=8)
        >>> bool(0.4 < found.runs[0].measured.speed < 1.5), found.runs[0].linear
        (True, inf)
    """

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

    Args:
        runs: a loaded run of an implicit model, or several with different names.
        settings: what to look at.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, two runs of the same name, a model without fixed points, a sequence
            that did not converge in the limit, or a task whose answer never changes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> analyse(load_run("parity-small"), length=4)
        Traceback (most recent call last):
        automata.errors.InputError: length is 4; it should be greater than or equal to 8
    """
    settings = settings_from(FrontSpeedSettings, chosen, settings)
    check_type("run", runs, (Run, Iterable), "give a loaded one, implicit.load_run(...)")
    several = [runs] if isinstance(runs, Run | str) else list(runs)  # a text is refused below
    if not several:
        raise InputError("runs is empty; give at least one loaded run, implicit.load_run(...)")
    require_different_names(several)
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
            f"run {run.path.name} has tokens that do not converge in {settings.max_iterations} iterations; "
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
    scale = right.norm(dim=-1)
    errors: list[FloatArray] = []
    bar = tqdm(desc=printable(f"{run.path.name}: sweeps"), unit="sweep", leave=False, disable=None)
    for _ in range(settings.max_iterations):
        errors.append(((latents - right).norm(dim=-1) / scale).numpy())
        if (errors[-1] < settings.level / 20).all():
            bar.close()
            return np.stack(errors)
        latents = (1 - damping) * latents + damping * image(latents)
        bar.update()
    bar.close()
    raise InputError(
        f"the sweeps of run {run.path.name} do not reach the sequential answer in {settings.max_iterations}; "
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
            f"walls is {count}, but of {8 * count} pairs of prefixes for run {run.path.name} only "
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
