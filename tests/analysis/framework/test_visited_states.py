"""States at tokens of sequences: where their history leads, spread over tokens, and never at padding."""

from collections import Counter
from typing import Any

import pytest
import torch

from analysis.framework.visited_states import in_double_precision, sample_sequences, visited_states
from automata import make_task
from automata.errors import InputError
from implicit.training.streams import TokenBatch


def test_no_state_is_chosen_at_padding(make_run: Any) -> None:
    run = make_run("lstm")
    tokens, lengths = torch.zeros(3, 9, dtype=torch.int64), torch.tensor([2, 4, 9])
    tokens[:, 1] = torch.arange(3) % 2
    tokens[1, 3] = 1
    visited = visited_states(in_double_precision(run.model), tokens, 50, lengths=lengths)
    assert {(place.sequence, place.position) for place in visited} >= {(1, 3), (2, 8)}
    assert all(place.position < lengths[place.sequence] for place in visited)


@pytest.mark.parametrize("name", ["implicit-mamba2", "mamba2", "lstm"])
def test_a_visited_state_is_where_reading_its_history_leads(make_run: Any, name: str) -> None:
    run = make_run(name, contracting=name == "implicit-mamba2")
    model = in_double_precision(run.model)
    tokens, _ = sample_sequences(run.task, sequences=4, length=12, seed=3)
    for visited in visited_states(model, tokens, 6):
        assert visited.token == tokens[visited.sequence, visited.position]
        state = model.init_state(1)
        for token in tokens[visited.sequence, : visited.position]:
            with torch.no_grad():
                state = model.step(state, token[None])[0]
        for entry, value in visited.state.items():
            # step solves to a relative 1e-4 only, and errors add up along the sequence
            tolerance = 1e-2 if name == "implicit-mamba2" else 1e-12
            torch.testing.assert_close(value, state[entry][0], rtol=tolerance, atol=tolerance)


def test_states_are_spread_over_tokens_and_have_different_histories(make_run: Any) -> None:
    run = make_run("lstm")
    tokens, _ = sample_sequences(run.task, sequences=8, length=32, seed=0)
    visited = visited_states(in_double_precision(run.model), tokens, 65)
    assert len(visited) == 65
    assert sorted(Counter(state.token for state in visited).values()) == [32, 33]
    histories = {tuple(tokens[state.sequence, : state.position + 1].tolist()) for state in visited}
    assert len(histories) == 65
    assert max(state.position for state in visited) == 31


def test_fewer_states_come_back_if_fewer_histories_exist(make_run: Any) -> None:
    run = make_run("lstm")
    tokens, _ = sample_sequences(run.task, sequences=64, length=3, seed=0)
    # Histories of 2 and of 3 tokens: 4 + 8 of them, all drawn among 64 sequences.
    assert len(visited_states(in_double_precision(run.model), tokens, 64)) == 12


def test_padded_sequences_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.zeros(2, 5, dtype=torch.long)
    batch = TokenBatch(tokens, tokens, torch.ones(2, 5), torch.tensor([5, 3]), None)
    monkeypatch.setattr("analysis.framework.visited_states.sample_batch", lambda *_: batch)
    with pytest.raises(InputError, match="task parity pads its sequences, of which the shortest has 3 of 5"):
        sample_sequences(make_task("parity"), 2, 5, 0)
