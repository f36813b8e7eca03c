"""By which mechanism do models track the same automaton? ``python -m analysis.mechanism RUN [RUN ...]``.

Models differ in size and basis. The comparison uses what no change of basis alters: which part of the state
carries the answers when it is exchanged, how the codes of the automaton's states lie to each other (`codes`),
and what one token writes, keeps and corrects (`dynamics`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field, PositiveInt

from analysis.error_control.following import choose_pairs
from analysis.framework.analysis import Comparison
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.finding import Answer, Finding, Findings, Rows
from analysis.framework.needs import CONSTANT_STATE, word_problem_of
from analysis.framework.output import RunIdentity, loaded_runs
from analysis.framework.palette import GREY
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.terminal import number, percent
from analysis.mechanism.codes import (
    ROUNDING,
    Codes,
    Geometry,
    Likeness,
    Symmetry,
    alignment,
    chance_alignment,
    codes_of,
    symmetry_of,
)
from analysis.mechanism.dynamics import (
    Dynamics,
    Swap,
    Visits,
    measure_dynamics,
    share_written,
    swap_parts,
    visit_classes,
)
from automata.drawing import COLORS, in_legend
from automata.errors import InputError
from implicit.runs.loading import Run

__all__ = [
    "ANALYSIS",
    "Codes",
    "Dynamics",
    "Likeness",
    "MechanismAnalysis",
    "MechanismSettings",
    "RunMechanism",
    "Swap",
    "Symmetry",
    "Visits",
    "alignment",
    "chance_alignment",
    "codes_of",
    "compare",
    "draw",
    "main",
    "measure_dynamics",
    "share_written",
    "swap_parts",
    "symmetry_of",
    "visit_classes",
]


class MechanismSettings(SampleSettings):
    """Which states are visited."""

    sequences: PositiveInt = Field(
        default=8,
        ge=4,
        description="words that lead to every automaton state, half of them to check the others",
    )
    length: PositiveInt = Field(
        default=24, description="tokens of a word before the four that all have in common"
    )
    pairs: PositiveInt = Field(default=64, description="pairs of states between which a part is exchanged")
    follow: PositiveInt = Field(default=16, description="tokens that are read after that")
    states: PositiveInt = Field(default=8, description="states at which derivatives are taken")
    max_iterations: PositiveInt = Field(
        default=1000, description="the most self-iterations per token, where errors are followed in float64"
    )


@dataclass(frozen=True, eq=False)
class RunMechanism:
    """The results of one run."""

    run: RunIdentity
    classes: IntArray  # the automaton states that have codes
    without: tuple[str, ...]  # the names of the others
    codes: dict[str, Codes]  # by kind of state part, and of all kinds side by side as ``all``
    # of the codes of each of these, what the symmetry of the automaton makes of them
    geometry: dict[str, Geometry]
    swaps: dict[str, Swap]  # by kind of state part
    dynamics: Dynamics  # from one token to the next
    iterations: float | None  # per token, in the mean; None for an explicit model
    share_converged: float  # of the fixed points that were sought

    @property
    def kept_in(self) -> str:
        """The kind of part that takes the answers with it when it is exchanged, or that none alone does."""
        for kind, swap in self.swaps.items():
            if swap.last >= DECIDES:
                return kind
        return UNKNOWN if all(np.isnan(swap.last) for swap in self.swaps.values()) else TOGETHER

    @property
    def coded_in(self) -> str:
        """Whose codes are looked at: those of the kind that holds the automaton state, or of all."""
        return self.kept_in if self.kept_in in self.codes else "all"

    @property
    def warnings(self) -> list[str]:
        """Which automaton states are left out, and how many fixed points."""
        found = []
        if self.without:
            names = ", ".join(self.without[:5]) + ", …" * (len(self.without) > 5)
            found.append(f"no codes of {names}: no word that ends as the others do leads there")
        if self.share_converged < 1:
            found.append(
                f"{percent(1 - self.share_converged, 2)} of the fixed points on the way were not found"
            )
        swap = next(iter(self.swaps.values()))
        if swap.told < len(swap.giver):
            found.append(
                f"this automaton forgets: at token {swap.told + 1} after an exchange most pairs of states "
                "have met; the last token is here the one before"
            )
        return found

    @property
    def _of_states(self) -> str:
        """How many automaton states have codes, of how many."""
        count = len(self.classes)
        of = f" of {count + len(self.without)}" if self.without else ""
        return f"{count}{of} automaton states"

    @property
    def held(self) -> Codes:
        """The codes of what holds the automaton state."""
        return self.codes[self.coded_in]

    @property
    def sentence(self) -> str:
        """The finding, in words."""
        codes, dynamics = self.held, self.dynamics
        first = ", ".join(f"{kind} {percent(swap.first, 0)}" for kind, swap in self.swaps.items())
        last = ", ".join(f"{kind} {percent(swap.last, 0)}" for kind, swap in self.swaps.items())
        ends = "later tokens lead all states to one" if self.kept_in == UNKNOWN else f"{last} at the last"
        late = dynamics.left_after_all
        return (
            f"{HELD.get(self.kept_in, f'{self.kept_in} holds')} the answers: exchanged between states, parts "
            f"take these shares of them along: {first} at the first token after, {ends}; the "
            f"codes of {self._of_states} in {self.coded_in} span "
            f"{number(codes.dimension)} directions (participation ratio; {len(self.classes) - 1} for equal "
            f"distances) and hold {percent(codes.between)} of the variance there; of a small error "
            f"{number(dynamics.left_after_one, 2)} is left after one token"
            + ("" if np.isnan(late) else f" and {number(late, 2)} after the last")
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "sentence": self.sentence,
            "kept_in": self.kept_in,
            "classes": self.classes,
            "coded_in": self.coded_in,
            "codes": {
                kind: codes.numbers() | self.geometry[kind].numbers() for kind, codes in self.codes.items()
            },
            "swaps": {kind: vars(swap) for kind, swap in self.swaps.items()},
            "dynamics": vars(self.dynamics),
            "iterations": self.iterations,
            "share_converged": self.share_converged,
        }


UNKNOWN, TOGETHER = "not measured", "no part alone"
HELD = {UNKNOWN: "it is not measured which part holds", TOGETHER: "no part alone holds"}
IRREDUCIBLE = "Representations are irreducible, of the group of the tokens, and named by their dimension."
ALIGNMENT = "alignment: linear CKA of the codes; by chance: with random names of the states."
DECIDES = 0.9  # the share of the answers that a part has to take with it to be what holds the automaton state


@dataclass(frozen=True, eq=False)
class MechanismAnalysis(Answer):
    """The result of `compare`."""

    settings: MechanismSettings
    runs: tuple[RunMechanism, ...]  # in the order given
    # of every two runs of the same automaton, by the places of both in ``runs``
    likeness: dict[tuple[int, int], Likeness]
    # the share of every component for codes at equal distances; empty without a symmetry
    chance: dict[str, float]

    @property
    def findings(self) -> Findings:
        """The finding of every run, with how alike its codes and those of later runs are."""
        alike: dict[int, list[list[str]]] = {}
        for (one, other), likeness in self.likeness.items():
            by_chance = ", ".join(f"{value:.3f}" for value in likeness.by_chance)
            row = [self.runs[other].run.name, number(likeness.distances), f"{likeness.alignment:.3f}"]
            alike.setdefault(one, []).append([*row, by_chance])
        columns = ["codes like those of", "distances correlate by", "alignment", "by chance: mean, 95%"]
        return {
            run.run.name: Finding(
                run.sentence,
                [
                    *_tables(run, self.chance),
                    *([Rows(columns, alike[place], note=ALIGNMENT)] if place in alike else []),
                ],
                limits="Measured on some words, not a bound: it shows where mechanisms differ and does not "
                "prove that they are the same.",
                warnings=run.warnings,
            )
            for place, run in enumerate(self.runs)
        }

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by the name of the run."""
        found = {run.run.name: run.numbers() | {"against": {}} for run in self.runs}
        for (one, other), likeness in self.likeness.items():
            names = self.runs[one].run.name, self.runs[other].run.name
            found[names[0]]["against"][names[1]] = likeness.numbers()
            found[names[1]]["against"][names[0]] = likeness.numbers()
        return found


