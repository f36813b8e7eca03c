"""By which mechanism do models track the same automaton, and is it the same one?

Models differ in size and basis. What is compared is what no change of basis alters: which part of the state
carries the answers when it is exchanged (`swapping`), how the codes of the automaton's states lie to each
other (`codes`, `symmetry`), and what one token writes, keeps and corrects (`dynamics`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from analysis.error_control.pairs import choose_pairs
from analysis.framework.needs import CONSTANT_STATE, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.settings import SampleSettings, settings_from
from analysis.mechanism.codes import (
    ROUNDING,
    Codes,
    FloatArray,
    alignment,
    chance_alignment,
    codes_of,
    correlation,
)
from analysis.mechanism.dynamics import Dynamics, measure_dynamics
from analysis.mechanism.swapping import Swap, swap_parts
from analysis.mechanism.symmetry import Symmetry, symmetry_of
from analysis.mechanism.visits import IntArray, visit_classes
from automata.checks import check_type
from automata.errors import InputError
from implicit.runs.loading import Run


class MechanismSettings(SampleSettings):
    """Which states are visited.

    Example:
        >>> MechanismSettings(pairs=8).sequences
        8
    """

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


@dataclass(frozen=True)
class Geometry:
    """What the symmetry of the automaton makes of codes.

    Attributes:
        shares: of their variance in every irreducible component; empty without a symmetry.
        dimensions: the participation ratio within each of these; likewise.
        by_words: the share of the variance of their squared distances that reading the same word in both
            states does not alter; None without a symmetry, NaN for equal distances.
        by_renaming: likewise that no renaming alters which the automaton does not notice.
        turned: how well one orthogonal matrix for each token moves the codes, of the token of which that is
            least true; None without a symmetry.

    Example:
        >>> Geometry({"1′": 1.0}, {"1′": 1.0}, None, None, None).numbers()["shares_of_components"]
        {'1′': 1.0}
    """

    shares: dict[str, float]
    dimensions: dict[str, float]
    by_words: float | None
    by_renaming: float | None
    turned: float | None

    @classmethod
    def of(cls, codes: Codes, symmetry: Symmetry | None, table: IntArray) -> "Geometry":
        """Return that of codes of all automaton states."""
        if symmetry is None:
            return cls({}, {}, None, None, None)
        projections = {part.name: part.projection for part in symmetry.components}
        return cls(
            codes.shares(projections),
            codes.dimensions(projections),
            codes.explained_by(symmetry.by_words),
            None if symmetry.by_renaming is None else codes.explained_by(symmetry.by_renaming),
            min(codes.turned_by(following) for following in table.T),
        )

    def numbers(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "shares_of_components": self.shares,
            "dimensions_in_components": self.dimensions,
            "distances_by_words": self.by_words,
            "distances_by_renaming": self.by_renaming,
            "turned_by_tokens": self.turned,
        }


@dataclass(frozen=True, eq=False)
class RunMechanism:
    """What is found of one run.

    Attributes:
        run: which run.
        classes: the automaton states that have codes.
        codes: by kind of state part, and of all kinds side by side as ``all``.
        geometry: of the codes of each of these, what the symmetry of the automaton makes of them.
        swaps: by kind of state part.
        dynamics: from one token to the next.
        iterations: per token, in the mean; None for an explicit model.
        share_converged: of the fixed points that were sought.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = compare([load_run("parity")], sequences=4, length=8, pairs=8, follow=4, states=2).runs[0]
        >>> found.kept_in, sorted(found.codes)
        ('conv', ['all', 'conv', 'ssm'])
    """

    run: RunIdentity
    classes: IntArray
    codes: dict[str, Codes]
    geometry: dict[str, Geometry]
    swaps: dict[str, Swap]
    dynamics: Dynamics
    iterations: float | None
    share_converged: float

    @property
    def kept_in(self) -> str:
        """The kind of part that takes the answers with it when it is exchanged; "several" if none does."""
        for kind, swap in self.swaps.items():
            if swap.last >= DECIDES:
                return kind
        return "several"

    @property
    def coded_in(self) -> str:
        """Whose codes are looked at: those of the kind that holds the automaton state, or of all."""
        return self.kept_in if self.kept_in in self.codes else "all"

    @property
    def held(self) -> Codes:
        """The codes of what holds the automaton state."""
        return self.codes[self.coded_in]

    @property
    def sentence(self) -> str:
        """The finding, in words."""
        codes, dynamics = self.held, self.dynamics
        swaps = ", ".join(
            f"{kind} takes {swap.first:.0%} of the answers with it at once and {swap.last:.0%} at last"
            for kind, swap in self.swaps.items()
        )
        return (
            f"exchanged between states, {swaps}; the {len(self.classes)} codes in {self.coded_in} span "
            f"{codes.dimension:.3g} directions (participation ratio; {len(self.classes) - 1} for equal "
            f"distances) and hold {codes.between:.1%} of its variance; of a small error "
            f"{dynamics.left_after_one:.2g} is left after one token and {dynamics.left_after_all:.2g} at last"
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
            "swaps": {kind: swap.numbers() for kind, swap in self.swaps.items()},
            "dynamics": self.dynamics.numbers(),
            "iterations": self.iterations,
            "share_converged": self.share_converged,
        }


DECIDES = 0.9
"""The share of the answers that a part has to take with it to be what holds the automaton state."""


@dataclass(frozen=True)
class Likeness:
    """How alike the codes of two runs of one automaton are.

    Attributes:
        distances: correlation of the distances between codes; NaN if those of one are all equal.
        alignment: linear CKA of the codes.
        by_chance: mean of it over random renamings of the automaton states, and its 95% quantile.

    Example:
        >>> Likeness(0.5, 0.9, (0.8, 0.85)).numbers()["alignment_by_chance"]
        (0.8, 0.85)
    """

    distances: float
    alignment: float
    by_chance: tuple[float, float]

    def numbers(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "correlation_of_distances": self.distances,
            "alignment": self.alignment,
            "alignment_by_chance": self.by_chance,
        }


@dataclass(frozen=True, eq=False)
class MechanismAnalysis:
    """What `compare` returns.

    Attributes:
        settings: what was chosen.
        runs: in the order given.
        likeness: of every two runs of the same automaton, by the places of both in ``runs``.
        chance: the share of every component for codes at equal distances; empty without a symmetry.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = compare(load_run("parity"), sequences=4, length=8, pairs=8, follow=4, states=2)
        >>> found.likeness, found.chance
        ({}, {'1′': 1.0})
    """

    settings: MechanismSettings
    runs: tuple[RunMechanism, ...]
    likeness: dict[tuple[int, int], Likeness]
    chance: dict[str, float]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by the name of the run."""
        found = {run.run.name: run.numbers() | {"against": {}} for run in self.runs}
        for (one, other), likeness in self.likeness.items():
            names = self.runs[one].run.name, self.runs[other].run.name
            found[names[0]]["against"][names[1]] = likeness.numbers()
            found[names[1]]["against"][names[0]] = likeness.numbers()
        return found


