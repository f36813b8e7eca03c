"""The search against a model: against all rounds one by one, the exact filter, and errors read otherwise."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from analysis.belief import worst_rounds
from analysis.belief.prediction import divergence
from automata.errors import InputError
from automata.tasks.partially_observed import PartiallyObserved
from implicit.runs.loading import Run, load_run
from tests.analysis.belief.models import ExactFilter, observed_task, run_of
from tests.refusals import refusals

ROUNDING = 1e-9  # of float64 logarithms of probabilities down to 1e-12


@pytest.fixture(scope="module")
def stored() -> Run:
    return load_run("lazy-swaps-gated-deltanet")


def errors_of(run: Run, tokens: list[int]) -> np.ndarray:
    """The divergences at the reveals of a sequence, by the whole-sequence forms of model and filter."""
    assert isinstance(run.task, PartiallyObserved)
    given = np.array([tokens])
    exact = run.task.probabilities(given)[0]
    with torch.no_grad():
        logits = run.model(torch.from_numpy(given))[0]
    asked = run.task.questions(given)[0] >= 0
    return np.asarray(divergence(exact, logits.double().log_softmax(-1).numpy())[asked])


def test_the_errors_are_those_of_the_sequence_that_is_told(stored: Run) -> None:
    found = worst_rounds(stored, rounds=4, actions=2, beam=3, sequences=2)
    # float32 logits of one model, token by token and at once
    np.testing.assert_allclose(found.errors, errors_of(stored, found.tokens.tolist()), atol=1e-4)


def test_with_room_for_all_candidates_it_is_the_worst_of_all(stored: Run) -> None:
    assert isinstance(stored.task, PartiallyObserved)
    actions, reveals = (
        len(names) for names in (stored.task.automaton.actions, stored.task.automaton.reveals)
    )
    exact = stored.task
    worst = 0.0
    for action, reveal in product(range(actions), range(actions, actions + reveals)):
        beginning = [action, reveal]
        shown = [*range(actions + reveals, exact.vocabulary_size)]
        for value in shown:
            for second, last in product(range(actions), range(actions, actions + reveals)):
                for end in shown:
                    try:
                        errors = errors_of(stored, [*beginning, value, second, last, end])
                    except InputError:
                        continue  # such a value cannot occur
                    worst = max(worst, float(errors.mean()))
                    break
    found = worst_rounds(stored, rounds=2, actions=1, beam=10_000, sequences=2)
    assert found.mean == pytest.approx(worst, abs=1e-4)


def test_nothing_is_found_against_the_exact_filter() -> None:
    task = observed_task()
    found = worst_rounds(run_of(ExactFilter(task), task), rounds=5, sequences=16)
    assert found.errors.max() < ROUNDING
    assert found.random.max() < ROUNDING


def test_a_wider_beam_finds_no_better_sequence_in_one_round_and_likely_values_no_worse_one(
    stored: Run,
) -> None:
    one, all_of_them = (worst_rounds(stored, rounds=1, beam=beam, sequences=2).mean for beam in (1, 10_000))
    assert one == pytest.approx(all_of_them)
    likely = worst_rounds(stored, rounds=3, beam=4, sequences=2, least_probability=0.2)
    assert isinstance(stored.task, PartiallyObserved)
    evidence = np.exp(stored.task.log_evidence([likely.tokens.tolist()]))[0]
    exact = stored.task.probabilities([likely.tokens.tolist()])[0]
    asked = exact.any(axis=1)
    assert (evidence[1:][asked[:-1]] >= np.minimum(0.2, exact[:-1][asked[:-1]].max(axis=1)) - 1e-12).all()


STORED = "lazy-swaps-gated-deltanet"


def refused(
    sentence: str, run: Callable[[], Any] = lambda: load_run(STORED), **chosen: Any
) -> tuple[Callable[[], object], str]:
    return lambda: worst_rounds(run(), **chosen), sentence


def run_asked_states() -> Run:
    task = PartiallyObserved(observed_task().automaton, "states")
    return replace(load_run(STORED), task=task)


test_bad_input_is_refused = refusals(
    refused("rounds is 0", rounds=0),
    refused("beam is 0", beam=0),
    refused(r"least_probability is 0.0; give a number in \(0, 1\]", least_probability=0.0),
    refused("least_probability is 1.5", least_probability=1.5),
    refused("least_probability is nan", least_probability=float("nan")),
    refused("least_probability is 'x'; give a number", least_probability="x"),
    refused("seed is -1; give at least 0", seed=-1),
    refused("a search over at least 823564528378596 candidates .* fewer actions", rounds=1, actions=30),
    refused("GiB of memory", actions=10**9),
    refused("1000000000000 random sequences of 60 tokens needs at least", sequences=10**12),
    refused("probabilistic automaton", lambda: load_run("parity")),
    refused("run is 'lazy-swaps-gated-deltanet'; give a loaded one", lambda: STORED),
    refused("asks its states; give a run whose task asks its reveals", run_asked_states),
)
