"""The solve by numba against the plain loop, in both element types; it says the same of every token."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.cells import Mamba2Cell, RMSNorm
from implicit.fixed_point import DampedPicard, Status, Stopping
from implicit.gradients import Phantom
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Solve
from implicit.ops.sequential_solve import sequential_solve
from tests.small_models import quick_mamba2 as random_model
from tests.small_models import random_state
from tests.small_models import random_tokens as tokens_of
from theory.transition import State

pytest.importorskip("numba")

SIZES: list[dict[str, Any]] = [
    {},
    {"residual": True, "d_conv": 3},
    {"d_model": 24, "head_size": 8, "d_state": 5, "groups": 2, "d_conv": 1},
    {"d_model": 12, "head_size": 8, "groups": 3, "layers": 2, "d_conv": 2, "residual": True},
    {"layers": 3, "d_conv": 6, "damping": 1.0},
    {"d_model": 5, "expand": 3, "head_size": 3, "d_state": 1},
    {"d_model": 72, "head_size": 9, "d_state": 65},
]
FLOAT64 = 1e-10
"""Asked of float64; what is left of it is rounding, some 1e-14."""
FLOAT32 = 1e-5
"""Sums of at most 144 products and a dozen iterations that contract: some hundred roundings of 6e-8."""


def by(backend: str, model: ImplicitModel, tokens: Tensor, state: State | None = None, **options: Any) -> Any:
    """Run the sequential mode without gradient; the options are those of `Solve` and the lengths."""
    model.sequential_backend = backend
    lengths = options.pop("lengths", None)
    with torch.no_grad():
        return model.run(tokens, state, Solve("sequential", **options), lengths=lengths)


def assert_same(found: Any, expected: Any, tolerance: float) -> None:
    ours, theirs = found.solution, expected.solution
    assert ours.status.tolist() == theirs.status.tolist()
    assert ours.iterations.tolist() == theirs.iterations.tolist()
    pairs = [(ours.latents, theirs.latents), (found.logits, expected.logits)]
    pairs += [(tensor, expected.state[name]) for name, tensor in found.state.items()]
    for result, reference in pairs:
        assert result.dtype == reference.dtype
        assert result.shape == reference.shape
        if result.numel():  # a convolution of width 1 has no window
            assert (result - reference).abs().max() <= tolerance * reference.abs().max().clamp_min(1)
    assert (ours.residual - theirs.residual).abs().max() <= tolerance * theirs.latents.norm(dim=-1).max()


@pytest.mark.parametrize("scale", [1e-36, 1e-24], ids=str)
@torch.no_grad()
def test_norms_whose_squares_vanish_are_those_of_the_loop(scale: float) -> None:
    model = random_model(torch.float32)
    model.latent_norm.weight.mul_(scale)
    for limit in (2, 60):
        stopping = Stopping(rtol=1e-3, max_iterations=limit)
        found, expected = (
            by(backend, model, tokens_of(2, 5), stopping=stopping) for backend in ("numba", "loop")
        )
        assert found.solution.status.tolist() == expected.solution.status.tolist()
        assert (found.solution.residual > 0).all()
        torch.testing.assert_close(
            found.solution.residual / scale, expected.solution.residual / scale, rtol=1e-3, atol=1e-5
        )
    assert found.solution.converged.all()


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_it_equals_the_loop_in_float64(sizes: dict[str, Any]) -> None:
    model = random_model(**sizes)
    tokens, state = tokens_of(11, 5), random_state(model, 11)  # more sequences than places
    start = torch.randn(11, 5, model.config.d_model, generator=torch.Generator().manual_seed(4)).double()
    options = {"start": start, "stopping": Stopping(rtol=1e-6, atol=1e-9, max_iterations=60)}
    found, expected = (by(name, model, tokens, state, **options) for name in ("numba", "loop"))
    assert expected.solution.share_converged > 0.3
    assert_same(found, expected, FLOAT64)


@pytest.mark.parametrize("sizes", SIZES[:4], ids=str)
def test_it_equals_the_loop_in_float32(sizes: dict[str, Any]) -> None:
    model = random_model(torch.float32, **sizes)
    found, expected = (
        by(name, model, tokens_of(3, 4), stopping=Stopping(rtol=1e-2, max_iterations=40))
        for name in ("numba", "loop")
    )
    assert_same(found, expected, FLOAT32)


@pytest.mark.parametrize("sizes", [{"d_conv": 2, "d_state": 1}, {"d_conv": 1}], ids=str)
def test_what_it_is_given_stays_as_it_is(sizes: dict[str, Any]) -> None:
    model = random_model(**sizes)
    state = random_state(model, 2)
    kept = {name: tensor.clone() for name, tensor in state.items()}
    by("numba", model, tokens_of(2, 3), state)
    for name, tensor in kept.items():
        assert torch.equal(state[name], tensor)


def test_padding_is_passed_over() -> None:
    model = random_model()
    tokens, state, lengths = tokens_of(4, 6), random_state(model, 4), torch.tensor([6, 1, 4, 2])
    options = {"lengths": lengths, "stopping": Stopping(rtol=1e-8)}
    found, expected = (by(name, model, tokens, state, **options) for name in ("numba", "loop"))
    assert_same(found, expected, FLOAT64)
    options["stopping"] = Stopping(rtol=1e-8, max_iterations=2)  # no token converges, nor what follows it
    found, expected = (by(name, model, tokens, state, **options) for name in ("numba", "loop"))
    assert_same(found, expected, FLOAT64)
    assert int(found.solution.status[1, 1]) == Status.MAX_ITERATIONS


@pytest.fixture
def one_thread() -> Iterator[None]:
    """With two, PyTorch's own product that makes the injections depends on the batch in its last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_a_sequence_depends_on_no_other() -> None:
    """To the last bit: whoever stands beside it, the arithmetic of a sequence is the same."""
    model = random_model(torch.float32)
    tokens, state = tokens_of(13, 7), random_state(model, 13)
    stopping = Stopping(rtol=1e-5, max_iterations=30)
    together = by("numba", model, tokens, state, stopping=stopping)
    assert len(set(together.solution.iterations.flatten().tolist())) > 2  # they stop at different times
    for kept in ([4], [12, 0], list(range(3, 13))):
        part = {name: tensor[kept] for name, tensor in state.items()}
        alone = by("numba", model, tokens[kept], part, stopping=stopping)
        assert torch.equal(alone.solution.latents, together.solution.latents[kept])
        assert torch.equal(alone.solution.iterations, together.solution.iterations[kept])
        for name, tensor in alone.state.items():
            assert torch.equal(tensor, together.state[name][kept])


