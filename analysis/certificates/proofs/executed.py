"""Is a compiled model right when floats execute it? Bounds of every float32 operation of a token's step.

The theorems on compiled automata are about real arithmetic, as all proofs of the other kinds are. Here the
program itself is bounded, in all modes, under the assumptions of `theory.rigorous.float_format`;
docs/compiled_automata.md, section 7.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ConfigDict, Field, PositiveInt
from rich.table import Table

from analysis.certificates.certificate import LEAST_ULPS, MOST_ULPS, Claim
from analysis.certificates.claims.executed import Boxes, Executed
from analysis.certificates.producing import Proof, stated
from analysis.framework.needs import FIXED_POINTS
from analysis.framework.output import RunIdentity
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.compiled.compile import machine_of
from implicit.compiled.executed import LARGEST_RTOL, ExecutedBounds, executed_bounds_of
from implicit.compiled.wiring import Wiring
from implicit.models.implicit_model import ImplicitModel
from implicit.runs.loading import Run


class ExecutedSettings(CheckedConfig):
    """What is allowed for.

    Example:
        >>> ExecutedSettings(ulps=8)
        ExecutedSettings(rtol=0.001, ulps=8)
    """

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


@dataclass(frozen=True)
class FoundExecuted:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was allowed for.
        bounds: what is proved.
        statements: the same in words.
        seconds: how long it took.

    Example:
        See `analyse`.
    """

    run: RunIdentity
    settings: ExecutedSettings
    bounds: ExecutedBounds
    statements: dict[str, str]
    seconds: float

    @property
    def sentence(self) -> str:
        """The finding, with what it rests on."""
        return (
            f"executed in {self.bounds.dtype} on a CPU by PyTorch's own operations (as a compiled run is "
            "loaded, without the kernels), proved right on every word of every length in the "
            "sequential and the windowed mode, and where the simultaneous one reports convergence, if sums "
            "and products of matrices are of IEEE operations in any order (no TF32), exp, softplus, silu and "
            f"roots within {self.bounds.ulps} ulp, and if it is run without gradient or padding from the "
            "zero state and latent, with the run's own damping, an absolute tolerance of 0, a relative one "
            f"of at most {self.bounds.rtol:g} and at least 2 iterations"
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {"sentence": self.sentence, **asdict(self.bounds)}

    @property
    def search(self) -> None:
        """What is proved is in the claim."""
        return None

    @property
    def claims(self) -> list[Claim]:
        """What is proved."""
        boxes = asdict(self.bounds)
        dtype, ulps, rtol = (boxes.pop(name) for name in ("dtype", "ulps", "rtol"))
        return [Executed(statements=self.statements, dtype=dtype, ulps=ulps, rtol=rtol, boxes=Boxes(**boxes))]


def analyse(run: Run, settings: ExecutedSettings | None = None, **chosen: Any) -> FoundExecuted:
    """Prove that the program of a compiled run answers every word as its task does.

    Args:
        run: a run that was compiled, not trained.
        settings: what to allow for.
        chosen: settings by name, instead.

    Raises:
        InputError: for a run of another kind, or one of which it is not proved.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.compiled import compile_run
        >>> with TemporaryDirectory() as folder:
        ...     found = analyse(compile_run("parity", Path(folder) / "compiled"))
        >>> found.bounds.margin > 0.75
        True
    """
    settings = settings_from(ExecutedSettings, chosen, settings)
    began = time.monotonic()
    if run.config.compiled is None or not isinstance(run.model, ImplicitModel):
        raise InputError(
            f"run {run.path.name} is not compiled, and of trained weights nothing is proved in floats; "
            "give the run of python -m implicit.compile"
        )
    bounds = executed_bounds_of(
        run.model, Wiring.one_hot(*machine_of(run.task)), rtol=settings.rtol, ulps=settings.ulps
    )
    return FoundExecuted(
        RunIdentity.of(run), settings, bounds, stated(Executed, run), time.monotonic() - began
    )


def tables(found: FoundExecuted) -> list[Table | str]:
    """Return the boxes and the finding, for the terminal.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.compiled import compile_run
        >>> with TemporaryDirectory() as folder:
        ...     list(tables(analyse(compile_run("parity", Path(folder) / "compiled")))[0].columns[0].cells)[0]
        'leftover'
    """
    table = Table(title=found.run.title, title_justify="left")
    table.add_column("box")
    table.add_column("bound", justify="right")
    for name in Boxes.model_fields:
        table.add_row(name.replace("_", " "), number(getattr(found.bounds, name)))
    return [
        table,
        found.sentence,
        "certificate.json says so exactly; verify it: python -m analysis.check_certificate",
    ]


PROOF = Proof(
    claim="executed",
    question="Is a compiled model right when floats execute it, on every word? A proof, with a certificate.",
    description="Prove that a compiled model is right on words of every length as float32 executes it.",
    settings=ExecutedSettings,
    needs=FIXED_POINTS,
    prove=analyse,
    tables=tables,
)
