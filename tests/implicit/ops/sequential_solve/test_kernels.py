"""The fused sequential solve by Triton (on a GPU, else in its interpreter) and by numba, against the loop."""

from functools import partial
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.fixed_point import Anderson, DampedPicard, Status, Stopping
from implicit.gradients import GradientRule, Implicit, Phantom, Unrolled
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import ImplicitMamba2
from implicit.modes import Solve
from implicit.modes.fused import request_of, self_map_of
from implicit.ops.sequential_solve import sequential_solve
from tests.implicit.ops.conftest import DEVICE
from tests.small_models import quick_mamba2, random_state
from tests.small_models import random_tokens as tokens_of
from tests.solving import Solved, solved
from theory.transition import State

pytestmark = pytest.mark.usefixtures("poisoned_memory")
TRITON = pytest.mark.triton
NUMBA = pytest.mark.skipif(find_spec("numba") is None, reason="numba is not installed")
by_triton = partial(pytest.param, "triton", marks=TRITON)
by_numba = partial(pytest.param, "numba", marks=NUMBA)


SIZES: list[dict[str, Any]] = [
    {},
    {"residual": True, "d_conv": 3},
    {"d_model": 24, "head_size": 8, "d_state": 5, "groups": 2, "d_conv": 1},
    {"d_model": 12, "head_size": 8, "groups": 3, "layers": 2, "d_conv": 2, "residual": True},
    {"layers": 3, "d_conv": 6, "damping": 1.0},
    {"d_model": 5, "expand": 3, "head_size": 3, "d_state": 1},
    {"d_model": 72, "head_size": 9, "d_state": 65},
]


def random_model(backend: str = "triton", dtype: torch.dtype = torch.float32, **sizes: Any) -> ImplicitModel:
    model = quick_mamba2(dtype, **{"rtol": 1e-2, "max_iterations": 12, **sizes})
    model.sequential_backend = backend
    return model.to(DEVICE if backend == "triton" else "cpu")


def random_tokens(batch: int, length: int, backend: str = "triton") -> Tensor:
    return tokens_of(batch, length).to(DEVICE if backend == "triton" else "cpu")


def in_float64(model: ImplicitModel) -> ImplicitModel:
    exact = ImplicitMamba2(model.config)
    exact.load_state_dict(model.state_dict())
    exact.sequential_backend = "loop"
    return exact.double().to(model.latent_norm.weight.device)


def arguments(batch: int = 2, length: int = 3, backend: str = "triton") -> dict[str, Any]:
    model = random_model(backend)
    device = model.latent_norm.weight.device
    cells, state = model.cells, model.init_state(batch)
    with torch.no_grad():
        self_map = self_map_of(cells, model.norms, model.latent_norm, residual=False)
    for weight in self_map.weights.values():
        weight.requires_grad_(False)
    return {
        "self_map": self_map,
        "injections": torch.zeros(1, batch, length, cells[0].injection_size, device=device),
        "start": torch.ones(batch, length, 8, device=device),
        "windows": state["conv.0"][None],
        "states": state["ssm.0"][None],
        "solver": DampedPicard(),
        "stopping": Stopping(rtol=1e-2),
        "backend": backend,
    }


@torch.no_grad()
def solved_by_both(
    model: ImplicitModel, batch: int, length: int, start: Tensor | None = None, **stopping: Any
) -> tuple[Solved, Solved]:
    """The kernel's solution and the loop's, from a random state and start; and that the counts are fair."""
    tokens, state = random_tokens(batch, length, model.sequential_backend), random_state(model, batch)
    if start is None:
        start = random_start(batch, length, model)
    options = {"rtol": 1e-2, "max_iterations": 12, **stopping}
    found = solved(model, tokens, "sequential", state=state, start=start, stopping=Stopping(**options))
    dtype = model.latent_norm.weight.dtype
    assert all(part.dtype == dtype for part in (found.latents, found.logits, *found.state.values()))
    exact = in_float64(model)
    given: dict[str, Any] = {"state": {k: v.double() for k, v in state.items()}, "start": start.double()}
    expected = solved(exact, tokens, "sequential", stopping=Stopping(**options), **given)
    for factor in (0.98, 1.02) if dtype == torch.float32 else ():  # far more than rounding changes 1e-2
        near = Stopping(**{**options, "rtol": factor * options["rtol"]})
        others = solved(exact, tokens, "sequential", stopping=near, **given)
        assert torch.equal(others.iterations, expected.iterations), "residuals too near to the tolerance"
    return found, expected


