"""The gated delta rule: the definition against explicit matrices, the chunked form against the definition."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.delta_rule import delta_rule, delta_rule_reference, delta_rule_states
from tests.implicit.ops.conftest import with_gradients

FORMS: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "reference": delta_rule_reference,
    "chunked": delta_rule,
}


class Arguments(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    log_decay: Tensor | None
    initial_state: Tensor


def random_arguments(
    length: int = 7,
    *,
    steps_per_token: int = 1,
    gated: bool = True,
    batch: int = 2,
    heads: int = 2,
    d_k: int = 5,
    d_v: int = 3,
    dtype: torch.dtype = torch.float64,
) -> Arguments:
    """Draw unit keys and β in (0, 2), so that no step makes the memory longer but by what it writes."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    steps = steps_per_token * length
    arguments = Arguments(
        normal(batch, length, heads, d_k),
        functional.normalize(normal(batch, steps, heads, d_k), dim=-1),
        normal(batch, steps, heads, d_v),
        2 * torch.sigmoid(normal(batch, steps, heads)),
        -functional.softplus(normal(batch, steps, heads)) if gated else None,
        normal(batch, heads, d_k, d_v),
    )
    return Arguments(*(None if tensor is None else tensor.to(dtype) for tensor in arguments))  # type: ignore[arg-type]


def dense(arguments: Arguments) -> tuple[Tensor, Tensor]:
    """Every output, and the memory before every token and after the last, with explicit matrices."""
    given: list[Any] = [tensor if tensor is None else tensor.numpy() for tensor in arguments]
    q, k, v, beta, log_decay, initial_state = given
    batch, length, heads, d_k = q.shape
    steps_per_token = k.shape[1] // length
    outputs = np.zeros((batch, length, heads, v.shape[3]))
    states = np.zeros((batch, length + 1, *initial_state.shape[1:]))
    for b in range(batch):
        for h in range(heads):
            memory = initial_state[b, h]
            states[b, 0, h] = memory
            for t in range(length):
                for s in range(t * steps_per_token, (t + 1) * steps_per_token):
                    transition = np.eye(d_k) - beta[b, s, h] * np.outer(k[b, s, h], k[b, s, h])
                    if log_decay is not None:
                        transition = np.exp(log_decay[b, s, h]) * transition
                    memory = transition @ memory + beta[b, s, h] * np.outer(k[b, s, h], v[b, s, h])
                states[b, t + 1, h] = memory
                outputs[b, t, h] = memory.T @ q[b, t, h]
    return torch.from_numpy(outputs), torch.from_numpy(states)


def close(result: Tensor, expected: Tensor) -> None:
    # float64: sums of at most 64 terms of order one in another order, and every transition is contracting.
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-10)


def gradients(arguments: Arguments, form: str) -> dict[str, Tensor]:
    leaves = Arguments(*(None if a is None else a.clone().requires_grad_() for a in arguments))  # type: ignore[arg-type]
    present = {name: leaf for name, leaf in leaves._asdict().items() if leaf is not None}
    found = with_gradients(FORMS[form](*leaves), list(present.values()))
    return dict(zip(present, found[2:], strict=True))


# Every length with one, two or three steps per token, and both forms with and without a decay.
@pytest.mark.parametrize(("length", "steps_per_token"), [(1, 1), (63, 2), (64, 3), (65, 1), (130, 2), (7, 3)])
@pytest.mark.parametrize("gated", [False, True], ids=["no-decay", "decay"])
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_recurrence_with_explicit_matrices(
    form: str, length: int, steps_per_token: int, gated: bool
) -> None:
    arguments = random_arguments(length, steps_per_token=steps_per_token, gated=gated)
    _, k, v, beta, log_decay, initial_state = arguments
    y, state = FORMS[form](*arguments)
    expected, states = dense(arguments)
    close(y, expected)
    close(state, states[:, -1])
    close(delta_rule_states(k, v, beta, initial_state, log_decay, steps_per_token), states)
    nothing = torch.zeros_like(initial_state)
    y, state = FORMS[form](*arguments[:5])
    expected, states = dense(arguments._replace(initial_state=nothing))
    close(y, expected)
    close(state, states[:, -1])


@pytest.mark.parametrize("steps_per_token", [1, 2])
def test_the_chunk_size_does_not_matter(steps_per_token: int) -> None:
    arguments = random_arguments(65, steps_per_token=steps_per_token)
    expected = delta_rule_reference(*arguments)
    for chunk_size in (1, 2, 7, 64, 65, 1000):
        for result, reference in zip(delta_rule(*arguments, chunk_size=chunk_size), expected, strict=True):
            close(result, reference)


