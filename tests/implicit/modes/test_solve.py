"""What the options of a solve change, and what they leave as it is."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, Phantom, Unrolled
from implicit.models.registry import build_model
from implicit.modes import Solve

SIZES = {"d_model": 8, "d_state": 4, "head_size": 4, "expand": 1}
SOLVES = {
    "simultaneous": Solve("simultaneous", gradient=Phantom(2)),
    "unrolled": Solve("simultaneous", gradient=Unrolled(3)),
    "windowed": Solve("windowed", gradient=FactoredImplicit()),
    "sequential": Solve("sequential"),
}


def read(solve: Solve, monkeypatch: pytest.MonkeyPatch, *, gradient: bool) -> tuple[Any, list[Any], int]:
    """The output of a small model, the gradients of its parameters, and how often all tokens were swept."""
    torch.manual_seed(0)
    model: Any = build_model("implicit-mamba2", SIZES, make_task("S3"))
    sweeps = 0
    plain = type(model)._sweep

    def counted(self: Any, latent: Any, *others: Any) -> Any:
        nonlocal sweeps
        sweeps += latent.shape[1] == 12
        return plain(self, latent, *others)

    monkeypatch.setattr(type(model), "_sweep", counted)
    with torch.set_grad_enabled(gradient):
        output = model.run(torch.arange(24).view(2, 12) % 6, solve=solve)
    gradients = [] if not gradient else [*torch.autograd.grad(output.logits.sum(), [*model.parameters()])]
    monkeypatch.undo()
    return output, gradients, sweeps


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("name", SOLVES)
def test_without_the_state_all_else_is_the_same_bit_by_bit(
    name: str, gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    solve = replace(SOLVES[name], stopping=Stopping(rtol=1e-4, max_iterations=300))
    one, its_gradients, swept = read(solve, monkeypatch, gradient=gradient)
    other, gradients, once_less = read(replace(solve, state_after=False), monkeypatch, gradient=gradient)
    assert sorted(one.state) == ["conv.0", "ssm.0"]
    assert other.state == {}
    assert torch.equal(one.logits, other.logits)
    assert torch.equal(one.solution.iterations, other.solution.iterations)
    assert all(torch.equal(a, b) for a, b in zip(its_gradients, gradients, strict=True))
    # a sweep of all tokens is what the state takes where several are solved together
    takes_one = name in ("simultaneous", "unrolled") or (name == "windowed" and gradient)
    assert swept - once_less == takes_one


def test_an_option_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="state_after is 'no'; give True or False"):
        Solve(state_after="no")  # type: ignore[arg-type]
