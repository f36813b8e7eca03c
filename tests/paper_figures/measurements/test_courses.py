"""Measurements along a training: it is repeated, and its end is that of the stored run."""

from typing import Any

import pytest
import torch

from analysis.agreement import analyse as compare_modes
from analysis.convergence import analyse as follow_both
from analysis.jacobian import analyse
from automata.errors import InputError
from implicit import recipe
from implicit.runs.loading import Run, initial_model
from implicit.train import train
from paper_figures.measurements.courses import (
    AgreementCourse,
    JacobianCourse,
    agreement_course,
    jacobian_course,
)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = recipe(
        "parity", "implicit-mamba2", steps=4, warmup_steps=1, batch_size=4, d_model=4, head_size=4, d_state=2
    )
    return train(config, tmp_path_factory.mktemp("short") / "run", progress=False)


SMALL = JacobianCourse(steps=(0, 2, 9), states=2, sequences=1, length=4)


def test_training_is_repeated_and_the_end_is_that_of_the_run(short: Run) -> None:
    course = jacobian_course(short, SMALL)["course"]
    assert [seen["step"] for seen in course] == [0, 2, 4]
    expected = analyse(short, states=2, sequences=1, length=4).theorem1()
    last = course[-1]
    assert last["counts"] == expected["counts"]
    assert last["spectral_radius"] == expected["spectral_radius"]["median"]
    assert course[0]["spectral_radius"] != last["spectral_radius"]


def test_other_weights_than_those_of_the_run_are_refused(short: Run) -> None:
    changed = Run(short.path, short.config, initial_model(short.config, short.task), short.task, [])
    with torch.no_grad():
        changed.model.get_parameter("head.weight").mul_(2)
    with pytest.raises(InputError, match="ended in other weights than those stored"):
        jacobian_course(changed, SMALL)


def test_the_end_is_what_the_analyses_say_of_the_run(short: Run) -> None:
    settings = AgreementCourse(steps=(0, 1, 9), sequences=2, length=6, max_iterations=60)
    found = agreement_course(short, settings)
    assert [at["step"] for at in found["course"]] == [0, 1, 4]
    assert [at["step"] for at in found["training"]] == [line["step"] for line in short.metrics]
    how: dict[str, Any] = {"sequences": 2, "length": 6, "rtol": 1e-4, "max_iterations": 60}
    compared, followed = compare_modes(short, **how, examples=0), follow_both(short, **how).modes
    last = found["course"][-1]
    assert {name: last[name] for name in compared.shares} == compared.shares
    assert last["iterations"]["sequential"] == followed["sequential"].iterations.mean()
    assert last["iterations"]["simultaneous"] == followed["simultaneous"].iterations.max(axis=1).mean()
    assert last["share_converged"]["simultaneous"] == followed["simultaneous"].share_converged
