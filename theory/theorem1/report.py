"""The report of the check of Theorem 1: per layer, per state, and over all visited states."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from automata.checks import at_least, at_most
from theory.status import Status
from theory.theorem1.conditions import STATEMENTS, Condition, LayerConclusion, Verdict, combine
from theory.theorem1.kinds import LayerKind, TransitionKind, layer_kind, overall_kind

STATEMENT = (
    "Let z* be a fixed point of Φ at the state s (C1), I − ∂zΦ invertible there (C2) and the damped "
    "iteration locally convergent (C3). Then the iteration defines near s a differentiable transition "
    "s ↦ G(z*(s), s) with J = ∂sG + ∂zG (I − ∂zΦ)^{-1} ∂sΦ. Where the first term is diagonal and the second "
    "is not (C4), the transition is non-diagonal; where J takes two values, it is non-linear."
)
"""Theorem 1, in the form whose conditions and conclusions are measured."""


@dataclass(frozen=True)
class StateCheck:
    """Everything measured at one visited state.

    Attributes:
        status: how the fixed-point solve ended.
        conditions: C1 to C4, in this order.
        layers: the conclusions for each layer; empty where no Jacobian could be measured.
        label: names the token and the state in messages.
        note: why the nonlinearity is missing, if it is.
        seed: of the directions along which errors were measured; ``check_theorem1`` repeats them with it.

    Example:
        >>> from theory.theorem1.conditions import unmeasured
        >>> conditions = tuple(unmeasured(name, "it is an example") for name in ("C1", "C2", "C3", "C4"))
        >>> StateCheck(Status.MAX_ITERATIONS, conditions, layers=()).conclusions.value
        'inconclusive'
    """

    status: Status
    conditions: tuple[Condition, ...]
    layers: tuple[LayerConclusion, ...]
    label: str = ""
    note: str = ""
    seed: int | None = None

    @property
    def has_latent(self) -> bool:
        """Say whether the model seeks a fixed point: one that does not has nothing to demand in C1."""
        return not (self.conditions[0].verdict is Verdict.HOLDS and math.isnan(self.conditions[0].threshold))

    @property
    def verdict(self) -> Verdict:
        """That of the theorem; it does not apply without a latent, or to conclusions that lack C4."""
        by_fixed_point = self.has_latent and self.conditions[3].verdict is Verdict.HOLDS
        if not self.has_latent or (self.conclusions is Verdict.HOLDS and not by_fixed_point):
            return Verdict.DOES_NOT_APPLY
        return self.conclusions

    @property
    def conclusions(self) -> Verdict:
        """Say whether the transition is non-diagonal and non-linear in every layer, given C1 to C3."""
        if any(condition.verdict is not Verdict.HOLDS for condition in self.conditions[:3]):
            return Verdict.INCONCLUSIVE
        return combine(
            [verdict for layer in self.layers for verdict in (layer.non_diagonal, layer.non_linear)]
        )

    @property
    def reason(self) -> str:
        """The ground of the verdict, without numbers, so that states can be grouped by it."""
        c1, c2, c3, c4 = self.conditions
        if c1.verdict is not Verdict.HOLDS:
            return f"no fixed point was reached (C1): {self.status.sentence}"
        if c2.verdict is not Verdict.HOLDS:
            return "I − ∂zΦ is not established to be invertible (C2)"
        if c3.verdict is not Verdict.HOLDS:
            return "local convergence is not established (C3): the iteration need not find this point again"
        properties = {
            "diagonal": combine([layer.non_diagonal for layer in self.layers]),
            "linear": combine([layer.non_linear for layer in self.layers]),
        }
        if self.conclusions is Verdict.FAILS:
            failed = [name for name, verdict in properties.items() if verdict is Verdict.FAILS]
            where = " in at least one layer" if len(self.layers) > 1 else ""
            return f"the transition is {' and '.join(failed)}{where}, to within the measured error"
        if self.conclusions is Verdict.INCONCLUSIVE:
            missing = [f"non-{name}" for name, verdict in properties.items() if verdict is not Verdict.HOLDS]
            why = self.note or self._why_open
            return f"it is not decided whether the transition is {' and '.join(missing)}: {why}"
        established = "the transition is non-diagonal and non-linear"
        if any(layer.unvisited for layer in self.layers):
            established += ", the latter shown at a state that was not visited"
        if self.has_latent and c4.verdict is not Verdict.HOLDS:
            established += ", but not by a fixed point (C4 does not hold): Theorem 1 does not speak of it"
        return established

    @property
    def _why_open(self) -> str:
        for layer in self.layers:
            if not np.isfinite([layer.off_diagonal_mass, layer.off_diagonal_error, layer.nonlinearity]).all():
                return "J or its finite differences are not finite numbers here"
        return "what was measured is below ten times its error, and rounding does not explain it"

    @property
    def residual(self) -> float:
        """‖Φ(z*) − z*‖₂."""
        return self.conditions[0].value

    @property
    def smallest_singular_value(self) -> float:
        """The smallest singular value of I − ∂zΦ; NaN if not measured, infinite without a latent."""
        return self.conditions[1].value

    @property
    def spectral_radius(self) -> float:
        """The spectral radius of (1 − τ) I + τ ∂zΦ; NaN if not measured, zero without a latent."""
        return self.conditions[2].value

    @property
    def off_diagonal_mass(self) -> float:
        """The smallest off-diagonal mass among the layers; NaN if not measured."""
        return min((layer.off_diagonal_mass for layer in self.layers), default=math.nan)

    @property
    def nonlinearity(self) -> float:
        """The smallest nonlinearity among the layers; NaN if not measured."""
        return min((layer.nonlinearity for layer in self.layers), default=math.nan)


_VERBS = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail", Verdict.INCONCLUSIVE: "are undecided"}

QUANTITIES = ("residual", "smallest_singular_value", "spectral_radius", "off_diagonal_mass", "nonlinearity")
"""The quantities that a report holds for every state."""


def headline(kind: TransitionKind, verdict: Verdict, *, has_latent: bool, of_a_part: bool = False) -> str:
    """Return the kind of a transition and what Theorem 1 says of it, in the words that all pages use."""
    said = f"the conclusions of Theorem 1 {_VERBS.get(verdict)}"
    if verdict is Verdict.DOES_NOT_APPLY:
        reason = "(C4 does not hold)" if has_latent else "(no fixed point)"
        said = f"Theorem 1 does not apply {'to the network as a whole' if of_a_part else reason}"
    return f"{'of undetermined kind' if kind is TransitionKind.UNDETERMINED else kind}; {said}"


def _decided(layer: LayerKind) -> str:
    """Say which half of an undetermined kind is known, and which is not."""
    words = {
        Verdict.HOLDS: "it is non-{}",
        Verdict.FAILS: "it is {}",
        Verdict.INCONCLUSIVE: "whether it is {} is not decided",
    }
    return f"{words[layer.non_diagonal].format('diagonal')}, {words[layer.non_linear].format('linear')}"


@dataclass(frozen=True, repr=False)
class Theorem1Report:
    """The outcome of :func:`theory.check_theorem1`: one of ``checks`` for each visited state.

    Example:
        Of a model that seeks no fixed point:

        >>> from theory.theorem1.conditions import vacuous
        >>> conditions = tuple(vacuous(name, 0.0) for name in ("C1", "C2", "C3", "C4"))
        >>> layers = (LayerConclusion(("h",), 0.5, 1e-9, 0.25, 1e-9),)
        >>> report = Theorem1Report((StateCheck(Status.CONVERGED, conditions, layers),))
        >>> merged = Theorem1Report.merge([report, report])
        >>> merged.verdict.value, len(merged.checks), merged.values("nonlinearity")
        ('does not apply', 2, array([0.25, 0.25]))
        >>> merged.headline
        'non-diagonal and non-linear; Theorem 1 does not apply (no fixed point)'
    """

    checks: tuple[StateCheck, ...]
    within: str = ""  # a layer of the model that seeks fixed points by itself
    behind: int = 0  # states that follow a token without a fixed point, of which the model's may be others

    @classmethod
    def merge(cls, reports: Iterable["Theorem1Report"]) -> "Theorem1Report":
        """Return one report of all states of several, such as one report a token."""
        return cls(tuple(check for report in reports for check in report.checks))

    @property
    def statement(self) -> str:
        """The theorem in words."""
        return STATEMENT

    def __repr__(self) -> str:
        conditions = ", ".join(f"{name} {verdict}" for name, verdict in self.conditions.items())
        measured = ""
        if any(check.has_latent for check in self.checks):
            measured = f"\nConditions: {conditions}.{self._sizes}{self._mixed_by_fixed_point}"
        return f"{self.sentence}.\n{self.kind_sentence}{measured}"

    @property
    def _sizes(self) -> str:
        """The numbers of C1 to C3 at the state that is worst for each, where they were measured."""
        residuals, smallest, radii = (self.values(quantity) for quantity in QUANTITIES[:3])
        if not np.isfinite(radii).any():
            return ""
        return (
            f"\nMeasured: residual at most {at_most(np.nanmax(residuals), 1)} (C1), smallest singular value "
            f"of I − ∂zΦ at least {at_least(np.nanmin(smallest), 2)} (C2), "
            f"spectral radius at most {at_most(np.nanmax(radii), 2)} (C3)."
        )

    @property
    def _mixed_by_fixed_point(self) -> str:
        """How much of J the second term has off the diagonal: what more there is, the first term mixes."""
        measured = [check.layers for check in self.checks if check.has_latent and check.layers]
        ranges = []
        for column in zip(*measured, strict=True):
            sizes = [layer.second_term_mass for layer in column]
            of = f" in {' + '.join(column[0].names)}" if len(measured[0]) > 1 else ""
            least, most = min(sizes), max(sizes)
            ends = f"{at_least(least, 2)} to {at_most(most, 2)}" if least < most else f"{most:.2g}"
            ranges.append(f"{ends} of ‖J‖{of}")
        at = f" at {len(measured)} states" if len(measured) < len(self.checks) else ""
        said = f"\nOff the diagonal the second term, that of the fixed point, has {', '.join(ranges)}{at}."
        return said if ranges else ""

    @property
    def verdict(self) -> Verdict:
        """Holds if it holds at every state, fails if it fails at one, else inconclusive or not applicable."""
        return combine([check.verdict for check in self.checks])

    @property
    def conclusions(self) -> Verdict:
        """Return whether the transition is non-diagonal and non-linear at every state, by whatever means."""
        return combine([check.conclusions for check in self.checks])

    @property
    def with_fixed_point(self) -> "Theorem1Report":
        """The checks of those states at which a fixed point was reached; the theorem speaks of no others."""
        return Theorem1Report(tuple(check for check in self.checks if check.status is Status.CONVERGED))

    @property
    def headline(self) -> str:
        """The kind of the transition and what Theorem 1 says of it, in the words that all pages use."""
        has_latent, kind = any(check.has_latent for check in self.checks), self.kind
        said = headline(
            kind, self.with_fixed_point.verdict, has_latent=has_latent, of_a_part=bool(self.within)
        )
        if kind is not TransitionKind.UNDETERMINED:
            return said
        return said.replace(";", f" ({_decided(overall_kind(self.layer_kinds))});", 1)

    @property
    def sentence(self) -> str:
        """The headline with its counts, without a full stop."""
        counts, total = self.counts, len(self.checks)
        headline = self.headline[:1].upper() + self.headline[1:]
        layers = max((len(check.layers) for check in self.checks), default=0)
        blocks = ", in every layer's own block" if layers > 1 else ""
        if not any(check.has_latent for check in self.checks):
            asked = f"; ask about its part {self.within}, which seeks fixed points (docs/use_a_layer.md)"
            return f"{headline}; measured at {total} visited states{blocks}{asked if self.within else ''}"
        without = total - len(self.with_fixed_point.checks)
        missing = f", of which {without} without a fixed point" if without else ""
        beside = counts[Verdict.DOES_NOT_APPLY]
        blocks += f"; {self.behind} of them follow a token without a fixed point" if self.behind else ""
        lacking = f", and at {beside} do not come from a fixed point" if beside else ""
        return (
            f"{headline}: of {total} visited states they hold at {counts['holds']}, fail at "
            f"{counts['fails']} and are undecided at {counts['inconclusive']}{missing}{lacking}{blocks}"
        )

    @property
    def conditions(self) -> dict[str, Verdict]:
        """Return whether C1 to C4 hold at every state; they do not apply to a model without a latent."""
        without = Verdict.DOES_NOT_APPLY
        return {
            name: combine([c.conditions[i].verdict if c.has_latent else without for c in self.checks])
            for i, name in enumerate(STATEMENTS)
        }

    @property
    def counts(self) -> dict[str, int]:
        """How many states have which verdict."""
        found = Counter(check.verdict.value for check in self.checks)
        return {verdict.value: found[verdict.value] for verdict in Verdict}

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons of the verdicts with the number of states, the most frequent first."""
        return dict(Counter(f"{check.verdict}: {check.reason}" for check in self.checks).most_common())

    @property
    def layer_kinds(self) -> tuple[LayerKind, ...]:
        """The kind of each layer's transition over all states; empty where no Jacobian was measured."""
        missing = [check.reason for check in self.checks if not check.layers]
        notes = [check.note for check in self.checks if check.layers and check.note]
        columns = zip(*(check.layers for check in self.checks if check.layers), strict=True)
        return tuple(layer_kind(column, missing, notes) for column in columns)

    @property
    def kind(self) -> TransitionKind:
        """The kind within layers, not between them: non-diagonal or non-linear if one layer is."""
        return overall_kind(self.layer_kinds).kind

    @property
    def kind_sentence(self) -> str:
        """The kind with its meaning and its reason."""
        whole = overall_kind(self.layer_kinds)
        if whole.kind is TransitionKind.UNDETERMINED:
            return f"The kind of the transition is undetermined: {_decided(whole)} ({whole.reason})."
        of = "The transition"
        if len(self.layer_kinds) > 1:
            of += " within layers, each layer's own block with the rest of the state held fixed,"
        sentences = f"{of} is {whole.kind}: {whole.kind.meaning}. Measured: {whole.reason}."
        negative = [
            name
            for name, verdict in (("diagonal", whole.non_diagonal), ("linear", whole.non_linear))
            if verdict is Verdict.FAILS
        ]
        if negative:
            claim = " and ".join(negative)
            return (
                f"{sentences} It is {claim} wherever it was evaluated: what no evaluation met is not decided."
            )
        return sentences

    def values(self, quantity: str) -> NDArray[np.float64]:
        """Return one of :data:`QUANTITIES` for every state, NaN where it was not measured."""
        return np.array([getattr(check, quantity) for check in self.checks], dtype=np.float64)

    def summary(self) -> dict[str, Any]:
        """Return verdict, kind, counts, reasons, and the spread of every quantity, for JSON.

        Each quantity has its minimum, median and maximum; only finite values count, and a quantity
        without any has ``None`` three times.
        """
        result: dict[str, Any] = {
            "verdict": self.verdict.value,
            "headline": self.headline,
            "kind": self.kind.value,
            "kind_sentence": self.kind_sentence,
            "layer_kinds": [layer.as_dict() for layer in self.layer_kinds],
            "states": len(self.checks),
            "counts": self.counts,
            "reasons": self.reasons,
            "conditions": {name: verdict.value for name, verdict in self.conditions.items()},
        }
        for quantity in QUANTITIES:
            values = self.values(quantity)
            values = values[np.isfinite(values)]
            spread = np.quantile(values, [0, 0.5, 1]).tolist() if values.size else [None] * 3
            result[quantity] = dict(zip(("min", "median", "max"), spread, strict=True))
        return result
