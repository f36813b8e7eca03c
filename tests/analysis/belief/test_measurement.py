"""Models made from the exact filter have the divergence, the belief and the norm that they are made with."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike

from analysis.belief import analyse, measure_belief, reading
from analysis.belief.drawing import draw
from analysis.belief.exact import NEVER, exact_sequences
from analysis.belief.measurement import RunBelief
from analysis.framework.output import json_ready
from automata.errors import InputError
from automata.probabilistic import ProbabilisticAutomaton
from automata.tasks.interface import Batch
from automata.tasks.partially_observed import PartiallyObserved
from implicit.runs.loading import load_run
from tests.analysis.belief.models import (
    TASK,
    ExactFilter,
    LinearFilter,
    Turning,
    Uniform,
    observed_task,
    run_of,
)
from tests.small_models import untrained

FEW: dict[str, Any] = {
    "sequences": 8,
    "multiples": (1, 2, 4),
    "probe_sequences": 48,
    "probe_validation": 16,
    "window": 8,
}


@pytest.fixture(scope="module")
def exact() -> RunBelief:
    task = observed_task()
    return measure_belief(run_of(ExactFilter(task), task), **FEW)


def test_the_exact_filter_predicts_the_posterior(exact: RunBelief) -> None:
    assert exact.lengths == (16, 32, 64)
    for length in exact.lengths:
        # two orders of the same float64 sums, 64 steps
        assert abs(exact.kl(length).mean) < 1e-9
        assert abs(exact.predictions.estimate("excess", exact.lengths)[length].mean) < 1e-9
    assert sum(exact.kl(length).places for length in exact.lengths) == len(exact.predictions.kl)
    # the likeliest answer is right as often as it is probable: within 5 deviations of independent places
    right, best = exact.predictions.right, exact.predictions.best
    spread = np.sqrt((best * (1 - best)).sum())
    assert abs(right.sum() - best.sum()) < 5 * spread


def test_the_exact_belief_is_decoded_and_updated(exact: RunBelief) -> None:
    for length in exact.lengths:
        decoded = exact.decoded[length]
        # ridge of relative size 1e-12 in float64
        assert decoded.distance.mean < 1e-6
        assert decoded.inconsistency.mean < 1e-5
        assert decoded.impossible == 0
        assert decoded.constant.mean > 0.2
        assert decoded.divergence.mean < 1e-5  # the smoothing is 1e-6


def test_uniform_predictions_are_log_n_minus_the_entropy_away() -> None:
    task = observed_task()
    found = measure_belief(run_of(Uniform(task), task), **{**FEW, "probe": False})
    expected = np.log(task.output_size) - found.predictions.entropy
    np.testing.assert_allclose(found.predictions.kl, expected, rtol=1e-12)  # float64 sums of 9 terms
    bins = found.predictions.by_position()
    assert sum(entry.places for entry in bins.found) == len(expected)
    assert bins.means[0] == pytest.approx(expected[found.predictions.exact.columns == 0].mean())
    assert found.norms is not None
    assert found.norms.vanished() == (1,)


def test_predictions_can_agree_where_the_state_is_not_the_belief() -> None:
    task = observed_task()
    found = measure_belief(run_of(Turning(task), task), **FEW)
    longest = max(found.lengths)
    assert abs(found.kl(longest).mean) < 1e-9
    # an affine function of ±b whose mean over both signs is the mean belief can do no better than that
    assert found.decoded[longest].distance.mean > 0.9 * found.decoded[longest].constant.mean
    assert found.decoded[longest].inconsistency.mean > 0.1


def test_the_linear_filter_decays_as_the_mass_does() -> None:
    task = observed_task()
    found = measure_belief(run_of(LinearFilter(task), task), sequences=8, lengths=(256,), probe=False)
    assert found.norms is not None
    assert found.norms.linear
    (rate,) = found.norms.rates()
    # log‖b̃‖ is the log mass and a number in [−½ log n, 0]; a line through m points that are off by at most r
    # from one with slope 0 has a slope of at most 1.5 r / m
    bound = 1.5 * 0.5 * np.log(6) / 128
    assert abs(rate.per_token - found.mass.fitted.per_token) < bound < abs(found.mass.mean.per_token) / 10
    assert found.mass.mean.low < found.mass.fitted.per_token < found.mass.mean.high
    told = found.mass.per_reveal.per_token
    # with reveals at one event in four, each followed by its value, a token in five is a revealed value
    assert found.mass.mean.per_token == pytest.approx(told / 5, rel=0.1)
    assert abs(found.kl(256).mean) < 1e-9


def test_float32_underflows_where_the_mass_says() -> None:
    task = observed_task()
    run = run_of(LinearFilter(task, torch.float32), task)
    found = measure_belief(run, sequences=4, lengths=(900,), probe=False)
    assert found.norms is not None
    (gone,) = found.norms.vanished()
    mass = found.predictions.exact.log_evidence.cumsum(axis=1)
    smallest = np.log(2.0**-149)
    # the norm is at least the mass over √6; once the mass is a sixth of the least number, no entry is left
    first = min(int(np.flatnonzero(row < smallest)[0]) for row in mass)
    last = min(int(np.flatnonzero(row < smallest - np.log(6))[0]) for row in mass)
    assert gone is not None
    assert 0.95 * first <= gone <= last + 25
    (rate,) = found.norms.rates()  # the line ends before the norm is 0
    assert rate.per_token == pytest.approx(found.mass.mean.per_token, rel=0.15)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = untrained("gated-deltanet", TASK)
    whole = measure_belief(run, **FEW)
    monkeypatch.setattr(reading, "_NUMBERS_AT_ONCE", 5 * 8 * reading.state_size(run.model))
    assert reading.block_length(run.model, 8, 64) == 5
    cut = measure_belief(run, **{**FEW, "batch_size": 8})
    # float32: the chunks of the parallel form begin elsewhere
    np.testing.assert_allclose(cut.predictions.kl, whole.predictions.kl, rtol=1e-3, atol=1e-6)
    assert cut.norms is not None
    assert whole.norms is not None
    np.testing.assert_allclose(cut.norms.norms, whole.norms.norms, rtol=1e-4)
    for length in whole.lengths:
        assert cut.decoded[length].distance.mean == pytest.approx(
            whole.decoded[length].distance.mean, rel=1e-3
        )


@pytest.mark.parametrize(
    ("model", "linear"),
    [
        *((name, True) for name in ("mamba3", "pd-ssm")),
        *((name, False) for name in ("lstm", "implicit-mamba2")),
    ],
)
def test_models_of_every_kind_are_measured(model: str, linear: bool) -> None:
    run = untrained(model, "noisy-parity-reveals")
    found = measure_belief(run, **FEW)
    assert found.norms is not None
    assert found.norms.linear == linear
    assert found.left_out == ""
    assert set(found.decoded) == {16, 32, 64}
    assert 0 < found.kl(64).mean < 3
    numbers = json_ready(found.numbers())
    assert numbers["norms"]["linear_in_state"] == linear
    assert (numbers["share_unconverged"] is None) == (model != "implicit-mamba2")
    assert numbers["probe"]["by_length"]["64"]["distance"]["sequences"] == 8


def test_the_norm_is_that_of_the_states_of_the_model() -> None:
    run = untrained("gated-deltanet", TASK, seed=1)
    found = measure_belief(run, **{**FEW, "probe": False})
    assert found.norms is not None
    tokens = torch.from_numpy(found.predictions.exact.tokens)
    states = run.model.states(tokens)["memory.0"][:, 1:].double()
    expected = states.flatten(2).norm(dim=-1).numpy()
    np.testing.assert_allclose(found.norms.norms[0], expected, rtol=1e-4)  # float32 in other chunks


def test_a_state_that_grows_is_left_out_and_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [untrained("transformer", TASK), untrained("lstm", TASK, seed=1), untrained("lstm", TASK, seed=2)]
    found = analyse(runs, **FEW)
    grown = found.runs[0]
    assert grown.norms is None
    assert grown.decoded == {}
    assert "grows with every token" in grown.left_out
    assert "no belief was decoded: the state grows" in found.findings["transformer-0"].sentence
    numbers = json_ready(found.numbers())
    assert "grows" in numbers["transformer-0"]["probe"]["left_out"]
    assert numbers["transformer-0"]["norms"] is None
    # the runs read the same sequences
    tokens = [result.predictions.exact.tokens for result in found.runs]
    assert all((one == other).all() for one, other in pairwise(tokens))
    assert len(draw(found).axes) == 6


def test_the_seed_decides_the_sequences() -> None:
    run = load_run("lazy-swaps-gated-deltanet")
    chosen: dict[str, Any] = {"sequences": 4, "multiples": (1,), "probe": False}
    one, again, other = (measure_belief(run, **chosen, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.predictions.kl, again.predictions.kl)
    assert one.predictions.exact.tokens.shape == other.predictions.exact.tokens.shape
    assert (one.predictions.exact.tokens != other.predictions.exact.tokens).any()


def test_sequences_in_which_nothing_is_asked_are_refused() -> None:
    run = load_run("lazy-swaps-gated-deltanet")
    with pytest.raises(InputError, match=r"length is 1: task 'lazy-swaps-3-reveals' asks nothing in 2 such"):
        measure_belief(run, lengths=(1,), sequences=2, probe=False, seed=2)


def test_runs_of_several_tasks_are_measured_together() -> None:
    runs = [untrained("lstm", "noisy-parity-states", length=8), untrained("transformer", TASK)]
    found = analyse(runs, sequences=4, probe_sequences=8, probe_validation=4, window=4, multiples=(1, 2))
    assert [run.lengths for run in found.runs] == [(8, 16), (16, 32)]
    # a state is asked after every token: as many places as tokens
    assert [found.runs[0].kl(length).places for length in (8, 16)] == [32, 32]


def test_tokens_and_reveals_are_counted_from_the_last_full_reveal() -> None:
    task = observed_task()
    found = exact_sequences(task, 6, 60, seed=0, kept=[])
    counted = {}
    for row, tokens in enumerate(found.tokens.tolist()):
        since, shown = 0, 0
        for position, token in enumerate(tokens):
            name = task.token_names[token]
            since += 1
            counted[row, position] = since, shown
            if name.startswith("="):
                full = task.token_names[tokens[position - 1]] == "all"
                since, shown = (0, 0) if full else (since, shown + 1)
    places = list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
    assert len(places) > 40
    assert list(zip(found.tokens_since.tolist(), found.reveals_since.tolist(), strict=True)) == [
        counted[place] for place in places
    ]


def test_nothing_is_counted_from_an_unknown_beginning() -> None:
    automaton = ProbabilisticAutomaton(
        ["p", "q"], [0.5, 0.5], {"turn": [[0.1, 0.9], [0.9, 0.1]]}, {"look": ["p", "q"]}
    )
    found = exact_sequences(PartiallyObserved(automaton, "reveals", 0.3), 20, 30, seed=0, kept=[])
    for row in range(20):
        own = found.rows == row
        first = found.columns[own].min()
        assert (found.tokens_since[own] == NEVER).tolist() == (found.columns[own] == first).tolist()
        assert found.tokens_since[own & (found.columns > first)].min() >= 1
        assert set(found.reveals_since[own & (found.columns > first)]) == {0}


def test_beliefs_answers_and_evidence_are_those_of_the_task() -> None:
    task = observed_task()
    found = exact_sequences(task, 5, 40, seed=1, kept=[39, 3, 3, 20])
    np.testing.assert_array_equal(found.kept, [3, 20, 39])
    np.testing.assert_array_equal(found.beliefs, task.beliefs(found.tokens)[:, [3, 20, 39]])
    np.testing.assert_array_equal(found.answers, task.probabilities(found.tokens)[found.rows, found.columns])
    np.testing.assert_array_equal(found.log_evidence, task.log_evidence(found.tokens))


class Padded(PartiallyObserved):
    """The same sequences, cut to 20 to 40 tokens; what follows is padding that no trace could hold."""

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        whole = super().batch(batch_size, length, rng, start)
        lengths = 20 + np.arange(batch_size) % 21
        real = np.arange(length) < lengths[:, None]
        padding = self.vocabulary_size - 1
        return Batch(
            np.where(real, whole.tokens, padding),
            np.where(real, whole.targets, 0),
            np.where(real, whole.weights, 0).astype(np.float32),
            lengths,
        )


def test_padding_is_no_part_of_a_sequence() -> None:
    plain = observed_task()
    padded = Padded(plain.automaton)
    cut, whole = (exact_sequences(task, 6, 40, seed=2, kept=[10, 30]) for task in (padded, plain))
    real = np.arange(40) < cut.lengths[:, None]
    assert cut.lengths.tolist() == [20, 21, 22, 23, 24, 25]
    np.testing.assert_array_equal(cut.log_evidence[real], whole.log_evidence[real])
    assert np.isnan(cut.log_evidence[~real]).all()
    np.testing.assert_array_equal(cut.beliefs[:, 0], whole.beliefs[:, 0])
    assert np.isnan(cut.beliefs[:, 1]).all()
    inside = real[whole.rows, whole.columns]
    order = np.lexsort((cut.columns, cut.rows))
    same_order = np.lexsort((whole.columns[inside], whole.rows[inside]))
    for name in ("rows", "columns", "tokens_since", "reveals_since", "targets", "answers"):
        expected = getattr(whole, name)[inside][same_order]
        np.testing.assert_array_equal(getattr(cut, name)[order], expected, err_msg=name)


@pytest.mark.parametrize(("first", "after"), [(0, 40), (7, 19)])
def test_places_of_a_block(first: int, after: int) -> None:
    found = exact_sequences(observed_task(), 6, 40, seed=0, kept=[])
    places = found.places_in(slice(2, 4), first, after)
    assert set(found.rows[places]) <= {2, 3}
    others = np.setdiff1d(np.arange(len(found.rows)), places)
    inside = (found.rows >= 2) & (found.rows < 4) & (found.columns >= first) & (found.columns < after)
    assert not inside[others].any()
    assert inside[places].all()
