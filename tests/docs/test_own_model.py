"""Models of docs/extending.md and docs/your_own_model.md keep the contract, train, load and are analysed."""

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from implicit.runs.loading import load_run
from tests.docs.page import is_quoted, page, quoted, section

TITLE = "Your own model"


@pytest.fixture(params=["token_matrices:TokenMatrices", "own_gru:OwnGRU"])
def model(run_commands: Callable[[str], None], request: pytest.FixtureRequest) -> Any:
    module, _, name = request.param.partition(":")
    model_class = getattr(import_module(module), name)
    torch.manual_seed(0)
    return model_class(model_class.config_class(vocabulary_size=3, output_size=5, d_model=4)).double()


def assert_agree(found: Tensor, expected: Tensor) -> None:
    """In float64, for the same few operations in the same order, over at most seven tokens."""
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


def test_run_is_the_scan_of_step_from_any_state_and_under_lengths(model: Any) -> None:
    tokens = torch.randint(3, (4, 7), generator=torch.Generator().manual_seed(0))
    state, logits = model.init_state(4), []
    for token in tokens.unbind(1):
        state, scores = model.step(state, token)
        logits.append(scores)
    whole = model.run(tokens)
    assert_agree(whole.logits, torch.stack(logits, 1))
    first = model.run(tokens[:, :3])
    assert_agree(model.run(tokens[:, 3:], first.state).logits, whole.logits[:, 3:])
    lengths = torch.tensor([7, 1, 4, 2])
    padded = model.run(tokens, lengths=lengths)
    for k, length in enumerate(lengths.tolist()):
        alone = model.run(tokens[k : k + 1, :length])
        assert_agree(padded.logits[k, :length], alone.logits[0])
        assert_agree(padded.state["h"][k], alone.state["h"][0])
        assert (padded.logits[k, length:] == 0).all()


def test_the_transition_is_the_step(model: Any) -> None:
    tokens = torch.tensor([2, 0, 1])
    states = model.states(tokens[None])["h"][0]
    for t, token in enumerate(tokens.tolist()):
        following = model.transition(token).state_update(torch.zeros(0), {"h": states[t]})
        assert_agree(following["h"], states[t + 1])


def test_the_commands_and_the_code_of_the_page_run(run_page: Callable[[str], None], tmp_path: Any) -> None:
    assert is_quoted(TITLE, "token_matrices.py")
    run_page(TITLE)
    run = load_run("runs/matrices", allow_code=True)
    assert run.config.model == "token_matrices:TokenMatrices"
    assert run.config.sizes == {"d_model": 4}
    (code,) = re.findall(r"```python\n(# From Python.*?)```", section(TITLE), flags=re.DOTALL)
    exec(code.replace("steps=1000", "steps=2, warmup_steps=1, batch_size=4, length=4"), {})
    assert load_run("runs/matrices-s3", allow_code=True).task.name == "S3"


def test_the_own_gru_is_the_gru_of_torch(run_commands: Callable[[str], None]) -> None:
    """With the same weights; the embedding stands for what torch's input projection makes of a token."""
    torch.manual_seed(0)
    module = import_module("own_gru")
    own = module.OwnGRU(module.Sizes(vocabulary_size=3, output_size=5, d_model=4)).double()
    theirs = torch.nn.GRU(3, 4, batch_first=True).double()
    weights = theirs.state_dict()
    with torch.no_grad():
        own.embedding.weight.copy_(weights["weight_ih_l0"].T + weights["bias_ih_l0"])
        own.recurrent.weight.copy_(weights["weight_hh_l0"])
        own.recurrent.bias.copy_(weights["bias_hh_l0"])
    tokens = torch.randint(3, (2, 6), generator=torch.Generator().manual_seed(0))
    outputs, _ = theirs(torch.nn.functional.one_hot(tokens, 3).double())
    assert_agree(own.states(tokens)["h"][:, 1:], outputs.detach())


def test_a_network_of_ones_own_is_trained_and_asked_in_memory(
    run_commands: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert quoted("own_loop.py") in page("your_own_model.md")
    import_module("own_loop").main(steps=2)
    printed = capsys.readouterr().out
    assert "non-linear; Theorem 1 does not apply (no fixed point); measured at 3 visited states." in printed


def test_the_page_of_thirty_lines_runs(run_commands: Callable[[str], None]) -> None:
    text = page("your_own_model.md")
    assert quoted("own_gru.py") in text
    run_commands(text)
    assert load_run("runs/own-gru", allow_code=True).config.model == "own_gru:OwnGRU"
