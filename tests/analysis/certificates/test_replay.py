"""States computed again from words, against the model's own in float64."""

from typing import Any

import pytest
import torch

from analysis.certificates.certificate import RefusedError, Visit
from analysis.certificates.claims.theorem1 import check_states
from analysis.certificates.replay import Replay, check_state
from analysis.certify import certify
from analysis.check_certificate import check_certificate, visited_pairs
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import ONE_PROCESS, weights_of
from tests.small_models import untrained, with_flat_self_map

SMALL = {"d_model": 4, "d_state": 2, "head_size": 4}
DELTA = {"d_model": 4, "heads": 2, "key_size": 2, "value_size": 3}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "one layer": ("implicit-mamba2", SMALL),
    "two layers": ("implicit-mamba2", {**SMALL, "layers": 2, "groups": 2}),
    "without residual and window": ("implicit-mamba2", {**SMALL, "residual": False, "d_conv": 1}),
    "damping": ("implicit-mamba2", {**SMALL, "damping": 0.5}),
    "explicit": ("mamba2", {**SMALL, "layers": 2}),
    "deltanet": ("implicit-deltanet", {**DELTA, "layers": 2, "d_conv": 3}),
    "reflections": ("implicit-deltanet", {**DELTA, "d_conv": 1, "negative_eigenvalues": True}),
}
WORDS = [(0, 1, 1, 0, 1), (0, 1), (1, 1, 1), (1,), (), (0, 1, 1, 0, 1)]
"""One is the beginning of another, one stands twice, one is empty."""


def of(model: Any, config: Any) -> Replay:
    return Replay(weights_of(model), config.as_json()["sizes"], config.model)


@pytest.mark.parametrize("name", MODELS)
def test_states_are_those_of_the_model(name: str) -> None:
    kind, sizes = MODELS[name]
    run = untrained(kind, seed=1, **sizes)
    model, config = with_flat_self_map(run.model, 0.3), run.config  # so that nearly all iterations settle
    precise = in_double_precision(model)
    # what does not settle then never does
    solve = Solve("sequential", stopping=Stopping(rtol=1e-13, max_iterations=300))
    found = of(model, config).states(WORDS)
    assert sum(state is not None for state in found) >= 4
    for word, state in zip(WORDS, found, strict=True):
        expected, converged = precise.init_state(1), True
        if word:
            with torch.no_grad():
                output = precise.run(torch.tensor([word]), solve=solve)
            expected = output.state
            converged = output.solution is None or output.solution.share_converged == 1
        assert (state is not None) == converged
        if state is None:
            continue
        assert set(state) == set(expected)
        for part, entries in expected.items():
            # residuals of 1e-13 and 1e-12, and a few tokens
            torch.testing.assert_close(
                torch.from_numpy(state[part]).flatten(), entries[0].flatten(), rtol=1e-9, atol=1e-10
            )


def test_all_words_of_a_stored_run_lead_where_it_goes() -> None:
    run = load_run("parity-deltanet")
    batch = sample_batch(run.task, 2, 12, seed=5)
    visited = visited_states(in_double_precision(run.model), batch.tokens, 8)
    words = [tuple(batch.tokens[visit.sequence, : visit.position].tolist()) for visit in visited]
    for visit, state in zip(visited, of(run.model, run.config).states(words), strict=True):
        assert state is not None
        assert visit.reached
        check_state({name: part.numpy().ravel() for name, part in visit.state.items()}, state, "state")


def test_nothing_may_be_claimed_behind_a_token_that_does_not_settle(restless: Run) -> None:
    certificate = certify(restless, states=6, sequences=4, length=8)
    claim = certificate.only
    visits = visited_pairs(restless.task, claim.settings)
    replay = of(restless.model, restless.config)
    found = replay.states([visit.word for visit in visits])
    lost = [number for number, state in enumerate(found) if state is None]
    assert lost
    assert not any(claim.pairs[number].claims for number in lost)
    check_states(claim, visits, replay)
    here = lost[0]
    claiming = claim.pairs[here].model_copy(update={"working_distance": 1.0, "point": "a claim"})
    pairs = [*claim.pairs[:here], claiming, *claim.pairs[here + 1 :]]
    with pytest.raises(
        RefusedError, match=rf"pairs\[{here}\]\.state: is of a word with a token that does not"
    ):
        check_states(claim.model_copy(update={"pairs": pairs}), visits, replay)
    if claim.summary["existence"]:
        check_certificate(certificate, restless, ONE_PROCESS)


def test_places_know_their_words() -> None:
    task = load_run("parity").task
    settings = {"sequences": 3, "length": 6, "seed": 4, "states": 8}
    tokens = sample_batch(task, 3, 6, 4).tokens
    visits = visited_pairs(task, settings)
    assert all(isinstance(visit, Visit) for visit in visits)
    for visit in visits:
        row = tokens[visit.sequence].tolist()
        assert (visit.word, visit.token) == (tuple(row[: visit.position]), row[visit.position])
