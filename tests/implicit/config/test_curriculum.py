"""The curriculum as a table of steps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from automata.errors import InputError
from implicit.config.curriculum import Curriculum
from implicit.fixed_point import Stopping
from implicit.gradients import Phantom, Unrolled
from implicit.modes import Windowed
from implicit.penalties.contraction import Contraction


def test_bounded_then_free() -> None:
    curriculum = Curriculum(
        bounded_steps=10,
        bounded_iterations=3,
        free_max_iterations=20,
        free_rtol=0.1,
        phantom_steps=2,
        phantom_damping=0.5,
    )
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


@given(
    start=st.integers(1, 20),
    growth=st.integers(1, 9),
    every=st.integers(1, 50),
    step=st.integers(1, 1000),
    length=st.integers(20, 40),
)
def test_length_never_shrinks_and_never_passes_the_training_length(
    start: int, growth: int, every: int, step: int, length: int
) -> None:
    curriculum = Curriculum(start_length=start, length_growth=growth, length_growth_every=every)
    now, following = (curriculum.phase(step + k, length).length for k in (0, 1))
    assert start <= now <= following <= min(length, now + growth)


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


@pytest.mark.parametrize(
    ("field", "allowed", "refused"),
    [
        ("phantom_damping", (1e-3, 1.0), (0.0, 1.001)),
        ("carried_share", (0.0, 1.0), (-0.001, 1.001)),
        ("random_starts", (0.0, 1.0), (-0.001, 1.001)),
        ("contraction_weight", (0.0, 100.0), (-0.001,)),
        ("contraction_power", (1.0, 4.0), (0.999,)),
        ("image_ball_weight", (0.0, 100.0), (-0.001,)),
        ("forgetting_weight", (0.0, 100.0), (-0.001,)),
        ("free_rtol", (1e-12, 1.0), (0.0, -1.0)),
        ("bounded_steps", (0, 1), (-1,)),
        ("bounded_iterations", (1,), (0,)),
        ("free_max_iterations", (1,), (0,)),
        ("phantom_steps", (1,), (0,)),
        ("carried_after", (0,), (-1,)),
        ("start_length", (1, None), (0,)),
        ("length_growth", (1,), (0,)),
        ("length_growth_every", (1,), (0,)),
    ],
)
def test_every_field_has_its_range(
    field: str, allowed: tuple[float | None, ...], refused: tuple[float, ...]
) -> None:
    for value in allowed:
        assert getattr(Curriculum.model_validate({field: value}), field) == value
    for value in refused:
        with pytest.raises(ValidationError, match=field):
            Curriculum.model_validate({field: value})


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
