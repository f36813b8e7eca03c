"""Statements proved in ball arithmetic: at points, over boxes, and for words of every length.

Numbers with a bound of their error stand in :mod:`theory.rigorous.balls`, what lets code for PyTorch run on
them in :mod:`theory.rigorous.tensors`, sets of states that a closed loop cannot leave in
:mod:`theory.rigorous.covers`.
"""

from theory.rigorous.enclosure import (
    EnclosedTransitions as EnclosedTransitions,
    EnclosedUpdate as EnclosedUpdate,
    Enclosures as Enclosures,
    enclose as enclose,
    independent_of_state as independent_of_state,
    newton_step_bound as newton_step_bound,
)
