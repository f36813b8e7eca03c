"""Is the state transition non-linear and non-diagonal? ``python -m analysis.jacobian RUN``.

Theorem 1 is checked at states that real sequences visit, each with the token that the sequence reads there,
in float64. States without a fixed point stay in the count, as inconclusive, with the reason.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray
from pydantic import Field, PositiveInt
from torch import Tensor
from tqdm import tqdm

from analysis.framework.needs import CONSTANT_STATE
from analysis.framework.output import RunIdentity
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from analysis.jacobian.block_structure import BlockStructure, StateJacobian
from implicit.runs.loading import Run
from theory import (
    State,
    Status,
    Theorem1Report,
    Transition,
    Verdict,
    check_theorem1,
    solve_fixed_point,
)
from theory.blocks import flatten
from theory.theorem1.conditions import STATEMENTS, combine
from theory.theorem1.report import StateCheck

QUANTILES = (0.5, 0.05, 0.25, 0.75, 0.95)
"""The states whose matrices are looked at, as quantiles of the off-diagonal mass; the first one is shown."""
DENSE_SPECTRUM_LIMIT = 1500
"""The largest matrix whose eigenvalues are all computed (under two seconds on one core)."""
LEADING_EIGENVALUES = 100


class JacobianSettings(SampleSettings):
    """Which states are visited.

    Example:
        >>> JacobianSettings(states=128).length
        64
    """

    states: PositiveInt = Field(default=64, description="states at which Theorem 1 is checked")
    max_iterations: PositiveInt = Field(
        default=4000, description="the most damped iterations of a float64 solve"
    )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of ∂h'/∂h at one state.

    Attributes:
        values: complex.
        complete: whether they are all of them, or only those of largest modulus.

    Example:
        >>> Spectrum.of(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()).values.round(12)
        array([0.+1.j, 0.-1.j])
    """

    values: NDArray[np.complex128]
    complete: bool

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


@dataclass(frozen=True, eq=False)
class JacobianAnalysis:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was chosen.
        report: theory's checks, one per visited state.
        blocks: the block structure; None if no state has a fixed point.
        shown: the Jacobian of the figure, that of median off-diagonal mass; None likewise.
        spectra: the eigenvalues of ∂h'/∂h where the blocks were measured, by the label of the state.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config, task = recipe("parity", "mamba2", d_model=4, head_size=4, d_state=2), make_task("parity")
        >>> run = Run(Path("runs/explicit"), config, initial_model(config, task), task, [])
        >>> found = analyse(run, states=4, length=8)
        >>> found.verdict.value, found.report.reasons
        ('fails', {'fails: the transition is diagonal and linear, to within the measured error': 4})
    """

    run: RunIdentity
    settings: JacobianSettings
    report: Theorem1Report
    blocks: BlockStructure | None
    shown: StateJacobian | None
    spectra: dict[str, Spectrum]

    @property
    def with_fixed_point(self) -> Theorem1Report:
        """The checks of those states at which a fixed point was reached."""
        return Theorem1Report(
            tuple(check for check in self.report.checks if check.status is Status.CONVERGED)
        )

    @property
    def verdict(self) -> Verdict:
        """Of the run: that over all visited states with a fixed point, for Theorem 1 speaks of no others."""
        return combine([check.verdict for check in self.with_fixed_point.checks])

    @property
    def sentence(self) -> str:
        """The verdict with its counts."""
        counts, without = self.report.counts, len(self.report.checks) - len(self.with_fixed_point.checks)
        layers = max((len(check.layers) for check in self.report.checks), default=0)
        blocks = ", in every layer's own block" if layers > 1 else ""
        missing = f", of which {without} without a fixed point" if without else ""
        return (
            f"The conclusions of Theorem 1 {VERDICT_WORDS[self.verdict]}: of {len(self.report.checks)} "
            f"visited states they hold at {counts['holds']}, fail at {counts['fails']} and are undecided at "
            f"{counts['inconclusive']}{missing}{blocks}"
        )

    def theorem1(self) -> dict[str, Any]:
        """Return verdict, counts, reasons and the spread of every measured quantity, for JSON."""
        return {
            **self.report.summary(),
            "verdict": self.verdict.value,
            "verdict_over_all_states": self.report.verdict.value,
            "with_fixed_point": len(self.with_fixed_point.checks),
            "sentence": self.sentence,
        }

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, every visited state included."""
        return {
            "theorem1": self.theorem1(),
            "statement": self.report.statement,
            "conditions": STATEMENTS,
            "blocks": None if self.blocks is None else self.blocks.numbers(),
            "spectra": {label: spectrum.numbers() for label, spectrum in self.spectra.items()},
            "states": [_state_numbers(check) for check in self.report.checks],
        }


