"""An implicit stack whose state grows, made of a cell of the user's choice: here attention."""

from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.cells import AttentionCell
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel, implicit_model
from implicit.modes import Mode, Solve

TIGHT = Stopping(rtol=1e-12, max_iterations=2000)
PLAIN: list[Mode] = ["simultaneous", "sequential"]


@pytest.fixture(scope="module")
def model() -> ImplicitModel:
    made = implicit_model("implicit-attention", AttentionCell, "attention iterated to a fixed point")
    torch.manual_seed(0)
    sizes = {"d_model": 16, "layers": 2, "mlp_size": 16, "heads": 2, "key_value_heads": 1, "head_size": 8}
    config: Any = made.config_class(vocabulary_size=5, output_size=5, **sizes)
    model = made(config).double()
    with torch.no_grad():  # what comes from the token outweighs the latent, so that the map contracts soon
        model.get_parameter("injections.0.weight").mul_(4)
    return model


@pytest.fixture(scope="module")
def tokens() -> torch.Tensor:
    return torch.randint(5, (3, 7), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_the_modes_agree(model: ImplicitModel, tokens: torch.Tensor) -> None:
    one, other = (model.run(tokens, solve=Solve(mode, stopping=TIGHT)) for mode in PLAIN)
    assert one.solution is not None
    assert other.solution is not None
    assert one.solution.share_converged == other.solution.share_converged == 1
    # a hundred times the tolerance, for a rate of convergence near 1
    torch.testing.assert_close(one.logits, other.logits, rtol=0, atol=1e-10)


@pytest.mark.parametrize("mode", PLAIN)
@torch.no_grad()
def test_padding_changes_nothing_and_a_text_may_be_continued(
    model: ImplicitModel, tokens: torch.Tensor, mode: Mode
) -> None:
    solve = Solve(mode, stopping=TIGHT)
    padded = model.run(tokens, solve=solve, lengths=torch.tensor([7, 4, 1]))
    alone = model.run(tokens[1:2, :4], solve=solve)
    torch.testing.assert_close(padded.logits[1, :4], alone.logits[0], rtol=0, atol=1e-10)
    rest = model.run(tokens[:, :3], padded.state, solve)
    whole = model.run(torch.cat([tokens[1:2, :4], tokens[1:2, :3]], 1), solve=solve)
    torch.testing.assert_close(rest.logits[1], whole.logits[0, 4:], rtol=0, atol=1e-10)


def test_the_default_mode_is_sequential_with_a_gradient_and_without(
    model: ImplicitModel, tokens: torch.Tensor
) -> None:
    loud = model.run(tokens)
    with torch.no_grad():
        quiet = model.run(tokens)
    assert loud.solution is not None
    assert quiet.solution is not None
    assert loud.solution.mode == quiet.solution.mode == "sequential"
    loud.logits.sum().backward()
    gradient = model.embedding.weight.grad
    assert gradient is not None
    assert float(gradient.abs().max()) > 0
    model.zero_grad()


def test_windows_are_refused(model: ImplicitModel, tokens: torch.Tensor) -> None:
    with pytest.raises(InputError, match="mode is windowed, which needs a state of constant size"):
        model.run(tokens, solve=Solve("windowed"))
