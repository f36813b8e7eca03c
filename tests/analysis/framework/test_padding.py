"""Analyses that read whole sequences refuse a task that pads them, for padding would be read as tokens."""

import pytest
import torch

from analysis.framework import visited_states
from automata import make_task
from automata.errors import InputError
from implicit.training.streams import TokenBatch


def test_padded_sequences_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.zeros(2, 5, dtype=torch.long)
    batch = TokenBatch(tokens, tokens, torch.ones(2, 5), torch.tensor([5, 3]), None)
    monkeypatch.setattr(visited_states, "sample_batch", lambda *_: batch)
    with pytest.raises(InputError, match="task parity pads its sequences, of which the shortest has 3 of 5"):
        visited_states.sample_sequences(make_task("parity"), 2, 5, 0)
