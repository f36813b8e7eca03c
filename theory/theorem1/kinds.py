"""The kind of a transition: diagonal or not, linear or not, over all states at which it was measured.

"Linear" means affine in the state, with the token and the rest of the state fixed. One state at which J is
not diagonal makes the transition non-diagonal, and one pair of states that no affine map joins makes it
non-linear; "diagonal" and "linear" need every state. Any other transition is undetermined.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from automata.checks import at_most
from theory.fixed_point import ERROR_MARGIN
from theory.theorem1.conditions import LayerConclusion, Verdict


class TransitionKind(StrEnum):
    """The kind of a transition: how it acts on its state.

    Example:
        >>> print(TransitionKind.NON_DIAGONAL_LINEAR)
        non-diagonal and linear
    """

    DIAGONAL_LINEAR = "diagonal and linear"
    NON_DIAGONAL_LINEAR = "non-diagonal and linear"
    DIAGONAL_NON_LINEAR = "diagonal and non-linear"
    NON_DIAGONAL_NON_LINEAR = "non-diagonal and non-linear"
    UNDETERMINED = "undetermined"

    @property
    def meaning(self) -> str:
        """The meaning of the kind, with a model that has it, as a clause."""
        return _MEANINGS[self]


_KINDS = {
    (Verdict.FAILS, Verdict.FAILS): TransitionKind.DIAGONAL_LINEAR,
    (Verdict.HOLDS, Verdict.FAILS): TransitionKind.NON_DIAGONAL_LINEAR,
    (Verdict.FAILS, Verdict.HOLDS): TransitionKind.DIAGONAL_NON_LINEAR,
    (Verdict.HOLDS, Verdict.HOLDS): TransitionKind.NON_DIAGONAL_NON_LINEAR,
}
_MEANINGS = {
    TransitionKind.DIAGONAL_LINEAR: (
        "as in Mamba-2, every entry of the state is multiplied by a factor that does not depend on the state"
    ),
    TransitionKind.NON_DIAGONAL_LINEAR: (
        "as in DeltaNet, the entries of the state are mixed by a matrix that does not depend on the state"
    ),
    TransitionKind.DIAGONAL_NON_LINEAR: (
        "every entry of the state goes its own way, which is not an affine function of that entry"
    ),
    TransitionKind.NON_DIAGONAL_NON_LINEAR: (
        "as in an LSTM or at a fixed point, the entries of the state are mixed, and not by an affine map"
    ),
    TransitionKind.UNDETERMINED: "the measurements do not decide it",
}


@dataclass(frozen=True)
class LayerKind:
    """The kind of one layer's transition, or of all layers together.

    Attributes:
        names: the state entries that the layer's block is made of.
        non_diagonal: holds if J is not diagonal at some state, fails if it is diagonal at every one.
        non_linear: holds if some pair of states shows it, fails if every one that was compared is joined by
            an affine map.
        reason: the numbers, as one sentence.

    Example:
        >>> layers = [LayerConclusion(("S",), mass, 1e-9, 0.0, 1e-9) for mass in (0.0, 0.5)]
        >>> layer = layer_kind(layers)
        >>> layer.kind.value
        'non-diagonal and linear'
        >>> layer.reason
        'off-diagonal mass at 1 of 2 states, at most 0.5 of ‖J‖ with an error of 1e-09; no change of J with
        the state at any of 2 states, at most 0 of ‖J‖ with an error of 1e-09'
    """

    names: tuple[str, ...]
    non_diagonal: Verdict
    non_linear: Verdict
    reason: str

    @property
    def kind(self) -> TransitionKind:
        """Diagonal or not, linear or not; undetermined if either is."""
        return _KINDS.get((self.non_diagonal, self.non_linear), TransitionKind.UNDETERMINED)

    def as_dict(self) -> dict[str, Any]:
        """Return the kind with its two properties and its reason, for JSON."""
        return {
            "names": list(self.names),
            "kind": self.kind.value,
            "non_diagonal": self.non_diagonal.value,
            "non_linear": self.non_linear.value,
            "reason": self.reason,
        }


def anywhere(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict of "at least one of them": holds if one holds, fails if every one fails."""
    for verdict in (Verdict.HOLDS, Verdict.INCONCLUSIVE):
        if verdict in verdicts:
            return verdict
    return Verdict.FAILS if verdicts else Verdict.INCONCLUSIVE


