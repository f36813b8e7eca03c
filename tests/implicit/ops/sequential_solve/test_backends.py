"""Who runs the sequential mode and what is said about it, and weights that are no self-map."""

from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.ops import explain_sequential_solve
from implicit.ops.sequential_solve import SelfMap, choose
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
        ({"latent_norm": torch.zeros(8, dtype=torch.float64)}, "latent_norm is torch.float64 and out_proj"),
        ({"latent_norm": torch.zeros(8, device="meta")}, "latent_norm is on meta and out_proj on .*; move"),
    ],
    ids=["shape", "axes", "heads", "groups", "dtype", "device"],
)
def test_weights_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SelfMap(**{**WEIGHTS, **changes})


@pytest.mark.triton
def test_the_explanation_lists_all_with_the_remedy() -> None:
    explanation = explain_sequential_solve("mps", torch.float64)
    assert explanation.chosen == choose("auto", Request("mps", torch.float64)) == "loop"
    lines = str(explanation).splitlines()
    assert lines[0] == "auto chooses loop: the weights are on mps, for which there is no kernel"
    assert [line.split()[0] for line in lines[1:]] == ["loop", "numba", "triton"]
    assert "the weights are on mps; move them to the CPU" in lines[2]
    assert "cast them to torch.float32 or torch.bfloat16" in lines[3]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"dtype": torch.float64}, None),
        ({"padded": True}, None),
        ({"d_model": 4097}, None),
        ({"dtype": torch.bfloat16}, "cast them to torch.float32 or torch.float64"),
        ({"others": (torch.float32, torch.float64)}, "the weights are torch.float32 and an input"),
        ({"iteration": "Anderson"}, "the iteration is that of Anderson, and the kernel's is DampedPicard"),
        ({"differentiated": True}, "solve under torch.no_grad()"),
    ],
    ids=str,
)
def test_on_a_cpu_auto_is_numba_where_it_can(changes: dict[str, Any], reason: str | None) -> None:
    pytest.importorskip("numba")
    asked = Request("cpu", **changes)
    assert choose("auto", asked) == ("numba" if reason is None else "loop")
    if reason is not None:
        assert reason in BACKENDS.explain(asked).reason
        with pytest.raises(InputError, match=r"^backend 'numba' cannot run this: .*, or use backend='loop'$"):
            choose("numba", asked)


@pytest.mark.triton
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"dtype": torch.bfloat16}, None),
        ({"dtype": torch.float64}, "cast them to torch.float32 or torch.bfloat16"),
        ({"d_model": 4097}, "d_model is 4097; choose one of 1 to 4096"),
        ({"d_state": 4097}, "d_state is 4097; choose one of 1 to 4096"),
        ({"iteration": "Anderson"}, "the iteration is that of Anderson, and the kernel's is DampedPicard"),
        ({"differentiated": True}, "solve under torch.no_grad()"),
        ({"padded": True}, "give sequences of one length"),
    ],
    ids=str,
)
def test_on_a_gpu_auto_is_the_kernel_where_it_can(changes: dict[str, Any], reason: str | None) -> None:
    explanation = BACKENDS.explain(Request("cuda", **changes))
    assert explanation.chosen == choose("auto", Request("cuda", **changes))
    assert explanation.chosen == ("triton" if reason is None else "loop")
    if reason is not None:
        assert reason in explanation.reason
        with pytest.raises(
            InputError, match=r"^backend 'triton' cannot run this: .*, or use backend='loop'$"
        ):
            choose("triton", Request("cuda", **changes))


def test_a_missing_package_and_an_unknown_backend_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="tritn"):
        choose("tritn", Request("cuda"))
    monkeypatch.setattr("implicit.ops.backends.find_spec", lambda name: None)
    assert "pip install triton" in str(explain_sequential_solve("cuda").refusals["triton"])
    assert "pip install numba" in str(explain_sequential_solve("cpu").refusals["numba"])
    assert explain_sequential_solve("cpu").chosen == "loop"
