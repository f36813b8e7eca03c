"""Assertions for your own test suite: is this model's fixed point what the theory needs?

Each takes a :class:`theory.Transition` with visited states (or, for the two modes of evaluation, a model),
and fails with an ``AssertionError`` that names the condition, its value, its threshold and the worst state.
An assertion that says nothing of a model, since it has no fixed point, neither passes nor fails: it raises
:class:`NotApplicableError`.
"""

from theory.testing.assertions import (
    ModesAgreement as ModesAgreement,
    NotApplicableError as NotApplicableError,
    assert_contractive as assert_contractive,
    assert_fixed_point as assert_fixed_point,
    assert_kind as assert_kind,
    assert_modes_agree as assert_modes_agree,
    assert_theorem1 as assert_theorem1,
)
