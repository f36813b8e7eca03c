"""A checkpoint restores model and optimiser so that the following steps have the same bits."""

from pathlib import Path

import pytest
import torch
from torch.optim import AdamW

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.models.interface import SequenceModel
from implicit.models.registry import build_model
from implicit.runs.files import read_tensors, write_tensors
from implicit.training.checkpoint import Progress, load_checkpoint, save_checkpoint

TOKENS = torch.tensor([[0, 1, 1, 0]])


def pair(seed: int) -> tuple[SequenceModel, AdamW]:
    """A small model and its optimiser."""
    torch.manual_seed(seed)
    model = build_model("lstm", {"d_model": 4}, make_task("parity"))
    return model, AdamW(model.parameters(), lr=0.1, betas=(0.9, 0.95), weight_decay=0.1)


def take_steps(model: SequenceModel, optimizer: AdamW, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(TOKENS).square().sum().backward()
        optimizer.step()


def test_following_steps_have_the_same_bits(tmp_path: Path) -> None:
    model, optimizer = pair(0)
    take_steps(model, optimizer, 3)
    save_checkpoint(tmp_path / "checkpoint" / "state", model, optimizer, Progress(3, 1.25, 2))
    take_steps(model, optimizer, 4)
    other, other_optimizer = pair(1)
    assert load_checkpoint(tmp_path / "checkpoint" / "state", other, other_optimizer) == (
        Progress(3, 1.25, 2),
        None,
    )
    take_steps(other, other_optimizer, 4)
    for name, weight in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], weight)


def test_restored_optimiser_has_the_state_that_torch_saves(tmp_path: Path) -> None:
    """Nothing that AdamW itself would store is left out."""
    model, optimizer = pair(0)
    take_steps(model, optimizer, 3)
    save_checkpoint(tmp_path / "state", model, optimizer, Progress(step=3))
    other, other_optimizer = pair(1)
    load_checkpoint(tmp_path / "state", other, other_optimizer)
    torch.testing.assert_close(
        other_optimizer.state_dict()["state"], optimizer.state_dict()["state"], rtol=0, atol=0
    )


def test_moment_with_nan_is_refused(tmp_path: Path) -> None:
    model, optimizer = pair(0)
    take_steps(model, optimizer, 1)
    save_checkpoint(tmp_path / "state", model, optimizer, Progress(step=1))
    tensors, metadata = read_tensors(tmp_path / "state")
    tensors["exp_avg.head.bias"].fill_(torch.nan)
    write_tensors(tmp_path / "state", tensors, metadata)
    with pytest.raises(InputError, match=r"tensor 'exp_avg.head.bias' holds NaN"):
        load_checkpoint(tmp_path / "state", model, optimizer)


@pytest.mark.parametrize("metadata", [{}, {"progress": "{"}, {"progress": '{"stepz": 1}'}])
def test_checkpoint_without_progress_is_refused(metadata: dict[str, str], tmp_path: Path) -> None:
    model, optimizer = pair(0)
    take_steps(model, optimizer, 1)
    save_checkpoint(tmp_path / "state", model, optimizer, Progress(step=1))
    write_tensors(tmp_path / "state", read_tensors(tmp_path / "state")[0], metadata)
    with pytest.raises(InputError, match="state does not tell the step; delete the run folder"):
        load_checkpoint(tmp_path / "state", model, optimizer)
