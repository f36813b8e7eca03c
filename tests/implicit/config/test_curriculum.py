"""The curriculum as a table of steps."""

from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from automata.errors import InputError
from implicit.config.curriculum import Curriculum, Growth
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, Phantom, Unrolled
from implicit.modes import Windowed
from implicit.penalties.contraction import Contraction
from tests.small_models import small_config


def test_bounded_then_free() -> None:
    free = {"free_max_iterations": 20, "free_rtol": 0.1, "phantom_steps": 2, "phantom_damping": 0.5}
    curriculum = Curriculum.model_validate({"bounded_steps": 10, "bounded_iterations": 3, **free})
    for step in (1, 10):
        phase = curriculum.phase(step, length=8)
        assert (phase.name, phase.length, phase.gradient) == ("bounded", 8, Unrolled(3))
        assert phase.stopping == Stopping(rtol=0.1, max_iterations=3)
    for step in (11, 1000):
        phase = curriculum.phase(step, length=8)
        assert (phase.name, phase.length, phase.gradient) == ("free", 8, Phantom(2, 0.5))
        assert phase.stopping == Stopping(rtol=0.1, max_iterations=20 + 2)  # and the phantom steps


def test_length_grows_by_one_token_in_125_steps() -> None:
    curriculum = Curriculum(start_length=4, length_growth=1, length_growth_every=125)
    for step, length in ((1, 4), (125, 4), (126, 5), (250, 5), (251, 6), (2501, 24), (10**6, 24)):
        assert curriculum.phase(step, length=24).length == length


def test_sequences_are_carried_in_the_free_phase_only_and_after_their_step() -> None:
    curriculum = Curriculum(bounded_steps=10, carried_share=0.9, carried_after=20)
    shares = {step: curriculum.phase(step, length=8).carried_share for step in (1, 10, 11, 20, 21, 99)}
    assert shares == {1: 0, 10: 0, 11: 0, 20: 0, 21: 0.9, 99: 0.9}


def test_windows_solve_in_the_free_phase_only_and_only_if_asked_for() -> None:
    windowed = Curriculum(bounded_steps=10, free_mode="windowed")
    assert windowed.phase(10, length=32).mode == "simultaneous"
    assert windowed.phase(11, length=32).mode == Windowed(width=8, sweeps=6, block=None, precision=1)
    assert Curriculum(bounded_steps=10).phase(10, length=32).mode == "simultaneous"
    assert Curriculum(bounded_steps=10).phase(11, length=32).mode == "auto"
    plain = Curriculum(bounded_steps=10, free_mode="simultaneous")
    assert plain.phase(11, length=32).mode == "simultaneous"


@pytest.mark.parametrize("scales", [(0.0, 1.0), (1.0, 0.1), (0.1,)])
def test_scales_are_two_positive_numbers_in_order(scales: tuple[float, ...]) -> None:
    with pytest.raises((ValidationError, InputError), match="contraction_scales"):
        Curriculum.model_validate({"contraction_scales": scales})


def test_what_the_penalty_and_the_loss_are_told_reaches_the_phases() -> None:
    options = {"contraction_weight": 0.1, "contraction_scales": (0.2, 0.9), "contraction_power": 3.0}
    curriculum = Curriculum(bounded_steps=1, loss_until_error=True, **options)
    bounded, free = curriculum.phase(1, length=8), curriculum.phase(2, length=8)
    assert bounded.loss_until_error
    assert free.loss_until_error
    expected = Contraction(weight=0.1, scales=(0.2, 0.9), power=3.0)
    assert (bounded.penalties, free.penalties) == ({}, {"contraction": expected})


GROWING = Curriculum.model_validate(
    {"bounded_steps": 0, "bounded_length": 8, "contraction_weight": 0.25, "final_steps": 30}
    | {"start_length": 4, "length_growth": 5, "growth_accuracy": 0.9}
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
    later = {"carried_share": 0.5, "forgetting_weight": 0.25, "carried_after": 60}
    curriculum = GROWING.model_copy(update=later)
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


COMMON: dict[str, Any] = {"steps": 500, "learning_rate": 1.0, "final_steps": 30}


def test_learning_rate_falls_in_the_final_phase_only() -> None:
    config = small_config(**COMMON, warmup_steps=10, growth_accuracy=0.9)
    assert [config.learning_rate_at(step, Growth(length=4)) for step in (5, 10, 300)] == [0.5, 1.0, 1.0]
    assert config.learning_rate_at(5) == 0.5
    growth = Growth(final_from=101)
    rates = [config.learning_rate_at(step, growth) for step in (100, 115, 130)]
    assert rates == pytest.approx([1.0, 0.55, 0.1])
    assert config.last_step(growth) == 130
    assert config.last_step() == config.last_step(Growth(length=12)) == 500


def test_a_warm_up_that_reaches_into_the_final_phase_is_kept() -> None:
    config = small_config(**COMMON, warmup_steps=20, growth_accuracy=0.1)
    growth = Growth(final_from=3)
    rates = [config.learning_rate_at(step, growth) for step in range(1, 33)]
    assert rates[:20] == pytest.approx([step / 20 for step in range(1, 21)])
    assert all(later < earlier for earlier, later in pairwise(rates[19:]))
    assert rates[-1] == pytest.approx(0.1)


def test_final_steps_have_to_fit() -> None:
    with pytest.raises(InputError, match="final_steps is 501; give at most steps, 500"):
        small_config(steps=500, growth_accuracy=0.9, final_steps=501)
    averaging = small_config(steps=500, growth_accuracy=0.9, final_steps=40, average_steps=99)
    told = [averaging.averaged_steps(step, Growth(final_from=11)) for step in (10, 11, 50)]
    assert (averaging.averaged_steps(490, Growth()), told) == (0, [0, 1, 40])  # of the final phase at most
