"""Is the state transition non-linear and non-diagonal? ``python -m analysis.jacobian RUN``.

Theorem 1 is checked at states that real sequences visit, each with the token that the sequence reads there,
in float64. States without a fixed point stay in the count, as inconclusive, with the reason.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt
from automata.command_line import progress_bar

from analysis.framework.analysis import ReportSection, RunAnalysis
from analysis.framework.figures import SMALLEST_TEXT, TEXT_WIDTH, legend_below, log_axis, new_panels, styled
from analysis.framework.finding import Answer, Finding, Rows, for_title
from analysis.framework.needs import CONSTANT_STATE
from analysis.framework.output import RunIdentity
from analysis.framework.palette import GREY, QUANTITY_LOOKS
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from analysis.jacobian.block_structure import (
    BlockStructure,
    Spectrum,
    StateJacobian,
    draw_matrix,
    draw_spectra,
    named_groups,
)
from implicit.runs.loading import Run
from theory import State, Theorem1Report, Transition, Verdict, check_theorem1, solve_fixed_point
from theory.blocks import flatten
from theory.fixed_point import ERROR_MARGIN
from theory.theorem1.check import layer_within
from theory.theorem1.conditions import STATEMENTS, combine
from theory.theorem1.report import StateCheck

__all__ = [
    "ANALYSIS",
    "JacobianAnalysis",
    "JacobianSettings",
    "Spectrum",
    "analyse",
    "draw",
    "draw_matrix",
    "main",
]

QUANTILES = (0.5, 0.05, 0.25, 0.75, 0.95)
"""The states whose matrices are looked at, as quantiles of the off-diagonal mass; the first one is shown."""


class JacobianSettings(SampleSettings):
    """Which states are visited."""

    states: PositiveInt = Field(default=64, description="states at which Theorem 1 is checked")
    max_iterations: PositiveInt = Field(
        default=4000, description="the most damped iterations of a float64 solve"
    )


@dataclass(frozen=True, eq=False)
class JacobianAnalysis(Answer):
    """The result of `analyse`."""

    run: RunIdentity
    settings: JacobianSettings
    report: Theorem1Report  # theory's checks, one per visited state
    blocks: BlockStructure | None  # the block structure; None if no state has a fixed point
    shown: StateJacobian | None  # the Jacobian of the figure, that of median off-diagonal mass; None likewise
    # the eigenvalues of ∂h'/∂h where the blocks were measured, by the label of the state
    spectra: dict[str, Spectrum]

    @property
    def verdict(self) -> Verdict:
        """The verdict over all visited states with a fixed point; Theorem 1 speaks of no others."""
        return self.report.with_fixed_point.verdict

    @property
    def sentence(self) -> str:
        """The verdict with its counts."""
        return self.report.sentence

    @property
    def finding(self) -> Finding:
        """The verdict with its reasons, conditions, conclusions and blocks."""
        summary = self.theorem1()
        reasons = [[str(count), reason] for reason, count in summary["reasons"].items()]
        rows = [
            Rows(["measured", "verdict", *SPREAD], self._quantities(summary), note=self.report.kind_sentence),
            Rows(["states", "reason"], reasons),
        ]
        if self.blocks is not None:
            masses = [[name, number(mass)] for name, mass in self.blocks.named_groups.items()]
            title = f"blocks of ds'/ds: ‖block‖ / ‖J‖, root mean square over {self.blocks.states} states"
            rows.append(Rows(["part", "mass"], masses, title=title))
        limits = LIMITS if self.verdict is Verdict.DOES_NOT_APPLY else f"{LIMITS} {INCONCLUSIVE}"
        return Finding(self.sentence, rows, limits=limits, verdict=self.verdict.value)

    def _quantities(self, summary: Mapping[str, Any]) -> list[list[str]]:
        """Return the quantities at the states, their verdict, and the least, median and largest value."""
        couplings = [check.conditions[3].value for check in self.report.checks if check.layers]
        coupling = dict(zip(SPREAD, np.quantile(couplings, (0, 0.5, 1)), strict=True)) if couplings else {}
        layers = [layer for check in self.report.with_fixed_point.checks for layer in check.layers]
        conditions = summary["conditions"]
        quantities = [
            ("C1: residual ‖Φ(z*) − z*‖", conditions["C1"], summary["residual"]),
            ("C2: smallest singular value of I − ∂zΦ", conditions["C2"], summary["smallest_singular_value"]),
            ("C3: spectral radius of the iteration", conditions["C3"], summary["spectral_radius"]),
            ("C4: coupling", conditions["C4"], coupling),
        ]
        quantities = [
            *(quantities if self.verdict is not Verdict.DOES_NOT_APPLY else []),
            (
                "off-diagonal mass of J = ∂h'/∂h, over ‖J‖",
                f"non-diagonal: {combine([layer.non_diagonal for layer in layers])}",
                summary["off_diagonal_mass"],
            ),
            (
                "nonlinearity: change of J, over ‖J‖",
                f"non-linear: {combine([layer.non_linear for layer in layers])}",
                summary["nonlinearity"],
            ),
        ]
        return [
            [label, str(verdict), *(number(spread.get(part)) for part in SPREAD)]
            for label, verdict, spread in quantities
        ]

    def theorem1(self) -> dict[str, Any]:
        """Return verdict, counts, reasons and the spread of every measured quantity, for JSON."""
        return {
            **self.report.summary(),
            "verdict": self.verdict.value,
            "verdict_over_all_states": self.report.verdict.value,
            "with_fixed_point": len(self.report.with_fixed_point.checks),
            "sentence": self.sentence,
        }

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, every visited state included."""
        return {
            "theorem1": self.theorem1(),
            "statement": self.report.statement,
            "conditions": STATEMENTS,
            "blocks": None if self.blocks is None else dataclasses.asdict(self.blocks),
            "spectra": {label: spectrum.numbers() for label, spectrum in self.spectra.items()},
            "states": [
                {
                    "label": check.label,
                    "verdict": check.verdict.value,
                    "reason": check.reason,
                    "conditions": [condition.as_dict() for condition in check.conditions],
                    "layers": [dataclasses.asdict(layer) for layer in check.layers],
                }
                for check in self.report.checks
            ],
        }