def _tables(run: RunMechanism, chance: dict[str, float]) -> list[Rows]:
    """The quantities in three tables, those left out that this run does not have."""
    codes, dynamics, geometry = run.held, run.dynamics, run.geometry[run.coded_in]
    held = {f"the part that takes {percent(DECIDES, 0)} of the answers with it": run.kept_in}
    for kind, swap in run.swaps.items():
        name = f"answers right for the word that {kind} is from: first token, last"
        held[name] = f"{percent(swap.first)}, {percent(swap.last)}"
    for kind in run.swaps:
        held[f"variance of {kind} between the codes"] = percent(run.codes[kind].between)
    lie = {
        "directions: participation ratio": f"{codes.dimension:.1f} of {len(run.classes) - 1}",
        "directions that hold 90% of their variance": f"{codes.directions_for(0.9)}",
        "spread of their distances over the mean": number(codes.unevenness),
        "correlation of the distances of two halves of the words": number(codes.reliability),
    }
    for name, share in geometry.shares.items():
        lie[f"variance in representation {name} (at equal distances: {percent(chance[name])})"] = percent(
            share
        )
        lie[f"directions in representation {name}"] = number(geometry.dimensions[name])
    lie |= {
        "differences of distances that reading a word keeps": number(geometry.by_words),
        "differences of distances that renaming states keeps": number(geometry.by_renaming),
        "variance that an orthogonal matrix for each token explains": number(geometry.turned),
    }
    decay = dynamics.decay
    part = "the state" if run.coded_in == "all" else run.coded_in
    does = {
        "codes in the recurrent state: the share that it wrote": number(dynamics.written),
        "small error left after it (an affine layer: 1)": number(dynamics.left_after_one),
        "small error left after the last token": number(dynamics.left_after_all),
        "iterations": "–" if run.iterations is None else f"{run.iterations:.1f}",
        "norm of ∂Φ/∂z": number(dynamics.contraction),
        "norm of the second term of J over the first": number(dynamics.second_term),
        "rank of the second term": number(dynamics.second_rank),
        "decay: 5%, 50%, 95%": "–" if decay is None else ", ".join(number(value) for value in decay),
    }
    tables = (
        ("where the answers are", held, "Of k answers that are guessed, one in k is right."),
        (f"codes: the mean of {part} for each of {run._of_states}", lie, IRREDUCIBLE),
        ("what one token does", does, "A small error is 1% of the way to another automaton state."),
    )
    return [
        Rows(["quantity", "value"], [[*row] for row in rows.items() if row[1] != "–"], title, note)
        for title, rows, note in tables
    ]