VERDICT_WORDS = {
    Verdict.HOLDS: "hold",
    Verdict.FAILS: "fail",
    Verdict.INCONCLUSIVE: "are undecided",
}
"""Verdicts as verbs."""


def analyse(run: Run, settings: JacobianSettings | None = None, **chosen: Any) -> JacobianAnalysis:
    """Check Theorem 1 at visited states and look at the Jacobian there.

    Args:
        run: a loaded run.
        settings: what to look at.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, or a model whose state grows.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import Run, initial_model
        >>> config, task = recipe("parity", "lstm", d_model=4), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> analyse(run, states=4, length=8).theorem1()["states"]
        4
    """
    settings = settings_from(JacobianSettings, chosen, settings)
    CONSTANT_STATE.require(run)
    model = in_double_precision(run.model).cpu()  # of single states: small matrices, for NumPy, too
    batch = sample_batch(run.task, settings.sequences, settings.length, settings.seed)
    visited = visited_states(model, batch.tokens, settings.states, lengths=batch.lengths)
    transitions = {token: model.transition(token) for token in sorted({state.token for state in visited})}
    alternatives = [state.state for state in visited]
    checks = []
    for index, state in enumerate(tqdm(visited, desc="Theorem 1", unit="state", leave=False, disable=None)):
        # directions that follow from the seed, so that results can be had again; each state has its own
        seed = int(np.random.SeedSequence(settings.seed, spawn_key=(index,)).generate_state(1)[0])
        check = _check(transitions[state.token], state.state, alternatives, settings.max_iterations, seed)
        checks.append(dataclasses.replace(check, label=state.label))
    measured = sorted(
        (index for index, check in enumerate(checks) if check.layers),
        key=lambda index: checks[index].off_diagonal_mass,
    )
    # The median first: it is the one shown.
    jacobians = {}
    for place in dict.fromkeys(round(level * (len(measured) - 1)) for level in QUANTILES if measured):
        state = visited[measured[place]]
        jacobians[state.label] = _jacobian(transitions[state.token], state.state, settings.max_iterations)
    return JacobianAnalysis(
        RunIdentity.of(run),
        settings,
        Theorem1Report(tuple(checks)),
        BlockStructure.over(list(jacobians.values())) if jacobians else None,
        next(iter(jacobians.values()), None),
        {label: Spectrum.of(jacobian.state_block) for label, jacobian in jacobians.items()},
    )


def _check(
    transition: Transition, state: State, alternatives: Sequence[State], max_iterations: int, seed: int
) -> StateCheck:
    """Check the theorem at one state, compared with nearer and nearer others until one has a fixed point.

    The transition is non-linear if J differs anywhere. The farthest other h may have no fixed point beside
    the window that is kept; then any nearer one will do as well.
    """
    names = [name for layer in transition.layer_states for name in layer]
    here = flatten(state, names)
    nearest = sorted(alternatives, key=lambda other: (flatten(other, names) - here).norm().item())
    while True:
        report = check_theorem1(
            transition, [state], alternatives=nearest, max_iterations=max_iterations, seed=seed
        )
        check = report.checks[0]
        nearest = nearest[: len(nearest) // 2]
        if not check.layers or not math.isnan(check.nonlinearity) or len(nearest) < 2:
            return check


def _jacobian(transition: Transition, state: State, max_iterations: int) -> StateJacobian:
    latent = solve_fixed_point(transition, state, max_iterations=max_iterations).latent
    return StateJacobian.at(transition, state, latent)


def _state_numbers(check: StateCheck) -> dict[str, Any]:
    return {
        "label": check.label,
        "verdict": check.verdict.value,
        "reason": check.reason,
        "conditions": [condition.as_dict() for condition in check.conditions],
        "layers": [dataclasses.asdict(layer) for layer in check.layers],
    }
