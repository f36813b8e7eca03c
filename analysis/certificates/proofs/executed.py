"""Is a compiled model right when floats execute it? Bounds of every float32 operation of a token's step.

The theorems on compiled automata are about real arithmetic, as all proofs of the other kinds are. Here the
program itself is bounded, in all modes, under the assumptions of `theory.rigorous.rounded`;
docs/compiled_automata_floats.md.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ConfigDict, Field, PositiveInt

from analysis.certificates.certificate import LEAST_ULPS, MOST_ULPS
from analysis.certificates.claims.executed import Boxes, FloatingPoint
from analysis.certificates.producing import Found, Proof, about
from analysis.framework.finding import Rows
from analysis.framework.needs import FIXED_POINTS
from analysis.framework.settings import settings_from
from automata.checks import at_least, at_most
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.compiled.compile import machine_of
from implicit.compiled.executed import LARGEST_RTOL, ExecutedBounds, executed_bounds_of
from implicit.compiled.weights import Wiring
from implicit.models.implicit_model import ImplicitModel
from implicit.runs.loading import Run


class FloatingPointSettings(CheckedConfig):
    """Assumed errors and tolerance of the program."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rtol: float = Field(
        default=LARGEST_RTOL, ge=0, lt=1, description="the largest relative tolerance that may be run with"
    )
    ulps: PositiveInt = Field(
        default=LEAST_ULPS,
        ge=LEAST_ULPS,
        le=MOST_ULPS,
        description="what exp, softplus, silu, rsqrt may be off, in ulps: assumed",
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundFloatingPoint(Found):
    """The result of `analyse`."""

    bounds: ExecutedBounds

    @property
    def claims(self) -> list[FloatingPoint]:
        """The one claim."""
        boxes = asdict(self.bounds)
        dtype, ulps, rtol = (boxes.pop(name) for name in ("dtype", "ulps", "rtol"))
        statements = FloatingPoint.stated(self.config)
        return [FloatingPoint(statements=statements, dtype=dtype, ulps=ulps, rtol=rtol, boxes=Boxes(**boxes))]

    def rows(self) -> list[Rows]:
        """Return the boxes, bounds from below rounded down and others up."""
        below = ("least_write", "least_read", "least_first", "dominance", "margin")
        bounds = [
            [name.replace("_", " "), (at_least if name in below else at_most)(getattr(self.bounds, name))]
            for name in Boxes.model_fields
        ]
        return [Rows(["box", "bound"], bounds, self.run.title)]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {"sentence": self.sentence, **asdict(self.bounds)}


def analyse(run: Run, settings: FloatingPointSettings | None = None, **chosen: Any) -> FoundFloatingPoint:
    """Prove that the program of a compiled run answers every word as its task does."""
    settings = settings_from(FloatingPointSettings, chosen, settings)
    began = time.monotonic()
    if run.config.compiled is None or not isinstance(run.model, ImplicitModel):
        raise InputError(
            f"run {run.name} is not compiled, and of trained weights nothing is proved in floats; "
            "give the run of python -m implicit.compile"
        )
    bounds = executed_bounds_of(
        run.model, Wiring.one_hot(*machine_of(run.task)), rtol=settings.rtol, ulps=settings.ulps
    )
    return FoundFloatingPoint(bounds=bounds, **about(run, settings, began))


PROOFS = (
    Proof(
        claim="executed",
        question="Is a compiled model right when floats execute it? A proof, with a certificate.",
        description="Prove that a compiled model is right on words of every length as float32 executes it.",
        settings=FloatingPointSettings,
        needs=FIXED_POINTS,
        prove=analyse,
    ),
)
