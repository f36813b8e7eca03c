"""What proofs of right answers share: steps in floating point, the model on balls, the iteration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt

from analysis.certificates.iteration import DType, OrbitBundles, caveat_of, scope_of, upper_triangle
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.enclosed.any_cell import compare_with_floats
from implicit.enclosed.any_loop import EnclosedAnyLoop
from implicit.enclosed.closed_loop import EnclosedClosedLoop, flatten_state, unflatten_state
from implicit.enclosed.executed_loop import ExecutedClosedLoop
from implicit.enclosed.forms import is_mamba2
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.models.stack import CellStack
from implicit.modes import Solve
from theory.rigorous.covers.bundling import Attraction, Members, attraction_of
from theory.rigorous.covers.invariant_cover import StepErrors
from theory.rigorous.covers.orbits import Iteration
from theory.rigorous.float_format import FLOAT64, FloatFormat

Array = NDArray[np.float64]
LARGEST_STATE = 200
"""Matrices of all derivatives by the state are held for hundreds of positions at once."""


class IterationSettings(CheckedConfig):
    """Whose rounding is covered, and how fixed points are found, of which nothing is assumed."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    dtype: DType = Field(
        default="float64", description="whose rounding is to be covered: float64, or real, for none"
    )
    rtol: PositiveFloat = Field(
        default=1e-13, description="relative tolerance of the approximate fixed points"
    )
    max_iterations: PositiveInt = Field(default=2000, description="the most self-iterations per token")


def enclosed_loop(model: FixedPointModel) -> EnclosedClosedLoop | EnclosedAnyLoop:
    """Return the model on balls, if all derivatives by its state can be held at many positions."""
    loop = EnclosedClosedLoop(model) if is_mamba2(model) else EnclosedAnyLoop(model)
    if loop.state_size > LARGEST_STATE:
        raise InputError(
            f"the state of the model has {loop.state_size} numbers; give a run of at most "
            f"{LARGEST_STATE}, such as parity-small"
        )
    if isinstance(loop, EnclosedAnyLoop):
        _compare(model, loop)
    return loop


def _compare(model: FixedPointModel, loop: EnclosedAnyLoop) -> None:
    """Refuse code that is another function on balls than on float64 tensors, at some states."""
    drawn = np.random.default_rng(0)
    tokens = np.arange(len(model.get_parameter("embedding.weight")))
    state = unflatten_state(model, torch.as_tensor(drawn.standard_normal((len(tokens), loop.state_size))))
    latents = drawn.standard_normal((len(tokens), loop.latent_size))
    assert isinstance(model, CellStack)
    compare_with_floats(
        model,
        loop.transitions(tokens),
        torch.as_tensor(tokens),
        {name: part.numpy() for name, part in state.items()},
        latents,
        [np.zeros(len(tokens), dtype=np.int64)],
    )


@torch.no_grad()
def solve_steps(
    model: FixedPointModel, states: Array, tokens: NDArray[np.int64], stopping: Stopping
) -> tuple[Array, Array]:
    """Return the next states and the latents in floating point: centres, of which nothing is assumed.

    Args:
        model: in double precision, with one layer.
        states: ``[steps, n]``.
        tokens: ``[steps]``.
        stopping: of the fixed points.
    """
    before = unflatten_state(model, torch.as_tensor(states))
    output = model.run(torch.as_tensor(tokens)[:, None], before, Solve("sequential", stopping=stopping))
    assert output.solution is not None
    return flatten_state(output.state).numpy(), output.solution.latents[:, 0].numpy()


DISTANCE = 16.0
"""A latent with a residual of the tolerance may lie so many times that from its fixed point."""
STEP_ERROR = 1e-11
"""By how much steps may be off: more than they are in float64, and little beside any tolerance."""
STATED_ULPS = 4
"""What a certificate says that functions of one number may be off …"""
PROVED_ULPS = 6
"""… where it is proved for so many: other arithmetic has other bounds."""


@dataclass(frozen=True, eq=False)
class ProvedIteration:
    """The iteration that is run, and of which steps it is proved that it ends near the fixed points."""

    iteration: Iteration
    attraction: Attraction
    stopping: Stopping

    @property
    def scope(self) -> str:
        """Of what right answers are proved, in words."""
        asked = self.iteration
        return scope_of(asked.damping, asked.tolerance, self.attraction.iterations, self.dtype)

    @property
    def caveat(self) -> str:
        """Of what they are not."""
        return caveat_of(self.stopping.rtol, self.iteration.tolerance, self.dtype, STATED_ULPS)

    @property
    def dtype(self) -> DType:
        """The format whose rounding is covered."""
        return "real" if self.iteration.program is None else "float64"

    @property
    def fault(self) -> str:
        """What is missing; empty if nothing is."""
        missing = int((self.attraction.membership < 0).sum())
        if not missing:
            return ""
        return (
            f"of {missing} of {len(self.attraction.membership)} steps it is not proved that the iteration "
            f"from zero ends near them within {self.stopping.max_iterations} evaluations"
        )

    def fields(self) -> dict[str, Any]:
        """Return the fields of a certificate."""
        bundles = self.attraction.bundles
        return {
            "bundles": OrbitBundles(
                tokens=bundles.tokens.tolist(),
                centres=bundles.centres,
                widths=bundles.widths,
                latents=bundles.latents,
                metrics=upper_triangle(bundles.metrics),
                radii=bundles.radii,
            ),
            "tolerance": self.iteration.tolerance,
            "iterations": self.attraction.iterations,
            "latent_error": self.iteration.latent_error,
            "step_error": self.iteration.step_error,
            "dtype": self.dtype,
            "ulps": STATED_ULPS,
        }


def asked_of(model: FixedPointModel, tolerance: float, dtype: DType) -> Iteration:
    """Return what is asked of the iteration of a model."""
    damping, program = model.solver.damping, None
    if dtype == "float64":
        if not is_mamba2(model):
            raise InputError(
                f"dtype is float64, and of {model.name} rounding is not bounded, as of implicit-mamba2; give "
                "--dtype real, for exact arithmetic"
            )
        program = ExecutedClosedLoop(model, FloatFormat(dtype, FLOAT64.unit_roundoff, PROVED_ULPS))
    return Iteration(damping, tolerance, DISTANCE * tolerance, STEP_ERROR, program)


def errors_of(iteration: Iteration) -> StepErrors:
    """Return by how much the steps of an iteration may be inexact."""
    return StepErrors(iteration.latent_error, iteration.step_error, iteration.program)


def prove_iteration(
    loop: EnclosedClosedLoop | EnclosedAnyLoop, members: Members, iteration: Iteration, stopping: Stopping
) -> ProvedIteration:
    """Prove that the iteration from zero ends near the fixed points of steps."""
    found = attraction_of(loop, members, iteration).within(stopping.max_iterations)
    return ProvedIteration(iteration, found, stopping)