@pytest.mark.parametrize(
    ("length", "steps_per_token", "gated"), [(1, 2, True), (63, 1, False), (65, 2, False), (130, 1, True)]
)
def test_all_gradients_of_chunked_equal_those_of_the_reference(
    length: int, steps_per_token: int, gated: bool
) -> None:
    arguments = random_arguments(length, steps_per_token=steps_per_token, gated=gated)
    results, expected = gradients(arguments, "chunked"), gradients(arguments, "reference")
    assert results.keys() == expected.keys()
    for name, reference in expected.items():
        # float64; a gradient sums over all that follows: errors go with its size.
        error = (results[name] - reference).abs().max() / reference.abs().max()
        assert error < 1e-10, name


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # forward mode
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps_per_token", [1, 2])
def test_first_and_second_derivatives_by_finite_differences(form: str, steps_per_token: int) -> None:
    arguments = random_arguments(3, steps_per_token=steps_per_token, batch=1, heads=1, d_k=2, d_v=2)
    leaves = tuple(a.requires_grad_() for a in arguments if a is not None)

    run = FORMS[form]
    # first derivatives entry by entry, second ones in random directions
    assert torch.autograd.gradcheck(run, leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("form", FORMS)
def test_it_can_be_mapped_over_a_batch(form: str) -> None:
    arguments = random_arguments(5)

    def alone(*tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(result[0] for result in FORMS[form](*(tensor[None] for tensor in tensors)))

    of_all = torch.func.vmap(alone)(*(tensor for tensor in arguments if tensor is not None))
    for result, expected in zip(of_all, delta_rule(*arguments), strict=True):
        close(result, expected)


@pytest.mark.parametrize("decay", [-1e4, -1e2, None])
def test_float32_stays_near_the_exact_result_also_behind_a_reset(decay: float | None) -> None:
    arguments = random_arguments(130, dtype=torch.float32)
    assert arguments.log_decay is not None
    if decay is not None:
        log_decay = arguments.log_decay * 1e-3
        log_decay[:, 20] = decay
        arguments = arguments._replace(log_decay=log_decay)
    exact = Arguments(*(None if a is None else a.double() for a in arguments))  # type: ignore[arg-type]
    y, state = delta_rule(*arguments)
    expected, states = dense(exact)
    # float32: sums of 64 terms; decays summed in float32 would be wrong by 1e-3 after exp(-1e4).
    torch.testing.assert_close(y.double(), expected, rtol=2e-5, atol=2e-5)
    torch.testing.assert_close(state.double(), states[:, -1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a._replace(q=a.q[0]), "q has shape"),
        (lambda a: a._replace(k=a.k[:, :5]), "k has 5 steps for 7 tokens"),
        (lambda a: a._replace(v=a.v[:, :5]), "v has shape"),
        (lambda a: a._replace(beta=a.beta[..., :1]), "beta has shape"),
        (lambda a: a._replace(log_decay=a.beta[:, :1]), "log_decay has shape"),
        (lambda a: a._replace(initial_state=a.initial_state.mT), "initial_state has shape"),
        (lambda a: a._replace(v=a.v.long()), "v is torch.int64"),
        (lambda a: a._replace(q=a.q[:, :0], k=a.k[:, :0]), "at least 1"),
    ],
)
def test_refuses_what_does_not_fit(change: Callable[[Arguments], Arguments], message: str) -> None:
    with pytest.raises(InputError, match=message):
        delta_rule(*change(random_arguments()))


def test_refuses_an_empty_chunk() -> None:
    with pytest.raises(InputError, match="chunk_size is 0"):
        delta_rule(*random_arguments(), chunk_size=0)


@pytest.mark.parametrize("steps_per_token", [1, 2])
def test_the_gradient_of_decays_that_erase_the_memory_is_not_rounding(steps_per_token: int) -> None:
    """Across such a step lies e^-200, whatever float32 makes of the sums on either side."""

    def gradient(dtype: torch.dtype, form: str) -> Tensor:
        given = random_arguments(24, steps_per_token=steps_per_token, dtype=dtype)
        assert given.log_decay is not None
        given.log_decay[:, 10] = -200.0
        y, _ = FORMS[form](*given._replace(log_decay=given.log_decay.requires_grad_()))
        return torch.autograd.grad(y.square().sum(), given.log_decay)[0].double()

    exact = gradient(torch.float64, "reference")
    assert exact[:, 10].abs().max() < 1e-30
    found = gradient(torch.float32, "chunked")
    assert found[:, 10].abs().max() < 1e-12  # sums over a chunk, in float64
    torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-4 * float(exact.abs().max()))
