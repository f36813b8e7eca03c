"""Code of a user's that writes into what it is given: answers are those of code that does not."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from implicit import ImplicitLayer, Solve, Stopping, wrap
from implicit.cells import Cell
from implicit.models.interface import ModelConfig
from implicit.models.step_model import StepModel
from implicit.modes import Mode
from theory.transition import State

D = 4
TOKENS, LENGTHS = torch.tensor([[0, 2, 1, 2, 0], [2, 1, 2, 0, 1]]), torch.tensor([5, 3])


class LeakyCell(Cell):
    """h ← 0.5 h + 0.4 y with y = tanh(W x + h + injection)."""

    recurrent_parts = ("h",)

    def __init__(self, size: int = D) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.injection_size, self.in_proj = size, nn.Linear(size, size)
        self.gain = torch.ones(())  # which is no weight

    def init_state(self, batch_size: int) -> State:
        return {"h": self.in_proj.weight.new_zeros(batch_size, self.injection_size)}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        out = torch.tanh(
            self.gain * self.in_proj(inputs) + state["h"] + (0 if injection is None else injection)
        )
        return out, {"h": 0.5 * state["h"] + 0.4 * out}


class LeakyInPlace(LeakyCell):
    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        h = state["h"]
        injection = torch.zeros_like(h) if injection is None else injection
        out = torch.tanh(injection.add_(self.in_proj(inputs)).add_(h))
        h.mul_(0.5).add_(0.4 * out)
        return out, {"h": h}


@pytest.mark.parametrize("mode", ["auto", "sequential", "simultaneous", "windowed"])
def test_a_cell_that_writes_into_its_state_and_injection(mode: Mode) -> None:
    found = []
    for cell in (LeakyCell(), LeakyInPlace()):
        torch.manual_seed(1)
        layer = ImplicitLayer(cell, solve=Solve(mode, stopping=Stopping(rtol=1e-6))).double()
        features, h = torch.randn(2, 5, D).double(), torch.randn(2, D).double()
        state, given = {"h.0": h.clone()}, features.clone().requires_grad_()
        output = layer.run(given, state, lengths=LENGTHS)
        assert torch.equal(state["h.0"], h)
        gradients = torch.autograd.grad(output.features.square().sum(), [given, *layer.parameters()])
        found.append((output.features, output.state["h.0"], *gradients))
    for one, other in zip(*found, strict=True):
        # products in another order, solved to 1e-6
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


class Leaky(StepModel):
    """h ← 0.9 h + x, read as h and −h."""

    name = "leaky"

    def init_state(self, batch_size: int) -> State:
        return {"h": torch.full((), 0.3).expand(batch_size, 1)}

    def embed(self, tokens: Tensor) -> Tensor:
        return tokens[..., None].float()

    def update(self, state: State, inputs: Tensor) -> State:
        return {"h": 0.9 * state["h"] + inputs}

    def read(self, state: State) -> Tensor:
        return torch.cat([state["h"], -state["h"]], dim=-1)


class LeakyModelInPlace(Leaky):
    def update(self, state: State, inputs: Tensor) -> State:
        h = state["h"]
        h *= 0.9
        h += inputs
        inputs.zero_()
        return {"h": h}

    def read(self, state: State) -> Tensor:
        h = state["h"]
        read = torch.cat([h, -h], dim=-1)
        h.zero_()
        return read


def leaky_step(net: nn.Module, state: State, token: Tensor) -> tuple[State, Tensor]:
    h = torch.where(token[:, None] == 2, 0.5, 0.9 * state["h"] + token[:, None])
    return {"h": h}, torch.cat([h, -h], dim=-1)


def step_in_place(net: nn.Module, state: State, token: Tensor) -> tuple[State, Tensor]:
    h = state["h"]
    h.mul_(0.9).add_(token[:, None])
    h[token == 2] = 0.5
    token.fill_(-1)
    return {"h": h}, torch.cat([h, -h], dim=-1)


def stepped(build: type[Leaky]) -> Any:
    return build(ModelConfig(vocabulary_size=3, output_size=2))


def wrapped(step: Callable[..., Any]) -> Any:
    return wrap(nn.Linear(1, 1), step, {"h": torch.tensor([0.3])}, vocabulary_size=3)


@torch.no_grad()
@pytest.mark.parametrize(
    ("plain", "writing"),
    [
        (lambda: stepped(Leaky), lambda: stepped(LeakyModelInPlace)),
        (lambda: wrapped(leaky_step), lambda: wrapped(step_in_place)),
    ],
    ids=["StepModel", "wrap"],
)
def test_a_model_that_writes_into_its_state_and_inputs(
    plain: Callable[[], Any], writing: Callable[[], Any]
) -> None:
    model, in_place = plain(), writing()
    given, tokens = {"h": torch.tensor([[1.0], [2.0]])}, TOKENS.clone()
    for state in (None, given, None):  # the last: the state before the first token is still what it was
        expected, found = (one.run(tokens, state, lengths=LENGTHS) for one in (model, in_place))
        assert torch.equal(found.logits, expected.logits)
        assert torch.equal(found.state["h"], expected.state["h"])
        after, logits = in_place.step(given, tokens[:, 0])
        assert torch.equal(logits, model.step(given, tokens[:, 0])[1])
        assert torch.equal(after["h"], model.step(given, tokens[:, 0])[0]["h"])
    assert torch.equal(tokens, TOKENS)
    assert given["h"].flatten().tolist() == [1, 2]
