"""An infinity or NaN in one token reaches no earlier tokens and no other sequences.

Every other sequence of a batch has a number that is not finite; those between them are computed by the same
thread in the same memory. The oracles go token by token, so that no later token can
reach an earlier one: the recurrence as it is written down, and the mixer's definition on one token at a time.
"""

import functools
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from implicit.ops.delta_rule.chunked import delta_rule
from implicit.ops.delta_rule.reference import delta_rule_reference
from implicit.ops.ssd import ssd, ssd_chunked, ssd_reference
from tests.implicit.ops.mamba2_mixer.test_mixer import by_definition, by_kernels, draw

pytest.importorskip("numba")

LENGTH, HEADS, STATE_SIZE = 70, 4, 5
PLACES = (0, 3, 7, 8, 31, 32, 37, 63, 64, 66, 69)
"""First and last tokens and such inside of tiles of 4 or 8, of chunks of 32 and of the mixer's runs of 64."""
VALUES = (torch.nan, torch.inf, -torch.inf)
SIZES = (3, 16)
"""Channels of a head: filled up to a register, and whole registers."""
FLOATS = (torch.float32, torch.float64)

Scan = Callable[..., tuple[Tensor, Tensor]]


def normal(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def assert_nothing_reaches_the_others(
    run: Scan, oracle: Scan, clean: Sequence[Tensor], part: int, entry: int
) -> None:
    """Write what is not finite to an entry of tokens of a part, in every other one of equal sequences."""
    cases = [(place, value) for place in PLACES for value in VALUES]
    batch = [tensor.repeat(2 * len(cases), *[1] * (tensor.ndim - 1)) for tensor in clean]
    # In the same places: PyTorch's softplus of a number depends on whether it stands at the end of an array.
    outputs_without, states_without = run(*batch)
    for number, (place, value) in enumerate(cases):
        batch[part][2 * number, place].view(-1)[entry] = value
    outputs, states = run(*batch)
    expected, expected_states = oracle(*batch)
    assert outputs_without.isfinite().all()
    assert states_without.isfinite().all()
    assert torch.equal(outputs[1::2], outputs_without[1::2])
    assert torch.equal(states[1::2], states_without[1::2])
    for number, (place, value) in enumerate(cases):
        before = outputs[2 * number, :place], outputs_without[2 * number, :place]
        assert torch.equal(*before), f"{value} in token {place} reaches earlier tokens"
    assert torch.equal(outputs.isfinite().all(-1), expected.isfinite().all(-1))
    assert torch.equal(states.isfinite(), expected_states.isfinite())


# Both sizes and both element types for every part, each pair of them in turn.
@pytest.mark.parametrize(
    ("part", "dtype", "size"),
    [(part, dtype, SIZES[(part + wide) % 2]) for part in range(4) for wide, dtype in enumerate(FLOATS)],
    ids=str,
)
def test_the_scan_is_causal(part: int, dtype: torch.dtype, size: int) -> None:
    x, state = normal(0, 1, LENGTH, HEADS, size), normal(1, 1, HEADS, size, STATE_SIZE)
    B, C = normal(2, 1, LENGTH, 2, STATE_SIZE), normal(3, 1, LENGTH, 2, STATE_SIZE)
    dt, A = normal(4, 1, LENGTH, HEADS).abs(), -torch.linspace(0.1, 2, HEADS)
    clean = [tensor.to(dtype) for tensor in (x, dt, B, C, state)]

    def scan(op: Scan) -> Scan:
        return lambda x, dt, B, C, state: op(x, dt, A.to(dtype), B, C, state)

    kernels = scan(functools.partial(ssd, backend="numba"))
    assert_nothing_reaches_the_others(kernels, scan(ssd_reference), clean, part, entry=2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_resets_do_not_forget_what_is_not_finite(dtype: torch.dtype) -> None:
    """The decay of a chunk of resets is 0 after rounding, and 0 times NaN is NaN."""
    x, B = torch.ones(2, 1, 100, 1, 1, dtype=dtype)
    dt = torch.ones(1, 100, 1)
    dt[:, 32:] = 400
    x[:, 10] = torch.nan
    y, state = ssd(x, dt.to(dtype), -torch.ones(1, dtype=dtype), B, B, backend="numba")
    assert y[:, :10].isfinite().all()
    assert y[:, 10:].isnan().all()
    assert state.isnan().all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["gate", "x", "B", "C", "dt"])
def test_the_mixer_is_causal(
    name: str, dtype: torch.dtype, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The definition takes differences of logarithms of decays, which are NaN where both are infinite.
    monkeypatch.setattr("implicit.ops.mamba2_mixer.dispatch.composition", lambda _: ssd_reference)
    features, shared = HEADS * size, 2 * STATE_SIZE
    channels = features + 2 * shared
    first = {"gate": 0, "x": features, "B": 2 * features}
    first |= {"C": first["B"] + shared, "dt": features + channels}
    given = draw(LENGTH, batch=1, heads=HEADS, head_size=size, state_size=STATE_SIZE, dtype=dtype)
    clean = [given.projected, given.window, given.state]

    def kernels(projected: Tensor, window: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        return by_kernels(projected, window, *given[2:-1], state, norm_groups=2)

    def token_by_token(projected: Tensor, window: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        outputs = []
        for token in projected.split(1, dim=1):
            output, state = by_definition(token, window, *given[2:-1], state, norm_groups=2)
            outputs.append(output)
            read = token[..., features : features + channels].mT
            window = torch.cat([window[..., 1:], read], dim=-1)
        return torch.cat(outputs, dim=1), state

    assert_nothing_reaches_the_others(kernels, token_by_token, clean, 0, first[name] + 2)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("value", VALUES, ids=str)
@pytest.mark.parametrize("scan", ["ssd", "delta rule"])
def test_chunks_are_causal(scan: str, value: float, part: int) -> None:
    vectors = [normal(seed, 2, LENGTH, HEADS, STATE_SIZE) for seed in range(3)]
    numbers = normal(4, 2, LENGTH, HEADS).abs()
    chunked: Scan = ssd_chunked
    reference: Scan = ssd_reference
    if scan == "ssd":
        inputs = [vectors[0], numbers, *vectors[1:]]
    else:
        inputs = [*vectors, numbers.clamp(max=1)]
        chunked, reference = delta_rule, delta_rule_reference
    inputs[part][1, 37].view(-1)[2] = value
    if scan == "ssd":
        inputs.insert(2, -torch.linspace(0.1, 2, HEADS, dtype=torch.float64))
    expected = reference(*inputs)
    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    for found in (chunked(*inputs), chunked(*leaves)):
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one.isfinite(), other.isfinite())
            torch.testing.assert_close(one[one.isfinite()], other[one.isfinite()])