def layer_kind(
    conclusions: Sequence[LayerConclusion], unmeasured: Sequence[str] = (), notes: Sequence[str] = ()
) -> LayerKind:
    """Return the kind of one layer from its conclusions at every state, at least one.

    ``unmeasured`` says why further states have no conclusion: "diagonal" and "linear" are not claimed then.
    ``notes`` says why J could not be compared with another one.
    """
    missing = [Verdict.INCONCLUSIVE] * len(unmeasured)
    diagonal = [layer.non_diagonal for layer in conclusions]
    linear = [layer.non_linear for layer in conclusions]
    masses = [(layer.off_diagonal_mass, layer.off_diagonal_error) for layer in conclusions]
    changes = [
        max(
            (layer.nonlinearity, layer.nonlinearity_error),
            (layer.secant_defect, layer.secant_error),
            key=lambda measured: measured[0] if np.isfinite(measured[0]) else -1.0,
        )
        for layer in conclusions
    ]
    why = f"; nothing measured at {len(unmeasured)}: {_most_frequent(unmeasured)}" if unmeasured else ""
    afar = [layer for layer in conclusions if layer.other_defect > ERROR_MARGIN * layer.other_error]
    if afar:
        largest = max(layer.other_defect for layer in afar)
        why += f"; beside {len(afar)} an entry of h' changes by {largest:.2g} of itself as others move afar"
    unvisited = sum(layer.unvisited for layer in conclusions)
    why += f"; shown at {unvisited} of them by a state that was not visited" if unvisited else ""
    contradicted = sum(layer.contradicted for layer in conclusions)
    why += f"; finite differences contradict J at {contradicted}" if contradicted else ""
    broken = sum(np.isposinf(layer.secant_defect) for layer in conclusions)
    why += f"; an image is not a finite number beside {broken}" if broken else ""
    if notes and any(np.isnan(layer.nonlinearity) for layer in conclusions):
        why += f"; nothing to compare with at {len(notes)}: {_most_frequent(notes)}"
    return LayerKind(
        conclusions[0].names,
        anywhere(diagonal + missing),
        anywhere(linear + missing),
        f"{_clause('off-diagonal mass', diagonal, masses)}; "
        f"{_clause('change of J with the state', linear, changes)}{why}",
    )


def overall_kind(layers: Sequence[LayerKind]) -> LayerKind:
    """Return the kind of a stack, within its layers: non-diagonal or non-linear if one of them is."""
    if len(layers) == 1:
        return layers[0]
    return LayerKind(
        tuple(name for layer in layers for name in layer.names),
        anywhere([layer.non_diagonal for layer in layers]),
        anywhere([layer.non_linear for layer in layers]),
        "; ".join(
            f"{' + '.join(layer.names)} is {layer.kind}"
            + (f" ({layer.reason})" if layer.kind is TransitionKind.UNDETERMINED else "")
            for layer in layers
        )
        or "no Jacobian was measured at any state",
    )


def _clause(name: str, verdicts: Sequence[Verdict], measured: Sequence[tuple[float, float]]) -> str:
    """Return at how many states a quantity is positive, zero or undecided, with the largest one."""
    total = len(verdicts)
    known = [pair for pair in measured if np.isfinite(pair[0])]
    if not known:
        return f"{name} not measured"
    value, error = max(known)
    size = f"at most {at_most(value, 2)} of ‖J‖ with an error of {error:.1g}"
    found = verdicts.count(Verdict.HOLDS)
    if found:
        return f"{name} at {found} of {total} states, {size}"
    undecided = verdicts.count(Verdict.INCONCLUSIVE)
    if undecided:
        return f"{name} undecided at {undecided} of {total} states, {size}"
    return f"no {name} at any of {total} states, {size}"


def _most_frequent(reasons: Sequence[str]) -> str:
    return Counter(reasons).most_common(1)[0][0]