def test_large_numbers_are_no_fault_of_the_exponential_and_threads_change_nothing() -> None:
    """Saturated gates, decays of 0 and steps above 20, where PyTorch takes softplus for the identity."""
    model, threads = random_model(), torch.get_num_threads()
    with torch.no_grad():
        (injection,) = model.injections.parameters()
        injection.mul_(300)
    found, expected = (by(name, model, tokens_of(4, 5)) for name in ("numba", "loop"))
    assert_same(found, expected, FLOAT64)
    try:
        torch.set_num_threads(3 if threads == 1 else 1)
        again = by("numba", model, tokens_of(4, 5))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(again.solution.latents, found.solution.latents)


def test_the_limit_ends_a_token_and_takes_convergence_from_those_after_it() -> None:
    model = random_model()
    tokens = tokens_of(3, 4)
    fixed = by("loop", model, tokens, stopping=Stopping(rtol=1e-9)).solution.latents
    fixed[1, 1] = 100.0
    options = {"start": fixed, "stopping": Stopping(rtol=1e-6, max_iterations=4)}
    found, expected = (by(name, model, tokens, **options) for name in ("numba", "loop"))
    assert_same(found, expected, FLOAT64)
    assert found.solution.status[1].tolist() == [Status.CONVERGED] + 3 * [Status.MAX_ITERATIONS]
    assert found.solution.iterations[1, 1] == 4


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_what_is_not_finite_stops_alone_and_is_told(bad: float) -> None:
    model = random_model()
    tokens, state = tokens_of(4, 3), random_state(model, 4)
    sound = by("numba", model, tokens, state)
    state["ssm.0"] = state["ssm.0"].clone()
    state["ssm.0"][2, 0, 1, 0] = bad
    found, expected = (by(name, model, tokens, state) for name in ("numba", "loop"))
    assert found.solution.status.tolist() == expected.solution.status.tolist()
    assert found.solution.status[2].tolist() == [Status.NON_FINITE] * 3
    assert found.solution.iterations[2].tolist() == [1, 1, 1]
    assert found.solution.latents.isfinite().all()  # the last iterate, never the image that was not finite
    others = [0, 1, 3]
    assert torch.equal(found.solution.latents[others], sound.solution.latents[others])