LIMITS = (
    "Theorem 1 is checked at each listed state by measurement in float64, not by proof. Every threshold is "
    "ten times an error that an independent computation measured. Nothing follows for states that were not "
    "visited."
)
INCONCLUSIVE = "States without a fixed point are inconclusive; the verdict is over the others."
SPREAD = ("min", "median", "max")


def analyse(run: Run, settings: JacobianSettings | None = None, **chosen: Any) -> JacobianAnalysis:
    """Check Theorem 1 at visited states and look at the Jacobian there.

    Settings can be given by name instead. InputError for a bad setting, or a model whose state grows.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("lazy-swaps-gated-deltanet")
        >>> found = analyse(run, states=4, length=8)
        >>> found.report.headline
        'non-diagonal and linear; Theorem 1 does not apply (no fixed point)'
    """
    settings = settings_from(JacobianSettings, chosen, settings)
    CONSTANT_STATE.require(run)
    model = in_double_precision(run.model).cpu()  # of single states: small matrices, for NumPy, too
    batch = sample_batch(run.task, settings.sequences, settings.length, settings.seed)
    visited = visited_states(model, batch.tokens, settings.states, lengths=batch.lengths)
    transitions = {token: model.transition(token) for token in sorted({state.token for state in visited})}
    alternatives = [state.state for state in visited]
    checks = []
    for index, state in enumerate(progress_bar(visited, desc="Theorem 1", unit="state")):
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
        transition = transitions[state.token]
        latent = solve_fixed_point(transition, state.state, max_iterations=settings.max_iterations).latent
        jacobians[state.label] = StateJacobian.at(transition, state.state, latent)
    return JacobianAnalysis(
        RunIdentity.of(run),
        settings,
        Theorem1Report(tuple(checks), layer_within(run.model), sum(not state.reached for state in visited)),
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


def draw(found: JacobianAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw a matrix, its blocks, its spectrum, and every measured state."""
    with styled():
        figure, (heat, masses, spectrum, states) = new_panels(
            width, 4, **for_title(found.run.title, found.finding), height=2.9, columns=2
        )
        if found.shown is None or found.blocks is None:
            for axes in (heat, masses, spectrum):
                _say(axes, "no visited state has a fixed point\nat which a Jacobian could be measured")
        else:
            draw_matrix(heat, found.shown, f"|∂s'/∂s| at\n{next(iter(found.spectra))}")
            _draw_masses(masses, found.blocks)
            draw_spectra(spectrum, found.spectra)
        _draw_states(states, found)
        return figure


def _draw_masses(axes: Axes, blocks: BlockStructure) -> None:
    """The masses as a table of numbers, which says more than colours do."""
    axes.imshow(np.sqrt(blocks.masses), cmap="Blues", vmin=0, vmax=1.4)
    if len(blocks.blocks) <= 8:
        for (row, column), mass in np.ndenumerate(blocks.masses):
            text = "0" if mass == 0 else f"{mass:.2f}" if mass >= 0.01 else f"{mass:.0e}".replace("e-0", "e-")
            axes.text(column, row, text, ha="center", va="center", fontsize=SMALLEST_TEXT)
    ticks = range(len(blocks.blocks))
    axes.set_xticks(ticks, blocks.blocks, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(ticks, blocks.blocks)
    axes.set(
        title=f"‖block‖ / ‖J‖ (Frobenius),\nover {blocks.states} states", xlabel="source", ylabel="output"
    )
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _draw_states(axes: Axes, found: JacobianAnalysis) -> None:
    """Off-diagonal mass and nonlinearity of every state beside what they have to exceed."""
    layers = [layer for check in found.report.checks for layer in check.layers]
    if not layers:
        _say(axes, "no state measured")
        return
    columns = (
        ("off-diagonal mass", [(layer.off_diagonal_mass, layer.off_diagonal_error) for layer in layers]),
        ("nonlinearity", [(layer.nonlinearity, layer.nonlinearity_error) for layer in layers]),
    )
    floor = np.finfo(np.float64).eps / 10
    for label, pairs in columns:
        look = QUANTITY_LOOKS[label]
        ordered = sorted(
            (max(value, floor), ERROR_MARGIN * error) for value, error in pairs if value == value
        )
        if not ordered:
            continue
        values, thresholds = np.array(ordered).T
        places = np.arange(1, len(values) + 1)
        axes.plot(places, values, look.marker, color=look.color, label=label)
        beside = f"its threshold, {ERROR_MARGIN:.0f} × error"
        axes.plot(places, thresholds, "_", color=look.color, alpha=0.6, label=beside)
    axes.set(
        title="measured at every\nvisited state"
        if found.verdict is Verdict.DOES_NOT_APPLY
        else "conclusions at every state\nwith a fixed point",
        xlabel="states, sorted by the measured value",
        ylabel="relative to ‖∂h'/∂h‖",
    )
    log_axis(axes)
    legend_below(axes)


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", color=GREY, transform=axes.transAxes)
    axes.set_axis_off()


def _content(_run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
    blocks = result["blocks"]
    masses = blocks and named_groups(blocks["blocks"], blocks["groups"], has_windows=blocks["has_windows"])
    return {"theorem1": result["theorem1"], "block_masses": masses}


ANALYSIS = RunAnalysis(
    name="jacobian",
    question="Is the state transition non-linear and non-diagonal? Theorem 1, blocks, spectrum.",
    description="Check Theorem 1 at the states that a trained model visits: conditions, verdict, blocks, "
    "spectrum.",
    settings=JacobianSettings,
    measure=analyse,
    draw=draw,
    shows="State-to-state Jacobians at visited states, in float64. Top left: the whole state, windows "
    "included, at the state of median off-diagonal mass. Top right: shares of the Frobenius norm by block. "
    "Bottom left: eigenvalues, with the unit circle. Bottom right: off-diagonal mass and nonlinearity over "
    f"‖∂h'/∂h‖, each with its threshold, {ERROR_MARGIN:.0f} times the measured error; zeros are at 2e-17.",
    needs=CONSTANT_STATE,
    section=ReportSection(
        title="Theorem 1",
        settings={"states": "states", "length": "states_length", "seed": "seed"},
        priority=2,
        content=_content,
    ),
)
main = ANALYSIS.main
