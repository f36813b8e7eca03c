"""The belief about hidden swaps: models made from the exact filter, errors in the state, worst sequences."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.belief import worst_rounds
from analysis.belief.exact import exact_sequences
from analysis.error_control.following import COMMON_TOKENS
from automata.errors import InputError
from automata.tasks.partially_observed import PartiallyObserved
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, load_run
from paper_figures.measurements import beliefs
from tests.analysis.belief.models import ExactFilter, LinearFilter, Uniform, observed_task, run_of
from tests.paper_figures.measurements.hand_made import untrained_run
from tests.refusals import refusals

TASK = "likely-swaps-3-reveals"
FEW = beliefs.HiddenSettings(
    sequences=8,
    multiples=(1, 2),
    probe_sequences=32,
    probe_validation=8,
    window=8,
    reveal_probabilities=(0.1, 0.5),
)
SMALL = beliefs.ErrorSettings(pairs=6, length=24, follow=(2, 32))


def run_by_hand(kind: type[ExactFilter]) -> Run:
    task = observed_task(TASK)
    return run_of(kind(task), task)


def test_the_exact_filter_has_no_divergence_at_any_length_and_frequency() -> None:
    exact = beliefs.belief(run_by_hand(ExactFilter), FEW)
    assert list(exact["by_length"]) == ["16", "32"]
    assert list(exact["by_reveal_probability"]) == ["0.1", "0.5"]
    # two orders of the same float64 sums
    assert all(abs(found["kl"]["mean"]) < 1e-9 for found in exact["by_length"].values())
    assert all(abs(found["mean"]) < 1e-9 for found in exact["by_reveal_probability"].values())
    assert all(found["distance"]["mean"] < 1e-6 for found in exact["belief"].values())  # a ridge of 1e-12
    assert all(found["constant"]["mean"] > 0.2 for found in exact["belief"].values())
    assert not exact["linear"]


def test_the_linear_filter_loses_the_mass_that_is_said_and_the_exact_one_does_not() -> None:
    settings = FEW.model_copy(update={"multiples": (1, 8), "probe": False})
    linear, divided = (beliefs.belief(run_by_hand(kind), settings) for kind in (LinearFilter, ExactFilter))
    assert linear["linear"]
    assert linear["belief"] == {}
    rate = linear["norms"][0]["rate_per_token"]["per_token"]
    # the same falling logarithm, fitted to the second half and taken as a mean, on 8 sequences of 128 tokens
    assert rate == pytest.approx(linear["exact_rate"]["per_token"], rel=0.25)
    assert rate < -0.05
    assert abs(divided["norms"][0]["rate_per_token"]["per_token"]) < 0.02


def test_more_frequent_reveals_are_other_sequences_of_the_same_automaton() -> None:
    # a belief that is never updated by reveals would be worse where they are frequent
    found = beliefs.belief(run_by_hand(Uniform), FEW)["by_reveal_probability"]
    for probability in (0.1, 0.5):
        task = observed_task(TASK)
        other = PartiallyObserved(task.automaton, "reveals", probability)
        answers = exact_sequences(other, 8, 16, 0, []).answers
        gap = math.log(3) + (answers * np.log(np.maximum(answers, 1e-300))).sum(axis=-1).mean()
        assert found[str(probability)]["mean"] == pytest.approx(gap, abs=1e-9)


def test_the_constructed_filters_are_exact_until_the_mass_is_gone() -> None:
    task = observed_task(TASK)
    found = beliefs.filter_divergences(task, exact_sequences(task, 4, 1600, seed=3, kept=[]))
    # of float64 logarithms of probabilities down to 1e-4
    assert max(abs(place["mean"]) for place in found["implicit"]) < 1e-12
    early = [place["mean"] for place in found["linear float32"] if place["to"] < 400]
    assert max(map(abs, early)) < 1e-10  # the square of float32's rounding, added up
    lost = found["linear float32"][-1]["mean"]
    assert not math.isfinite(lost) or lost > 0.1
    # bfloat16 has the range of float32 and 8 bits: farther off, and lost no later
    rough = [place["mean"] for place in found["linear bfloat16"] if place["to"] < 400]
    assert max(rough) > max(early)


def test_what_is_measured_is_what_the_searches_find() -> None:
    run = load_run("lazy-swaps-gated-deltanet")
    settings = beliefs.AdversarySettings(rounds=2, beam=2, sequences=8, likely=0.3)
    found = beliefs.worst_found(run, settings)
    worst = worst_rounds(run, 2, 3, beam=2, sequences=8)
    likely = worst_rounds(run, 2, 3, beam=2, sequences=8, least_probability=0.3)
    assert (found["random"], found["any"], found["likely"]) == (worst.random_mean, worst.mean, likely.mean)
    assert found["by_round"]["any"] == worst.errors.tolist()


def test_pairs_end_alike_can_occur_and_leave_different_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    task = observed_task(TASK)
    pairs = beliefs.pairs_of(task, SMALL)
    assert pairs.first.shape == pairs.second.shape == (6, 24)
    assert pairs.after.shape == (6, 32)
    assert (pairs.first[:, -COMMON_TOKENS:] == pairs.second[:, -COMMON_TOKENS:]).all()
    for one, other in zip(pairs.first, pairs.second, strict=True):
        here, there = (task.beliefs(word[None])[0, -1] for word in (one, other))
        assert np.abs(here - there).sum() > 0
    monkeypatch.setattr(beliefs, "total_variation", lambda one, other: np.zeros(1))
    with pytest.raises(InputError, match="pairs is 6, and 0 were found; give fewer"):
        beliefs.pairs_of(task, SMALL)


def test_errors_of_every_size_keep_their_share_in_an_affine_layer_only() -> None:
    """One layer of DeltaNet is affine in its memory where the windows agree; an LSTM is not."""

    def left(model: str, size: float) -> list[float]:
        run = untrained_run(recipe(TASK, model, layers=1, d_model=8))
        found = beliefs.belief_errors(run, SMALL.model_copy(update={"size": size}))["left"]
        return [quarter for quarters in found.values() for quarter in quarters]

    # rounding of float64 over an error of 0.001 of the way
    assert left("deltanet", 0.5) == pytest.approx(left("deltanet", 0.001), rel=1e-9)
    assert left("lstm", 1.0) != pytest.approx(left("lstm", 0.001), rel=1e-4)


def test_what_is_left_in_the_exact_filter_is_the_distance_of_its_beliefs() -> None:
    task = observed_task(TASK)
    pairs = beliefs.pairs_of(task, SMALL)

    def apart(after: int) -> NDArray[np.float64]:
        words = (np.hstack([part, pairs.after[:, :after]]) for part in (pairs.first, pairs.second))
        here, there = (task.beliefs(word)[:, -1] for word in words)
        distance: NDArray[np.float64] = np.abs(here - there).sum(axis=-1)
        return distance

    found = beliefs.belief_errors(untrained_run(recipe(TASK, "lstm", d_model=4)), SMALL)["exact"]
    assert found[32] == [0.0, 0.0, 0.0]  # it forgets what came before two reveals
    assert found[2] == pytest.approx(np.quantile(apart(2) / apart(0), (0.25, 0.5, 0.75)), abs=1e-12)


PARITY = untrained_run(recipe("parity", "lstm"))
test_a_run_on_another_task_is_refused = refusals(
    (lambda: beliefs.belief_errors(PARITY, SMALL), "give a run on a probabilistic automaton")
)
