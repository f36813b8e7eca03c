"""The choice of what runs the sequential mode, and weights that are no self-map."""

from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.ops.sequential_solve import SelfMap
from implicit.ops.sequential_solve.solve import BACKENDS, Request

WEIGHTS: dict[str, Any] = {
    "mixer_norm": torch.ones(1, 8),
    "in_proj": torch.zeros(1, 44, 8),
    "conv_weight": torch.zeros(1, 24, 4),
    "conv_bias": torch.zeros(1, 24),
    "dt_bias": torch.zeros(1, 4),
    "A_log": torch.zeros(1, 4),
    "D": torch.ones(1, 4),
    "gate_norm": torch.ones(1, 16),
    "out_proj": torch.zeros(1, 8, 16),
    "latent_norm": torch.ones(8),
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv_bias": torch.zeros(1, 23)}, r"conv_bias has shape \(1, 23\); .* it must be \(1, 24\)"),
        ({"in_proj": torch.zeros(44, 8)}, r"in_proj has shape \(44, 8\); give three axes"),
        ({"D": torch.zeros(4)}, r"D has shape \(4,\); give \[layers, heads\]"),
        ({"groups": 3}, "D has 4 heads for d_inner 16 and 3 groups; heads must divide"),
        (
            {"latent_norm": torch.zeros(8, dtype=torch.float64)},
            "latent_norm is torch.float64; cast it to torch.float32",
        ),
        ({"latent_norm": torch.zeros(8, device="meta")}, "latent_norm is on meta and out_proj on .*; move"),
    ],
    ids=["shape", "axes", "heads", "groups", "dtype", "device"],
)
def test_weights_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SelfMap(**{**WEIGHTS, **changes})


ANDERSON = {"iteration": "Anderson"}
NOT_ANDERSON = "the iteration is that of Anderson, and the kernel's is DampedPicard"
WITH_GRADIENT = {"differentiated": True}
NUMBA: list[tuple[dict[str, Any], str | None]] = [
    ({"dtype": torch.float64, "padded": True, "d_model": 4097}, None),
    ({"dtype": torch.bfloat16}, "cast them to torch.float32 or torch.float64"),
    ({"others": (torch.float32, torch.float64)}, "the weights are torch.float32 and an input"),
    (ANDERSON, NOT_ANDERSON),
    (WITH_GRADIENT, "solve under torch.no_grad()"),
]
TRITON: list[tuple[dict[str, Any], str | None]] = [
    ({"dtype": torch.bfloat16, "d_model": 4096}, None),
    ({"dtype": torch.float64}, "cast them to torch.float32 or torch.bfloat16"),
    ({"d_model": 4097}, "d_model is 4097; choose one of 1 to 4096"),
    ({"d_state": 4097}, "d_state is 4097; choose one of 1 to 4096"),
    (ANDERSON, NOT_ANDERSON),
    (WITH_GRADIENT, "solve under torch.no_grad()"),
    ({"padded": True}, "give sequences of one length"),
]


@pytest.mark.triton
@pytest.mark.parametrize(
    ("kernel", "device", "changes", "reason"),
    [*(("numba", "cpu", *case) for case in NUMBA), *(("triton", "cuda", *case) for case in TRITON)],
    ids=str,
)
def test_auto_is_the_kernel_where_it_can(
    kernel: str, device: str, changes: dict[str, Any], reason: str | None
) -> None:
    pytest.importorskip("numba")
    asked = Request(device, **changes)
    assert BACKENDS.choose(asked) == (kernel if reason is None else "loop")
    if reason is not None:
        assert reason in BACKENDS.explain(asked).reason
        with pytest.raises(
            InputError, match=rf"^backend '{kernel}' cannot run this: .*, or use backend='loo"
        ):
            BACKENDS.choose(asked, kernel)
