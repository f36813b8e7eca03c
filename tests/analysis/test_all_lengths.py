"""Proofs for every length: of a model that is made to forget, and what must not be proved."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from analysis import all_lengths
from automata.errors import InputError
from implicit.fixed_point import Stopping
from implicit.model import ImplicitMamba2
from implicit.run_dir import Run, load_run


@pytest.fixture(scope="module")
def forgetful() -> Run:
    """parity-small without its memory, on a task that asks for none: the first state, for ever."""
    run = load_run("parity-small")
    with torch.no_grad():
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
        run.model.get_parameter("head.weight").mul_(0.05)
        run.model.get_parameter("head.bias").copy_(torch.tensor([3.0, -3.0]))
    task = type(run.task)([[0, 0], [1, 1]], 0, run.task.token_names, run.task.state_names, name="constant")
    return replace(run, task=task)


COARSE = {"distance": 1e-2, "fraction": 0.2}


def test_a_model_that_forgets_is_proved_right_for_every_length(forgetful: Run) -> None:
    found = all_lengths.analyse(forgetful, **COARSE)
    print(found.sentence)
    assert found.proved
    assert found.found is not None
    assert "on all words of every length" in found.sentence
    # states that random words of 60 tokens lead to, in floating point, lie in the sets that targets name
    cover, model = found.found.cover, forgetful.model.double()
    assert isinstance(model, ImplicitMamba2)
    tokens = torch.randint(0, 2, (20, 60), generator=torch.Generator().manual_seed(0))
    state, place = np.zeros((20, 18)), np.zeros(20, dtype=np.int64)
    stopping = Stopping(rtol=1e-13, max_iterations=2000)
    for t in range(60):
        read = tokens[:, t].numpy()
        state, _ = all_lengths.solve_steps(model, state, read, stopping)
        place = cover.targets[place, read]
        away = cover.metrics[place] @ (state - cover.centres[place])[..., None]
        assert (np.linalg.norm(away[..., 0], axis=1) <= cover.radii[place]).all()
    numbers = found.numbers()
    assert numbers["closed"] == numbers["steps"] == 2 * numbers["sets"]
    assert all_lengths.draw(found).axes
    assert all_lengths.tables(found)


def test_a_wrong_answer_is_not_proved_right(forgetful: Run) -> None:
    task = type(forgetful.task)([[0, 1], [1, 0]], 0, ("0", "1"), ("even", "odd"), name="parity")
    found = all_lengths.analyse(replace(forgetful, task=task), **COARSE)
    assert not found.proved
    assert found.found is not None
    assert "steps between" in found.sentence
    assert all_lengths.draw(found).axes


def test_why_nothing_is_proved_is_told() -> None:
    run = load_run("parity-small")
    few = all_lengths.analyse(run, sets=50)
    assert few.fault == "more than 50 states lie farther than 0.0001 from each other"
    fast = all_lengths.analyse(run, distance=0.1, rate=0.1)
    assert fast.fault == "no metrics were found in which every step contracts by 0.1"
    assert not all_lengths.draw(fast).axes
    assert fast.numbers() == {"sentence": fast.sentence, "proved": False, "fault": fast.fault}


def test_models_without_small_states_are_refused(make_run: Any) -> None:
    with pytest.raises(InputError, match="has no fixed points"):
        all_lengths.analyse(make_run("lstm"))
    with pytest.raises(InputError, match="numbers; give a run of at most 200"):
        all_lengths.analyse(load_run("parity"))
    with pytest.raises(InputError, match="rate is 1"):
        all_lengths.analyse(load_run("parity-small"), rate=1.0)