def compare(
    runs: Run | Iterable[Run], settings: MechanismSettings | None = None, **chosen: Any
) -> MechanismAnalysis:
    """Measure by which mechanism models track an automaton.

    Several runs are of one word problem; settings can be given by name instead. InputError for a bad setting,
    a model whose state grows, tasks that are no word problems or of different automata, or words that reach
    too few automaton states.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> runs = [load_run("parity"), load_run("parity-small")]
        >>> found = compare(runs, sequences=4, length=8, pairs=8, follow=4, states=2)
        >>> [run.kept_in for run in found.runs], round(found.likeness[0, 1].alignment, 6)
        (['conv', 'conv'], 1.0)
    """
    settings = settings_from(MechanismSettings, chosen, settings)
    several = loaded_runs(runs)
    for run in several:
        CONSTANT_STATE.require(run)
    tasks = [word_problem_of(run) for run in several]
    for run, task in zip(several, tasks, strict=True):
        if task.table.shape != tasks[0].table.shape or (task.table != tasks[0].table).any():
            raise InputError(
                f"run {run.name} is of {task.name} and {several[0].name} of {tasks[0].name}, which "
                "are not the same automaton; give runs of one"
            )
    symmetry = symmetry_of(tasks[0])
    found = tuple(_measure(run, settings, symmetry) for run in several)
    likeness = {
        (one, other): Likeness.of(found[one].held, found[other].held, settings.seed)
        for one in range(len(found))
        for other in range(one + 1, len(found))
        if np.array_equal(found[one].classes, found[other].classes)
    }
    return MechanismAnalysis(settings, found, likeness, {} if symmetry is None else symmetry.chance())


def _measure(run: Run, settings: MechanismSettings, symmetry: Symmetry | None) -> RunMechanism:
    task = word_problem_of(run)
    visits = visit_classes(run, settings.sequences, settings.length, settings.seed)
    rng = np.random.default_rng(settings.seed)
    pairs = choose_pairs(task, settings.pairs, settings.length, settings.follow, rng)
    codes = {kind: codes_of(states, visits.label, visits.half) for kind, states in visits.parts.items()}
    whole = np.concatenate([_scaled(states) for states in visits.parts.values()], axis=1)
    codes["all"] = codes_of(whole, visits.label, visits.half)
    complete = symmetry if len(visits.classes) == task.state_count else None
    return RunMechanism(
        run=RunIdentity.of(run),
        classes=visits.classes,
        without=tuple(name for state, name in enumerate(task.state_names) if state not in visits.classes),
        codes=codes,
        geometry={kind: Geometry.of(each, complete, task.table) for kind, each in codes.items()},
        swaps=swap_parts(run.model, task, pairs),
        dynamics=measure_dynamics(
            run.model, visits, pairs, settings.states, settings.max_iterations, settings.seed
        ),
        iterations=visits.iterations,
        share_converged=visits.share_converged,
    )