def compare(
    runs: Run | Iterable[Run], settings: MechanismSettings | None = None, **chosen: Any
) -> MechanismAnalysis:
    """Measure by which mechanism models track an automaton.

    Args:
        runs: a loaded run, or several of one word problem.
        settings: what to look at.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, a model whose state grows, tasks that are no word problems or of
            different automata, or words that reach too few automaton states.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> runs = [load_run("parity"), load_run("parity-small")]
        >>> found = compare(runs, sequences=4, length=8, pairs=8, follow=4, states=2)
        >>> [run.kept_in for run in found.runs], round(found.likeness[0, 1].alignment, 6)
        (['conv', 'conv'], 1.0)
    """
    settings = settings_from(MechanismSettings, chosen, settings)
    check_type("runs", runs, (Run, Iterable), "give a loaded one, implicit.load_run(...)")
    several = [runs] if isinstance(runs, Run | str) else list(runs)  # a text is refused below
    if not several:
        raise InputError("runs is empty; give at least one loaded run, implicit.load_run(...)")
    for run in several:
        CONSTANT_STATE.require(run)
    tasks = [word_problem_of(run) for run in several]
    for run, task in zip(several, tasks, strict=True):
        if task.table.shape != tasks[0].table.shape or (task.table != tasks[0].table).any():
            raise InputError(
                f"run {run.path.name} is of {task.name} and {several[0].path.name} of {tasks[0].name}, which "
                "are not the same automaton; give runs of one"
            )
    symmetry = symmetry_of(tasks[0])
    found = tuple(_measure(run, settings, symmetry) for run in several)
    likeness = {
        (one, other): _likeness(found[one], found[other], settings.seed)
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


def _likeness(one: RunMechanism, other: RunMechanism, seed: int) -> Likeness:
    first, second = one.held, other.held
    return Likeness(
        correlation(first.distances, second.distances),
        alignment(first, second),
        chance_alignment(first, second, seed),
    )
