"""Which colour, marker and dashes mean what: the same in every figure.

A model, a mode, a finding and a measured quantity look the same wherever they are drawn. The colours are
those of Okabe and Ito (2008) and of Paul Tol (2021, "Colour schemes"), which colour-blind readers can tell
apart; where two of one family come near each other for such readers, their markers differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

GREY = "#777777"
"""Lines for reference: chance, training length, tolerance."""
RED = "#C00000"
"""The colour of warnings."""


@dataclass(frozen=True)
class Look:
    """The colour, the marker at measured places and the dashes of something with a meaning."""

    color: str
    marker: str = ""
    dashes: Any = "-"


_MODELS = {
    "implicit-mamba2": ("implicit Mamba-2", Look("#0072B2", "o")),
    "implicit-mamba3": ("implicit Mamba-3", Look("#332288", "o")),
    "implicit-deltanet": ("implicit DeltaNet", Look("#56B4E9", "o")),
    "implicit-gated-deltanet": ("implicit gated DeltaNet", Look("#44AA99", "o")),
    "implicit-gated-deltaproduct": ("implicit gated DeltaProduct", Look("#882255", "o")),
    "implicit-transformer": ("implicit Transformer", Look("#774411", "o")),
    "mamba2": ("explicit Mamba-2", Look("#D55E00", "s")),
    "mamba3": ("explicit Mamba-3", Look("#CC6677", "s")),
    "deltanet": ("explicit DeltaNet", Look("#E69F00", "s")),
    "gated-deltanet": ("explicit gated DeltaNet", Look("#999933", "s")),
    "gated-deltaproduct": ("explicit gated DeltaProduct", Look("#661100", "s")),
    "pd-ssm": ("PD-SSM", Look("#AA4499", "D")),
    "transformer": ("Transformer", Look("#000000", "P", "--")),
    "lstm": ("LSTM", Look("#009E73", "^", "--")),
    "slstm": ("sLSTM", Look("#607D8B", ">", "--")),
    "gru": ("GRU", Look("#CC79A7", "v", "--")),
    "elman": ("Elman", Look("#117733", "<", "--")),
}
MODEL_LOOKS = {name: look for name, (_, look) in _MODELS.items()}
"""Circles are implicit models, squares and diamonds explicit ones; the controls are dashed."""
MODEL_LABELS = {name: label for name, (label, _) in _MODELS.items()}
"""Names of models for readers; a model that is not here is called as it is registered."""

MODE_LOOKS = {
    "simultaneous": Look("#AA3377", "o"),
    "sequential": Look("#228833", "s"),
    "windowed": Look("#4477AA", "^"),
}

FINDING_LOOKS = {
    "holds": Look("#009988", "o"),
    "fails": Look("#CC3311", "X"),
    "inconclusive": Look("#BBBBBB", "d"),
}
"""Also for tokens: right or the same, wrong or different, and not converged."""

QUANTITY_LOOKS = {
    "off-diagonal mass": Look("#0077BB", "o"),
    "nonlinearity": Look("#EE7733", "^"),
    "accuracy": Look("#EE3377", "s"),
    "fidelity": Look("#33BBEE", "o"),
}

_SPARE_COLORS = ("#6699CC", "#994455", "#997700", "#004488", "#666633")
_MORE_DASHES = ((0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
_SPARE_MARKERS = ("*", "X", "h", ">", "p")


def model_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return the look of every model; one that is not registered gets what no registered one has."""
    spare = (Look(*own) for own in cycle(zip(_SPARE_COLORS, _SPARE_MARKERS, strict=True)))
    return {name: MODEL_LOOKS[name] if name in MODEL_LOOKS else next(spare) for name in dict.fromkeys(names)}


def distinct_looks(looks: Iterable[Look]) -> list[Look]:
    """Give every repetition of a look other dashes, so that no two of a few are the same."""
    distinct: list[Look] = []
    seen: dict[Look, int] = {}
    for look in looks:
        number = seen[look] = seen.get(look, -1) + 1
        dashes = look.dashes if number == 0 else _MORE_DASHES[(number - 1) % len(_MORE_DASHES)]
        distinct.append(replace(look, dashes=dashes))
    return distinct


def model_label(name: str) -> str:
    """Return the name of a model for readers."""
    return MODEL_LABELS.get(name, name)
