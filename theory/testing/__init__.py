"""Assertions for your own test suite: is this model's fixed point what the theory needs?

Each takes a :class:`theory.Transition` with visited states (or, for the two modes of evaluation, a model),
and fails with an ``AssertionError`` that names the condition, its value, its threshold and the worst state.
What says nothing of a model, since it has no fixed point, neither passes nor fails: it raises
:class:`NotApplicableError`.
"""

from theory.testing.assertions import (
    ModesAgreement,
    NotApplicableError,
    Output,
    RunnableModel,
    Solution,
    assert_contractive,
    assert_fixed_point,
    assert_kind,
    assert_modes_agree,
    assert_theorem1,
)

__all__ = [
    "ModesAgreement",
    "NotApplicableError",
    "Output",
    "RunnableModel",
    "Solution",
    "assert_contractive",
    "assert_fixed_point",
    "assert_kind",
    "assert_modes_agree",
    "assert_theorem1",
]
