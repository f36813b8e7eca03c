"""What the options of a solve change, and what they leave as it is."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.fixed_point import Status, Stopping
from implicit.gradients import FactoredImplicit, GradientRule, Implicit, Phantom, Unrolled
from implicit.models.registry import MODELS, build_model
from implicit.modes import MODES, Mode, Solve

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


@pytest.mark.parametrize("rule", [None, Phantom(2), Implicit(), FactoredImplicit(), Unrolled(3)], ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("implicit-mamba2", (2, 12)),
        ("implicit-deltanet", (2, 12)),
        ("implicit-deltanet", (17, 12)),
        ("implicit-transformer", (2, 12)),
    ],
    ids=str,
)
def test_recording_a_gradient_changes_no_value(
    name: str, shape: tuple[int, int], mode: Mode, rule: GradientRule | None
) -> None:
    """In float64, where it is of no account that kernels, and products with a gradient, round differently."""
    if mode == "windowed" and (isinstance(rule, Unrolled) or name == "implicit-transformer"):
        pytest.skip("windows unroll nothing, and need a state of constant size")
    torch.manual_seed(0)
    model: Any = build_model(name, {"d_model": 16}, make_task("S3")).double()
    tokens = torch.arange(shape[0] * shape[1]).view(shape) % 6
    stopping = Stopping(rtol=1e-2, max_iterations=60)
    solve = Solve(mode, gradient=rule, stopping=stopping)
    one = model.run(tokens, solve=solve)
    with torch.no_grad():
        other = model.run(tokens, solve=solve)
        close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-12)
        close(one.logits, other.logits)
        for part in ("value", "residual"):
            close(getattr(one.solution, part), getattr(other.solution, part))
        assert torch.equal(one.solution.status, other.solution.status)
        for part, tensor in one.state.items():
            close(tensor, other.state[part])
        latents = one.solution.latents
        residual = (model.problem(tokens).function(latents) - latents).norm(dim=-1)
        assert (residual <= 1.0001e-2 * latents.norm(dim=-1))[one.solution.converged].all()
    assert one.logits.requires_grad


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "plain"])
@pytest.mark.parametrize(("dtype", "huge"), [(torch.float32, 1e25), (torch.float64, 1e200)], ids=str)
@pytest.mark.parametrize("mode", ["simultaneous", "sequential"])
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("implicit-")])
@torch.no_grad()
def test_a_norm_that_overflows_makes_no_fixed_point_of_zero(
    name: str, mode: Mode, dtype: torch.dtype, huge: float, kernels: bool
) -> None:
    torch.manual_seed(0)
    model: Any = build_model(name, {"d_model": 16}, make_task("S3")).to(dtype)
    if not kernels:
        model.without_kernels()
    for parameter_name, weight in model.named_parameters():
        if "out_proj" in parameter_name:
            weight.mul_(huge)
    solution = model.run(torch.arange(8).view(2, 4) % 6, solve=Solve(mode)).solution
    assert (solution.status == Status.NON_FINITE).all()


@pytest.mark.parametrize(
    ("mode", "kernels"), [("simultaneous", True), ("simultaneous", False), ("windowed", True)], ids=str
)
@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_token_that_is_not_finite_reaches_no_earlier_one(name: str, mode: Mode, kernels: bool) -> None:
    place = 9
    torch.manual_seed(0)
    model: Any = build_model(name, {"d_model": 16}, make_task("S3"))
    if mode == "windowed" and (model.state_grows or not model.implicit):
        pytest.skip("windows need fixed points, and a state of constant size")
    if model.implicit and not kernels:
        model.without_kernels()
    tokens = torch.arange(40).view(2, 20) % 5
    solve = Solve(mode, stopping=Stopping(rtol=1e-2, max_iterations=9))
    clean = model.run(tokens, solve=solve)
    tokens[1, place] = 5
    next(weight for name, weight in model.named_parameters() if "embedding" in name)[5] = torch.nan
    found = model.run(tokens, solve=solve)
    before = torch.ones(2, 20, dtype=torch.bool)
    before[1, place:] = False
    torch.testing.assert_close(found.logits[before], clean.logits[before], rtol=1e-4, atol=1e-5)
    if model.implicit:
        assert (found.solution.status == Status.NON_FINITE).tolist() == (~before).tolist()
    else:
        assert not found.logits[~before].isfinite().any()