def random_start(batch: int, length: int, model: ImplicitModel) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    return torch.randn(batch, length, model.config.d_model, generator=generator).to(model.latent_norm.weight)


def assert_equal(found: Solved, expected: Solved, tolerance: float) -> None:
    assert found.status.tolist() == expected.status.tolist()
    assert found.iterations.tolist() == expected.iterations.tolist()
    pairs = {
        "latents": (found.latents, expected.latents),
        "logits": (found.logits, expected.logits),
        **{name: (tensor, expected.state[name]) for name, tensor in found.state.items()},
    }
    for name, (result, reference) in pairs.items():
        assert result.shape == reference.shape, name
        if result.numel():  # a convolution of width 1 has no window
            error = (result.double() - reference).abs().max() / reference.abs().max()
            assert error <= tolerance, f"{name}: {error:.1e}"
    # A residual is a difference of latents, with their rounding.
    error = (found.residual.double() - expected.residual).abs().max()
    assert error <= tolerance * expected.latents.norm(dim=-1).max(), f"residual: {error:.1e}"


# Sums of at most 144 products and a dozen iterations that contract: some 30 roundings of 6e-8.
FLOAT32 = 2e-6
FLOAT64 = 1e-10
"""Asked of float64; what is left of it is rounding, some 1e-14."""


# By Triton the first sizes, which are none of their own, are left out: the interpreter takes seconds.
@pytest.mark.parametrize(
    ("backend", "sizes"), [*map(by_triton, SIZES[1:-1]), *map(by_numba, SIZES[:-1])], ids=str
)
def test_in_float32_they_equal_the_loop_in_float64(backend: str, sizes: dict[str, Any]) -> None:
    batch = 1 if backend == "triton" else 2
    assert_equal(*solved_by_both(random_model(backend, **sizes), batch, length=2), FLOAT32)


@NUMBA
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_numba_equals_the_loop_in_float64(sizes: dict[str, Any]) -> None:
    model = random_model("numba", torch.float64, **sizes)
    found, expected = solved_by_both(model, 11, 5, rtol=1e-6, atol=3e-6, max_iterations=60)
    assert expected.solution.share_converged > 0.3
    assert_equal(found, expected, FLOAT64)


@TRITON
def test_matrices_of_several_tiles_and_an_absolute_tolerance() -> None:
    """Tiles have 128 rows and columns: d_in_proj is 434, d_inner 144, d_state 65."""
    model = random_model(d_model=72, head_size=9, d_state=65)
    assert_equal(*solved_by_both(model, batch=1, length=2, rtol=0.1), FLOAT32)
    found, expected = solved_by_both(random_model(), batch=1, length=2, rtol=1e-3, atol=0.05)
    assert_equal(found, expected, FLOAT32)
    assert (found.residual > 1e-3 * found.latents.norm(dim=-1)).all()


@pytest.mark.parametrize(("backend", "dtype"), [by_triton(torch.float32), by_numba(torch.float64)])
@torch.no_grad()
def test_the_limit_ends_a_token_and_takes_convergence_from_those_after_it(
    backend: str, dtype: torch.dtype
) -> None:
    model = random_model(backend, dtype)
    fixed_points = solved(
        in_float64(model),
        random_tokens(2, 2, backend),
        "sequential",
        state={name: tensor.double() for name, tensor in random_state(model, 2).items()},
        stopping=Stopping(rtol=1e-6),
    )
    start = fixed_points.latents.to(dtype)
    start[1, 0] = 100 * random_start(1, 1, model)[0, 0]
    found, expected = solved_by_both(model, 2, 2, start, max_iterations=4)
    assert_equal(found, expected, FLOAT32)
    assert found.status.tolist() == [[Status.CONVERGED] * 2, [Status.MAX_ITERATIONS] * 2]
    assert found.iterations[1, 0] == 4
    assert found.iterations[1, 1] < 4  # within the tolerance, on a left context that is not


