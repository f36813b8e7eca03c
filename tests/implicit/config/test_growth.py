"""Curricula whose sequences grow with the accuracy, step by step."""

from itertools import pairwise

import pytest

from automata.errors import InputError
from implicit.config.curriculum import Curriculum, Growth
from implicit.config.run import TrainConfig
from implicit.gradients import FactoredImplicit, Phantom

GROWING = Curriculum(
    bounded_steps=0,
    bounded_length=8,
    start_length=4,
    length_growth=5,
    growth_accuracy=0.9,
    final_steps=30,
    contraction_weight=0.25,
)


def course(accuracies: dict[int, float], length: int = 12, steps: int = 500) -> list[tuple[int, int, Growth]]:
    """(step, length of its sequences, growth after it) of a run that is this accurate at each length."""
    growth, steps_taken = Growth(), []
    for step in range(1, steps + 1):
        now = GROWING.phase(step, length, growth).length
        growth = GROWING.grown(growth, step, accuracies[now], length, steps)
        steps_taken.append((step, now, growth))
        if growth.final_from is not None and step == growth.final_from - 1 + GROWING.final_steps:
            break
    return steps_taken


def test_every_length_takes_the_steps_of_its_running_mean() -> None:
    """1 − 0.9ⁿ passes 0.9 at n = 22, and 0.95 (1 − 0.9ⁿ) at n = 28; the final phase has 30 steps."""
    steps = course({4: 1.0, 9: 0.95, 12: 1.0})
    lengths = [length for _, length, _ in steps]
    assert lengths == [4] * 22 + [9] * 28 + [12] * (22 + 30)
    assert {growth.final_from for _, _, growth in steps} == {None, 22 + 28 + 22 + 1}


def test_who_never_passes_stays_at_its_length_and_still_gets_its_final_phase() -> None:
    steps = course({4: 1.0, 9: 0.89})
    assert [length for _, length, _ in steps] == [4] * 22 + [9] * 478
    assert steps[-1][2].final_from == 471
    assert steps[469 - 1][2].final_from is None


def test_sequences_still_grow_in_a_final_phase_that_came_for_want_of_steps() -> None:
    steps = course({4: 1.0, 9: 1.0, 12: 1.0}, steps=60)
    assert [length for _, length, _ in steps] == [4] * 22 + [9] * 22 + [12] * 16
    assert steps[-1][2].final_from == 31


def test_who_grows_where_the_final_phase_has_to_begin_still_ends_with_the_steps() -> None:
    """Length 4 is passed at step 22, and 52 steps leave 30 for the final phase just then."""
    steps = course({4: 1.0, 9: 0.0}, steps=52)
    assert steps[22 - 1][2] == Growth(length=9, final_from=23)
    assert (steps[-1][0], len(steps)) == (52, 52)


def test_bounded_up_to_its_length_at_any_step() -> None:
    for length, name, penalties in ((4, "bounded", []), (8, "bounded", []), (9, "free", ["contraction"])):
        phase = GROWING.phase(400, 12, Growth(length=length))
        assert (phase.name, phase.length, list(phase.penalties)) == (name, length, penalties)


def test_sequences_go_on_in_the_final_phase_only() -> None:
    curriculum = GROWING.model_copy(
        update={"carried_share": 0.5, "forgetting_weight": 0.25, "carried_after": 60}
    )
    for step, final_from, share in ((100, None, 0.0), (101, 101, 0.5), (60, 51, 0.0), (61, 51, 0.5)):
        phase = curriculum.phase(step, 12, Growth(length=12, final_from=final_from))
        assert (phase.carried_share, "forgetting" in phase.penalties) == (share, share > 0)


def test_without_a_start_length_only_the_final_phase_waits_for_the_accuracy() -> None:
    curriculum = Curriculum(growth_accuracy=0.5, final_steps=10)
    growth = Growth()
    for step in range(1, 8):
        assert curriculum.phase(step, 12, growth).length == 12
        growth = curriculum.grown(growth, step, 1.0, 12, 500)
    assert growth.final_from == 8  # 1 − 0.9⁷ is the first mean above one half


@pytest.mark.parametrize(("name", "rule"), [("phantom", Phantom(3, 0.5)), ("implicit", FactoredImplicit())])
def test_gradient_of_the_free_phase(name: str, rule: object) -> None:
    curriculum = Curriculum(bounded_steps=0, free_gradient=name, phantom_steps=3, phantom_damping=0.5)
    assert curriculum.phase(1, 12).gradient == rule


def test_learning_rate_falls_in_the_final_phase_only() -> None:
    config = TrainConfig.of(
        task="parity",
        model="lstm",
        steps=500,
        warmup_steps=10,
        learning_rate=1.0,
        growth_accuracy=0.9,
        final_steps=30,
    )
    assert [config.learning_rate_at(step, Growth(length=4)) for step in (5, 10, 300)] == [0.5, 1.0, 1.0]
    growth = Growth(final_from=101)
    rates = [config.learning_rate_at(step, growth) for step in (100, 115, 130)]
    assert rates == pytest.approx([1.0, 0.55, 0.1])
    assert config.last_step(growth) == 130
    assert config.last_step() == config.last_step(Growth(length=12)) == 500


def test_a_warm_up_that_reaches_into_the_final_phase_is_kept() -> None:
    config = TrainConfig.of(
        task="parity",
        model="lstm",
        steps=500,
        warmup_steps=20,
        learning_rate=1.0,
        growth_accuracy=0.1,
        final_steps=30,
    )
    growth = Growth(final_from=3)
    rates = [config.learning_rate_at(step, growth) for step in range(1, 33)]
    assert rates[:20] == pytest.approx([step / 20 for step in range(1, 21)])
    assert all(later < earlier for earlier, later in pairwise(rates[19:]))
    assert rates[-1] == pytest.approx(0.1)


def test_final_steps_have_to_fit() -> None:
    with pytest.raises(InputError, match="final_steps is 501; give at most steps, 500"):
        TrainConfig.of(task="parity", model="lstm", steps=500, growth_accuracy=0.9, final_steps=501)