def test_the_default_mode_takes_it_and_differentiates_all_tokens_together() -> None:
    model, tokens = random_model(), tokens_of(3, 5)
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


def test_the_op_refuses_a_mask_of_another_shape_and_an_unknown_backend() -> None:
    model = random_model()
    from implicit.modes.fused import self_map_of

    with torch.no_grad():
        self_map = self_map_of(model.cells, model.norms, model.latent_norm, residual=False)
        state = model.init_state(2)
        injections = torch.zeros(1, 2, 3, self_map.d_in_proj).double()
        given = (
            self_map,
            injections,
            torch.ones(2, 3, 8).double(),
            state["conv.0"][None],
            state["ssm.0"][None],
        )
        rule = DampedPicard(), Stopping(rtol=1e-2)
        with pytest.raises(InputError, match=r"mask has shape \(2, 4\); .* it must be \(2, 3\)"):
            sequential_solve(*given, *rule, torch.ones(2, 4, dtype=torch.bool))
        with pytest.raises(InputError, match="numbra"):
            sequential_solve(*given, *rule, backend="numbra")
        mask = torch.ones(2, 3, dtype=torch.bool)
        assert torch.equal(sequential_solve(*given, *rule, mask).value, sequential_solve(*given, *rule).value)


class HalvedNorm(RMSNorm):
    def forward(self, vector: Tensor) -> Tensor:
        return super().forward(vector) / 2


class HalvedCell(Mamba2Cell):
    def step(self, *arguments: Any) -> Any:
        output, state = super().step(*arguments)
        return output / 2, state


def test_parts_of_your_own_and_hooks_are_not_passed_by() -> None:
    """The kernel knows the weights and not the code: what overrides it, or listens, is run."""
    tokens = tokens_of(2, 3)
    usual = by("auto", random_model(), tokens).logits
    with_norm, with_cell, heard = random_model(), random_model(), random_model()
    with_norm.latent_norm = HalvedNorm(8).double()
    with_cell.mixers[0].__class__ = HalvedCell
    seen = []
    handle = heard.mixer_norms[0].register_forward_hook(lambda *arguments: seen.append(arguments[2]))
    for model in (with_norm, with_cell, heard):
        found, expected = (by(backend, model, tokens) for backend in ("auto", "loop"))
        assert torch.equal(found.logits, expected.logits)
        assert (found.logits - usual).abs().max() > 1e-6 or model is heard  # rounding is 1e-14
        with pytest.raises(InputError, match="without MLP, adapters and hooks"):
            by("numba", model, tokens)
    assert seen
    handle.remove()
    count = len(seen)
    assert torch.equal(by("auto", heard, tokens).logits, usual)
    assert len(seen) == count


@pytest.mark.parametrize("name", ["numba", "loop"])
def test_a_latent_whose_norm_overflows_is_not_called_a_fixed_point(name: str) -> None:
    model, tokens = random_model(), tokens_of(2, 3)
    with torch.no_grad():
        model.latent_norm.weight.fill_(
            1.2e19
        )  # the squares of 8 such entries add up to more than float32 holds
    exact = by("loop", model, tokens).solution
    assert (exact.status == Status.CONVERGED).all()
    # The block reads the latent through a norm that overflows too.
    options = {"start": exact.latents.float(), "stopping": Stopping(rtol=1e-6, max_iterations=1)}
    found = by(name, model.float(), tokens, **options).solution
    assert (found.status == Status.NON_FINITE).all()