# The interpreter computes with NumPy, which warns of what a GPU does silently.
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize(
    ("backend", "bad"), [by_triton(torch.inf), *map(by_numba, (torch.inf, -torch.inf, torch.nan))]
)
@torch.no_grad()
def test_a_sequence_that_is_not_finite_stops_alone(backend: str, bad: float) -> None:
    model = random_model(backend)
    tokens, state = random_tokens(3, 2, backend), random_state(model, 3)
    expected = solved(model, tokens, "sequential", state=state)
    state["ssm.0"] = state["ssm.0"].clone()
    state["ssm.0"][1, 0, 0, 0] = bad
    found = solved(model, tokens, "sequential", state=state)
    assert found.status[1].tolist() == [Status.NON_FINITE] * 2
    assert found.iterations[1].tolist() == [1, 1]
    assert not found.residual[1].isfinite().any()
    assert found.latents.isfinite().all()  # the last iterate, never the image that was not finite
    for name in ("latents", "iterations", "residual", "status", "logits"):
        assert torch.equal(getattr(found, name)[[0, 2]], getattr(expected, name)[[0, 2]]), name
    model.sequential_backend = "loop"
    assert torch.equal(solved(model, tokens, "sequential", state=state).status, found.status)


@pytest.mark.filterwarnings("ignore:(invalid value|overflow|All-NaN):RuntimeWarning")
@pytest.mark.parametrize(
    ("backend", "part", "scale"),
    [
        *(by_triton(*case) for case in (("latent_norm", 1e-24), ("mixers.0.out_proj", 1e25))),
        *(by_numba("latent_norm", scale) for scale in (1e-36, 1e-24)),
    ],
)
@torch.no_grad()
def test_norms_whose_squares_vanish_or_overflow_are_those_of_the_loop(
    backend: str, part: str, scale: float
) -> None:
    model, tokens = random_model(backend), random_tokens(1, 2, backend)
    model.get_parameter(f"{part}.weight").mul_(scale)
    for limit in (2, 60):
        stopping = Stopping(rtol=1e-3, max_iterations=limit)
        found, expected = (by(name, model, tokens, stopping=stopping).solution for name in (backend, "loop"))
        assert found.status.tolist() == expected.status.tolist()
        assert (found.residual != 0).all()
        if part == "latent_norm":
            ratios = found.residual / scale, expected.residual / scale
            torch.testing.assert_close(*ratios, rtol=1e-3, atol=1e-5)
    assert {*found.status.flatten().tolist()} == {Status.CONVERGED if scale < 1 else Status.NON_FINITE}


@pytest.mark.parametrize(
    ("backend", "batch", "kept"),
    [by_triton(3, [1]), *(by_numba(13, kept) for kept in ([4], [12, 0], [*range(3, 13)]))],
)
@torch.no_grad()
def test_a_sequence_does_not_see_the_others_of_its_batch(backend: str, batch: int, kept: list[int]) -> None:
    given = arguments(batch, 2, backend)
    for name in ("injections", "states"):
        given[name] = torch.randn(given[name].shape).to(given[name])  # the same draws on every device
    together = sequential_solve(**given)
    assert len(set(together.iterations.flatten().tolist())) > 1  # they stop at different times
    own = {
        "start": given["start"][kept],
        **{name: given[name][:, kept] for name in ("injections", "windows", "states")},
    }
    alone = sequential_solve(**{**given, **own})
    for result, expected in zip(alone[:4], together[:4], strict=True):
        assert torch.equal(result, expected[kept])
    for result, expected in zip(alone[4:], together[4:], strict=True):
        assert torch.equal(result, expected[:, kept])


@TRITON
@torch.no_grad()
def test_strides_do_not_matter() -> None:
    model = random_model()
    tokens, state = random_tokens(2, 1), random_state(model, 2)
    expected = solved(model, tokens, "sequential", state=state)
    strided = {"conv.0": state["conv.0"].mT.contiguous().mT, "ssm.0": state["ssm.0"].mT.contiguous().mT}
    start = torch.zeros(8, 1, 2, device=DEVICE).permute(2, 1, 0)
    assert torch.equal(
        solved(model, tokens, "sequential", state=strided, start=start).latents, expected.latents
    )


