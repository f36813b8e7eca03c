"""The options of a solve: what each changes, and what it leaves as it is."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.fixed_point import Anderson, DampedPicard, Solver, Status, Stopping
from implicit.gradients import FactoredImplicit, GradientRule, Implicit, Phantom, Unrolled
from implicit.models.registry import MODELS, build_model
from implicit.modes import MODES, Mode, Recurrence, Solve, Windowed
from implicit.modes.adjoint import solve_adjoint
from implicit.modes.solve import chosen_mode
from tests.small_models import small_sizes

SIZES = {"d_model": 8, "d_state": 4, "head_size": 4, "expand": 1}
SOLVES = {
    "simultaneous": Solve("simultaneous", gradient=Phantom(2)),
    "unrolled": Solve("simultaneous", gradient=Unrolled(3)),
    "windowed": Solve("windowed", gradient=FactoredImplicit()),
    "sequential": Solve("sequential"),
}


def model_of(name: str, sizes: dict[str, int] | None = None) -> Any:
    torch.manual_seed(0)
    return build_model(name, sizes or {"d_model": 16}, make_task("S3"))


def read(solve: Solve, monkeypatch: pytest.MonkeyPatch, *, gradient: bool) -> tuple[Any, list[Any], int]:
    model = model_of("implicit-mamba2", SIZES)
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


@pytest.mark.parametrize("name", SOLVES)
def test_without_the_state_all_else_has_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solve = replace(SOLVES[name], stopping=Stopping(rtol=1e-4, max_iterations=300))
    for gradient in (True, False):
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


@pytest.mark.parametrize("name", ["stopping", "solver", "gradient", "start", "state_after"])
def test_an_option_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"^{name} is 3; give "):
        Solve(**{name: 3})  # type: ignore[arg-type]


RULES: list[GradientRule | None] = [None, Phantom(2), Implicit(), FactoredImplicit(), Unrolled(3)]
SHAPED = [
    ("implicit-mamba2", (2, 9)),
    ("implicit-deltanet", (2, 9)),
    ("implicit-deltanet", (17, 9)),
    ("implicit-transformer", (2, 9)),
]


# Pairwise: every rule in every mode, with the models in turn, so that each meets every rule and every mode.
@pytest.mark.parametrize("rule", range(len(RULES)), ids=lambda number: str(RULES[number]))
@pytest.mark.parametrize("mode", range(len(MODES)), ids=lambda number: MODES[number])
def test_recording_a_gradient_changes_no_value(mode: int, rule: int) -> None:
    """In float64, where it is of no account that kernels, and products with a gradient, round differently."""
    name, shape = SHAPED[(rule + mode) % len(SHAPED)]
    if MODES[mode] == "windowed" and isinstance(RULES[rule], Unrolled):
        pytest.skip("windows unroll nothing")
    if MODES[mode] == "windowed" and name == "implicit-transformer":
        name = "implicit-mamba2"  # windows need a state of constant size
    model = model_of(name).double()
    tokens = torch.arange(shape[0] * shape[1]).view(shape) % 6
    stopping = Stopping(rtol=1e-2, max_iterations=60)
    solve = Solve(MODES[mode], gradient=RULES[rule], stopping=stopping)
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


OVERFLOWS: list[tuple[Mode, torch.dtype, bool]] = [
    ("simultaneous", torch.float32, True),
    ("sequential", torch.float32, False),
    ("sequential", torch.float64, True),
    ("simultaneous", torch.float64, False),
]


# Every pair of two of mode, dtype and kernels, for every model.
@pytest.mark.parametrize(("mode", "dtype", "kernels"), OVERFLOWS, ids=str)
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("implicit-")])
@torch.no_grad()
def test_a_norm_that_overflows_makes_no_fixed_point_of_zero(
    name: str, mode: Mode, dtype: torch.dtype, kernels: bool
) -> None:
    model = model_of(name).to(dtype)
    if not kernels:
        model.without_kernels()
    for parameter_name, weight in model.named_parameters():
        if "out_proj" in parameter_name:
            weight.mul_(1e25 if dtype == torch.float32 else 1e200)
    solution = model.run(torch.arange(8).view(2, 4) % 6, solve=Solve(mode)).solution
    assert (solution.status == Status.NON_FINITE).all()


# Modes and kernels are those of implicit models; what windows need of a cell is what the others do.
@pytest.mark.parametrize(
    ("name", "mode", "kernels"),
    [(name, "simultaneous", True) for name in MODELS]
    + [(name, "simultaneous", False) for name in MODELS if name.startswith("implicit-")]
    + [(name, "sequential", True) for name in MODELS if name.startswith("implicit-")]
    + [(name, "windowed", True) for name in ("implicit-mamba2", "implicit-gated-deltanet")],
)
@torch.no_grad()
def test_a_token_that_is_not_finite_reaches_no_earlier_one(name: str, mode: Mode, kernels: bool) -> None:
    place = 4
    model = model_of(name, small_sizes(name))
    if not kernels:
        model.without_kernels()
    tokens = torch.arange(18).view(2, 9) % 5
    solve = Solve(mode, stopping=Stopping(rtol=1e-2, max_iterations=9))
    clean = model.run(tokens, solve=solve)
    tokens[1, place] = 5
    next(weight for name, weight in model.named_parameters() if "embedding" in name)[5] = torch.nan
    found = model.run(tokens, solve=solve)
    before = torch.ones(2, 9, dtype=torch.bool)
    before[1, place:] = False
    torch.testing.assert_close(found.logits[before], clean.logits[before], rtol=1e-4, atol=1e-5)
    if model.implicit:
        assert (found.solution.status == Status.NON_FINITE).tolist() == (~before).tolist()
    else:
        assert not found.logits[~before].isfinite().any()


@pytest.mark.parametrize(
    ("solve", "solver", "shape", "one_launch", "gradient", "mode"),
    [
        (Solve(), DampedPicard(), (16, 9), False, False, "windowed"),
        (Solve(), DampedPicard(), (17, 9), False, False, "sequential"),
        (Solve(), DampedPicard(), (16, 8), False, False, "sequential"),
        (Solve(), DampedPicard(), (17, 8), False, True, "sequential"),
        (Solve(windows=Windowed()), DampedPicard(), (17, 8), False, False, Windowed()),
        (Solve(), DampedPicard(), (1, 1), False, True, "sequential"),
        (Solve(), DampedPicard(), (1, 64), True, True, "sequential"),
        (Solve(), Anderson(), (1, 64), True, False, "simultaneous"),
        (Solve(gradient=Unrolled(2)), DampedPicard(), (1, 64), True, True, "simultaneous"),
        (Solve(gradient=Implicit()), DampedPicard(), (1, 64), False, True, "windowed"),
        (Solve("sequential"), Anderson(), (1, 64), False, True, "sequential"),
        (Solve("simultaneous"), DampedPicard(), (1, 64), True, False, "simultaneous"),
        (Solve(Windowed(width=3)), DampedPicard(), (64, 1), True, True, Windowed(width=3)),
    ],
    ids=str,
)
def test_the_default_mode_is_chosen_as_documented(
    solve: Solve, solver: Solver, shape: tuple[int, int], one_launch: bool, gradient: bool, mode: object
) -> None:
    with torch.set_grad_enabled(gradient):
        assert chosen_mode(solve, solver, torch.zeros(*shape, 3), one_launch=one_launch) == mode


@pytest.mark.parametrize(
    ("tolerance", "dtype", "mode"),
    [
        (Stopping(1e-3), torch.float32, "windowed"),
        (Stopping(2e-3), torch.float32, "sequential"),
        (Stopping(1e-4, atol=0.1), torch.float32, "sequential"),
        (Stopping(1e-4), torch.bfloat16, "sequential"),
    ],
)
def test_windows_are_chosen_where_they_tell_fixed_points_apart(
    tolerance: Stopping, dtype: torch.dtype, mode: str
) -> None:
    start = torch.zeros(4, 16, 3, dtype=dtype)
    chosen = chosen_mode(Solve(), DampedPicard(), start, one_launch=False, stopping=tolerance)
    assert chosen == mode


def test_a_part_of_the_state_that_nothing_reads_changes_no_adjoint() -> None:
    """Φ(z; h) = z / 2 + h and h' = h + z, as without the part that only keeps the last latent."""

    def advance(z: torch.Tensor, x: Any, s: Any) -> tuple[torch.Tensor, Any]:
        return z / 2 + s["h"], {name: s["h"] + z if name == "h" else z for name in s}

    def states(z: torch.Tensor, x: Any, s: Any) -> Any:
        sums = torch.cat([s["h"][:, None], s["h"][:, None] + z.cumsum(1)], 1)
        return {name: sums if name == "h" else torch.cat([s[name][:, None], z], 1) for name in s}

    zero, z = torch.zeros(1, 1), torch.zeros(1, 3, 1)
    found = [
        solve_adjoint(Recurrence([z], state, advance, advance, states), z, torch.ones(1, 3, 1))
        for state in ({"h": zero}, {"h": zero, "last": zero}, {"last": zero, "h": zero})
    ]
    # v₃ = 2; v₂ = 2 (1 + v₃); v₁ = 2 (1 + v₂ + v₃): J = [[½, 0, 0], [1, ½, 0], [1, 1, ½]]
    assert found[0].flatten().tolist() == [18.0, 6.0, 2.0]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