def _scaled(states: FloatArray) -> FloatArray:
    """States whose mean squared distance from their mean is 1, unless they are all the same."""
    spread = float(np.sqrt(((states - states.mean(axis=0)) ** 2).sum() / len(states)))
    return states / spread if spread > ROUNDING else states


DASHES = ("-", "--", ":", "-.")
MARKERS = "os^Dv<>P"


def draw(found: MechanismAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw how the codes of every run lie, and whose answers follow an exchanged part."""
    names = ", ".join(run.run.name for run in found.runs)
    if found.runs[0].without:
        names = f"{names}; codes of {found.runs[0]._of_states}"
    fills: list[Callable[[Axes, MechanismAnalysis], None]] = [_swaps]
    if len(found.runs[0].classes) > 2:  # two codes have one direction and one distance
        fills += [_directions, _distances]
    if len(found.chance) > 1:
        fills.append(_components)
    with styled():
        columns = 3 if len(fills) == 3 else 2
        figure, panels = new_panels(width, len(fills), f"mechanism: {names}", height=2.75, columns=columns)
        for axes, fill in zip(panels, fills, strict=True):
            fill(axes, found)
            legend_below(axes, columns=1)
    return figure


def _look(place: int, *of: str) -> dict[str, Any]:
    """Return colour, marker and label of a run, by its place and its name."""
    marker = MARKERS[place % len(MARKERS)]
    return {"color": COLORS[place % len(COLORS)], "marker": marker, "label": in_legend(": ".join(of))}


def _directions(axes: Axes, found: MechanismAnalysis) -> None:
    for place, run in enumerate(found.runs):
        lengths = np.maximum(run.held.spectrum, 0)[: len(run.classes) - 1]
        shares = lengths.cumsum() / max(lengths.sum(), 1e-300)
        every = max(1, len(shares) // 8)
        axes.plot(np.arange(1, len(shares) + 1), shares, markevery=every, **_look(place, run.run.name))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(
        title="directions of the codes",
        xlabel="principal directions",
        ylabel="share of variance",
        ylim=(-0.02, 1.05),
    )


def _components(axes: Axes, found: MechanismAnalysis) -> None:
    axes.set(title="representations", xlabel="irreducible representation", ylabel="share of variance")
    names = list(found.chance)
    places = np.arange(len(names))
    axes.plot(places, [*found.chance.values()], "_", color=GREY, markersize=14, label="equal distances")
    for place, run in enumerate(found.runs):
        shares = run.geometry[run.coded_in].shares
        if shares:
            axes.plot(places, [shares[name] for name in names], linestyle="", **_look(place, run.run.name))
    axes.set_xticks(places, names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(-0.02, 1.05)


def _distances(axes: Axes, found: MechanismAnalysis) -> None:
    """How many pairs lie closer than a multiple of the mean distance."""
    for place, run in enumerate(found.runs):
        distances = np.sort(run.held.distances)
        if distances.mean() > 0:
            look = _look(place, run.run.name) | ({} if len(distances) < 3 else {"marker": ""})
            below = np.arange(1, len(distances) + 1) / len(distances)
            axes.plot(distances / distances.mean(), below, linestyle=DASHES[place % len(DASHES)], **look)
    axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":", label="all equal")
    axes.set(
        title="distances of the codes",
        xlabel="distance / mean distance",
        ylabel="share of pairs below",
        xlim=(0, 2),
        ylim=(-0.02, 1.05),
    )


def _swaps(axes: Axes, found: MechanismAnalysis) -> None:
    for place, run in enumerate(found.runs):
        for kind_place, (kind, swap) in enumerate(run.swaps.items()):
            tokens, dashes = np.arange(1, len(swap.giver) + 1), DASHES[kind_place % len(DASHES)]
            alone = len(found.runs) == 1
            look = _look(kind_place, kind) if alone else _look(place, run.run.name, kind)
            axes.plot(tokens, swap.giver, linestyle=dashes, markersize=2.5, **look)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(
        title="answers that follow an exchanged part",
        xlabel="tokens after the exchange",
        ylabel="share of the giver's",
        ylim=(-0.05, 1.05),
    )


ANALYSIS = Comparison(
    name="mechanism",
    question="By which mechanism do models track an automaton, and is it the same one?",
    description="Compare how models of one automaton hold its states, whatever their basis.",
    settings=MechanismSettings,
    compare=compare,
    draw=draw,
    shows="Answers that follow: right for the word that a part was taken from. Directions: variance of the "
    "codes along the first principal ones. Distances: between the codes. Representations: their variance in "
    "each irreducible one of the tokens' group; bars: codes at equal distances. Panels that would say "
    "nothing of so few states are left out.",
    needs=CONSTANT_STATE,
    any_length=True,
)
main = ANALYSIS.main