@TRITON
def test_bfloat16_weights_with_sums_in_float32() -> None:
    model = random_model().to(torch.bfloat16)
    tokens = random_tokens(2, 2)
    with torch.no_grad():
        found = solved(model, tokens, "sequential")
        expected = solved(in_float64(model), tokens, "sequential")
    assert found.latents.dtype == torch.bfloat16
    assert found.state["conv.0"].dtype == torch.bfloat16
    assert found.state["ssm.0"].dtype == torch.float32
    assert found.converged.all()
    # The injections, the window and the result are rounded to bfloat16, 4e-3 each.
    for result, reference in [
        (found.latents, expected.latents),
        *((found.state[name], expected.state[name]) for name in found.state),
    ]:
        assert (result.double() - reference).abs().max() <= 2e-2 * reference.abs().max()


def zeros(*shape: int, **options: Any) -> torch.Tensor:
    return torch.zeros(shape, device=options.pop("device", DEVICE), **options)


@TRITON
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": zeros(0, 3, 8)}, r"start has shape \(0, 3, 8\); give \[batch, length, d_model\], at"),
        ({"start": zeros(2, 3, 9)}, r"start has shape \(2, 3, 9\); .* it must be \(2, 3, 8\)"),
        ({"states": zeros(1, 2, 4, 4, 5)}, r"states has shape .* it must be \(1, 2, 4, 4, 4\)"),
        ({"windows": zeros(1, 2, 24, 4)}, r"windows has shape .* it must be \(1, 2, 24, 3\)"),
        ({"injections": zeros(1, 2, 2, 44)}, r"injections has shape .* it must be \(1, 2, 3, 44\)"),
        ({"states": zeros(1, 2, 4, 4, 4, dtype=torch.float64)}, "states is torch.float64; cast it to"),
        ({"start": zeros(2, 3, 8, dtype=torch.bfloat16)}, "start is torch.bfloat16; cast it to"),
        ({"start": zeros(2, 3, 8, device="meta")}, "start is on meta and out_proj on .*; move both"),
        ({"start": zeros(2, 3, 8, requires_grad=True)}, "a gradient is wanted, and the kernel computes none"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_requests_are_refused_with_the_remedy(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sequential_solve(**{**arguments(), **changes})


@TRITON
@pytest.mark.parametrize(
    ("solver", "gradient", "iteration"),
    [
        (DampedPicard(0.7), Phantom(), "DampedPicard"),
        (DampedPicard(0.7), Implicit(), "DampedPicard"),
        (Anderson(), Phantom(), "Anderson"),
        (DampedPicard(0.7), Unrolled(2), "Unrolled"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_asked_of_the_kernel(
    solver: DampedPicard | Anderson, gradient: GradientRule, iteration: str
) -> None:
    model = random_model()
    recurrence = model._recurrence(random_tokens(1, 1), model.init_state(1))
    start = torch.zeros(1, 1, 8, device=DEVICE)
    asked = (model.cells, list(model.parameters()), recurrence, solver, gradient, start)
    request = request_of(*asked)
    assert (request.iteration, request.differentiated) == (iteration, True)
    with torch.no_grad():
        assert not request_of(*asked).differentiated
    with pytest.raises(InputError, match="backend 'triton' cannot run this"):
        solved(model, random_tokens(1, 1), "sequential", solver=solver, gradient=gradient)


@TRITON
def test_one_weight_that_is_trained_is_enough_for_a_gradient_to_be_wanted() -> None:
    model = random_model(layers=2)
    model.requires_grad_(False)
    assert not solved(model, random_tokens(1, 1), "sequential").latents.requires_grad
    model.latent_norm.weight.requires_grad_(True)
    with pytest.raises(InputError, match="a gradient is wanted, and the kernel computes none"):
        solved(model, random_tokens(1, 1), "sequential")
    model.sequential_backend = "loop"
    assert solved(model, random_tokens(1, 1), "sequential").latents.requires_grad


def by(backend: str, model: ImplicitModel, tokens: Tensor, state: State | None = None, **options: Any) -> Any:
    """Run the sequential mode without gradient; the options are those of `Solve` and the lengths."""
    model.sequential_backend = backend
    lengths = options.pop("lengths", None)
    with torch.no_grad():
        return model.run(tokens, state, Solve("sequential", **options), lengths=lengths)


@NUMBA
def test_padding_is_passed_over() -> None:
    model = quick_mamba2()
    tokens, state, lengths = tokens_of(4, 6), random_state(model, 4), torch.tensor([6, 1, 4, 2])
    options = {"lengths": lengths, "stopping": Stopping(rtol=1e-8)}
    found, expected = (by(name, model, tokens, state, **options) for name in ("numba", "loop"))
    assert_equal(Solved(found), Solved(expected), FLOAT64)
    options["stopping"] = Stopping(rtol=1e-8, max_iterations=2)  # no token converges, nor what follows it
    found, expected = (by(name, model, tokens, state, **options) for name in ("numba", "loop"))
    assert_equal(Solved(found), Solved(expected), FLOAT64)
    assert int(found.solution.status[1, 1]) == Status.MAX_ITERATIONS


@NUMBA
def test_large_numbers_are_no_fault_of_the_exponential_and_threads_change_nothing() -> None:
    """Saturated gates, decays of 0 and steps above 20, where PyTorch takes softplus for the identity."""
    model, threads = quick_mamba2(), torch.get_num_threads()
    with torch.no_grad():
        (injection,) = model.injections.parameters()
        injection.mul_(300)
    found, expected = (by(name, model, tokens_of(4, 5)) for name in ("numba", "loop"))
    assert_equal(Solved(found), Solved(expected), FLOAT64)
    try:
        torch.set_num_threads(3 if threads == 1 else 1)
        again = by("numba", model, tokens_of(4, 5))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(again.solution.latents, found.solution.latents)


@NUMBA
def test_the_default_mode_takes_it_and_differentiates_all_tokens_together() -> None:
    model, tokens = quick_mamba2(), tokens_of(3, 5)
    stopping, gradient = Stopping(rtol=1e-10), Phantom(3)
    model.sequential_backend = "auto"
    gradients = []
    for mode in ("auto", "simultaneous"):
        output = model.run(tokens, solve=Solve(mode, stopping=stopping, gradient=gradient))
        assert output.solution is not None
        assert output.solution.mode == ("sequential" if mode == "auto" else "simultaneous")
        total = output.logits.square().sum() + sum(part.square().sum() for part in output.state.values())
        gradients.append(torch.autograd.grad(total, list(model.parameters())))
    for found, expected in zip(*gradients, strict=True):
        # Both start from fixed points to 1e-10 of their norm.
        assert (found - expected).abs().max() <= 1e-7 * expected.abs().max().clamp_min(1e-3)


@NUMBA
@torch.no_grad()
def test_the_op_refuses_a_mask_of_another_shape_and_an_unknown_backend() -> None:
    given = arguments(backend="numba")
    with pytest.raises(InputError, match=r"mask has shape \(2, 4\); .* it must be \(2, 3\)"):
        sequential_solve(**given, mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(InputError, match="numbra"):
        sequential_solve(**{**given, "backend": "numbra"})
    masked = sequential_solve(**given, mask=torch.ones(2, 3, dtype=torch.bool))
    assert torch.equal(masked.value, sequential_solve(**given).value)


@pytest.mark.parametrize("name", [by_numba(), "loop"])
def test_a_latent_whose_norm_overflows_is_not_called_a_fixed_point(name: str) -> None:
    model, tokens = quick_mamba2(), tokens_of(2, 3)
    with torch.no_grad():
        model.latent_norm.weight.fill_(1.2e19)  # 8 squares of it are more than float32 holds
    exact = by("loop", model, tokens).solution
    assert (exact.status == Status.CONVERGED).all()
    # The block reads the latent through a norm that overflows too.
    options = {"start": exact.latents.float(), "stopping": Stopping(rtol=1e-6, max_iterations=1)}
    found = by(name, model.float(), tokens, **options).solution
    assert (found.status == Status.NON_FINITE).all()
