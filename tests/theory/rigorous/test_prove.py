"""`prove_theorem1` on pairs (Φ, G) with known fixed points and Jacobians, and what it must not prove."""

import dataclasses
import itertools
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import dropout

from automata.errors import InputError
from theory import Transition, check_theorem1, layer_jacobians, prove_theorem1
from theory.rigorous.tensors import EnclosedTransitionBatch
from theory.rigorous.tensors.agreement import compare
from theory.transition import State, TransitionBatch

DOUBLE = torch.float64
W = torch.tensor([[0.2, -0.5, 0.1], [0.4, 0.1, -0.3], [0.0, 0.3, 0.2]], dtype=DOUBLE)


def _vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=DOUBLE)


STATES: list[State] = [{"h": _vector(*numbers)} for numbers in ((0, 0, 0), (1, -1, 2), (0.5, 0.25, -1))]


def _transition(
    self_map: Callable[..., Any], update: Callable[..., Any], size: int = 3, **options: Any
) -> Transition:
    return Transition(self_map, update, size, **{"layer_states": (("h",),), **options})


def _gives(z: Any, s: Any) -> Any:
    return {"h": 0.5 * s["h"] + z}


NON_LINEAR = _transition(lambda z, s: torch.tanh(W @ z + s["h"]), _gives)
ROTATION = _vector(0, 1, -1, 0).reshape(2, 2)
TWO: list[State] = [{"h": _vector(0, 0)}, {"h": _vector(1, 1)}]


def assert_holds_its_entry(pair: Transition, state: State, found: Any) -> None:
    ((row, column),), ((low, high),) = found.places, found.here.entries
    entry = layer_jacobians(pair, state, torch.from_numpy(found.here.latent))[0].dense()[row, column].item()
    assert low - 1e-12 <= entry <= high + 1e-12  # float64 evaluation of the entry
    assert high - low < 1e-4


def test_everything_of_a_recurrent_network_is_proved_and_agrees_with_what_is_measured() -> None:
    proof = prove_theorem1(NON_LINEAR, STATES)
    assert proof.proved
    assert check_theorem1(NON_LINEAR, STATES).summary()["verdict"] == "holds"
    for state, found in zip(STATES, proof.states, strict=True):
        assert found.here is not None
        z = torch.from_numpy(found.here.latent)
        # float64 evaluation of Φ, and the distance to the exact fixed point times |∂zΦ − 1| < 2
        assert (torch.tanh(W @ z + state["h"]) - z).abs().max() <= 2 * found.here.error + 1e-15
        slope = torch.diag(1 - z.square()) @ W
        singular = torch.linalg.svdvals(torch.eye(3, dtype=DOUBLE) - slope).min().item()
        assert singular * 0.9 <= found.here.singular_value <= singular
        assert found.here.factor is not None
        assert torch.linalg.eigvals(slope).abs().max().item() <= found.here.factor < 1
        assert_holds_its_entry(NON_LINEAR, state, found)


@pytest.mark.parametrize("kink", [0.0, 0.1])
def test_nothing_of_a_jacobian_is_proved_at_a_kink_beside_the_column_that_is_enclosed(kink: float) -> None:
    """relu(h₁) at h₁ = 0: ∂h'/∂h has no column 1, and is not there as a whole."""
    pair = _transition(lambda z, s: torch.tanh(0.3 * W @ z + functional.relu(s["h"] - kink)), _gives)
    proof = prove_theorem1(pair, [{"h": _vector(1, 0, -0.7)}, {"h": _vector(0.5, 0, 2)}])
    assert proof.summary()["non_diagonal"] == proof.summary()["non_linear"] == (2 if kink else 0)


def _straight_through(z: Any, s: Any) -> Any:
    bent = torch.tanh(W @ z + s["h"])
    return bent + (W @ z + s["h"] - bent).detach()


def _in_place(z: Any, s: Any) -> Any:
    h = s["h"] / 2
    h += z
    return {"h": h}


COUNTED: dict[str, tuple[Transition, list[State], dict[str, int]]] = {
    "of an affine pair all but non-linear": (
        _transition(lambda z, s: W @ z + s["h"], _gives),
        STATES,
        {"existence": 3, "contraction": 3, "orbit": 3, "non_diagonal": 3, "non_linear": 0},
    ),
    "of a diagonal pair neither, as an entry off the diagonal is compared": (
        _transition(lambda z, s: torch.tanh(0.5 * z + s["h"]), _gives),
        STATES,
        {"non_diagonal": 0, "non_linear": 0},
    ),
    "a repelling fixed point, where the iteration starts and does not move": (
        _transition(lambda z, s: torch.tanh(2 * z) + s["h"], lambda z, s: {"h": s["h"] * z.flip(0)}),
        STATES[:1],
        {"existence": 1, "contraction": 0, "non_linear": 0},
    ),
    "no fixed point": (
        _transition(lambda z, s: z + 1 + torch.sin(z) / 2, lambda z, s: {"h": s["h"] + z}),
        STATES[:1],
        {"existence": 0},
    ),
    # Φ = z³ + h z: at h = 3 the fixed point 0 repels, and nothing follows for h near 0.5
    "non-linear asks for contraction at the other state too": (
        _transition(
            lambda z, s: z**3 + s["h"] * z.flip(0), lambda z, s: {"h": s["h"] * (1 + z) + z.flip(0)}, 2
        ),
        [{"h": _vector(0.5, 0.5)}, {"h": _vector(3.0, 3.0)}],
        {"contraction": 1, "non_linear": 0},
    ),
    # Φ(z) = z² + 3/16 whatever h is: the iteration finds 1/4, and so h' is linear; 3/4 repels
    "no two branches of fixed points are compared": (
        _transition(
            lambda z, s: z * z + 3 / 16 + 0 * s["h"],
            lambda z, s: {"h": s["h"] / 2 + z.flip(0) * s["h"].flip(0)},
            2,
        ),
        [{"h": _vector(1.0, 2.0)}, {"h": _vector(-3.0, 0.5)}],
        {"orbit": 2, "non_diagonal": 2, "non_linear": 0},
    ),
    # z₀ = 0 is exact: only its image is asked for
    "a kink at the start": (
        _transition(
            lambda z, s: torch.abs(z) / 4 + z / 8 + s["h"], lambda z, s: {"h": s["h"] * z.flip(0)}, 2
        ),
        [{"h": _vector(1.0, 2.0)}],
        {"orbit": 1},
    ),
    # 0 / max(‖0‖, ε) is 0, though the norm has no derivative there
    "a norm that is zero at the start": (
        _transition(
            lambda z, s: torch.tanh(W @ z + s["h"] + 1) / 2 + 0.05 * functional.normalize(z, dim=0), _gives
        ),
        STATES,
        {"orbit": 3},
    ),
    # the value is affine, the derivative that autograd is told is that of tanh
    "a wrong derivative in autograd": (_transition(_straight_through, _gives), STATES, {"non_linear": 0}),
    "numbers whose squares overflow": (
        _transition(lambda z, s: torch.tanh(ROTATION @ z + s["h"]) / 2, _gives, 2),
        [{"h": _vector(1, 1e200)}, {"h": _vector(0, 0)}],
        {"non_linear": 2},
    ),
    "an update in place": (_transition(NON_LINEAR.self_map, _in_place), STATES, {"non_linear": 3}),
}


@pytest.mark.parametrize(("pair", "states", "counts"), COUNTED.values(), ids=COUNTED)
def test_what_is_proved(pair: Transition, states: list[State], counts: dict[str, int]) -> None:
    proof = prove_theorem1(pair, states)
    assert proof.summary() == {**proof.summary(), **counts}
    assert proof.proved == (set(proof.summary().values()) == {len(states)})
    if not counts.get("existence", 1):
        assert proof.sentence == "Nothing is proved at the 1 states."


def test_a_block_of_two_parts_and_a_window_that_is_held() -> None:
    lstm_like = _transition(
        lambda z, s: torch.tanh(W @ z + s["c"] + s["window"].sum(0)),
        lambda z, s: {
            "h": torch.tanh(s["c"]) * torch.sigmoid(z),
            "c": 0.5 * s["c"] + s["h"] * z,
            "window": s["window"],
            "count": s["count"] + 1,
        },
        layer_states=(("h", "c"),),
    )
    states = [
        {"h": 0.1 + state["h"], "c": state["h"].flip(0), "window": torch.ones(2, 3, dtype=DOUBLE)}
        | {"count": torch.tensor(3)}
        for state in STATES
    ]
    proof = prove_theorem1(lstm_like, states)
    assert proof.proved
    for state, found in zip(states, proof.states, strict=True):
        assert_holds_its_entry(lstm_like, state, found)


def _taken_back(by: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """h + z − z: what an in-place operator does to an alias of h' counts for h'."""

    def update(h: Any, z: Any) -> Any:
        h = h + z
        by(h, z)
        return h

    return update


ONES = torch.ones(2)


def _rough(h: Any, y: Any) -> Any:
    """h + y, where a number of a coarse type loosens what is compared."""
    return (h + 1) * (ONES.bfloat16() * 1).double() + y


HIDDEN: dict[str, Callable[[Any, Any], Any]] = {
    "another name": _taken_back(lambda h, z: h.__isub__(z)),
    "a view": _taken_back(lambda h, z: h.view(1, 2)[0].sub_(z)),
    "its parts": _taken_back(lambda h, z: [part.sub_(z[i]) for i, part in enumerate(h.unbind(0))]),
    "its entries": _taken_back(lambda h, z: h.__setitem__(slice(None), h - z)),
    "its data": _taken_back(lambda h, z: h.data.sub_(z)),
    "dropout beside a coarse type": lambda h, z: _rough(
        h, [y := z * 1e-3, dropout(y, 0.1, False).sub_(y)][0]
    ),
    "strides beside a coarse type": lambda h, z: _rough(
        h, [y := torch.outer(z, ONES.double()).mT * 1e-3, y.mT.reshape(-1).mul_(0)][0][0]
    ),
    "dropout beside a large number": lambda h, z: (
        1e9 + h + [y := z * 1e-9, dropout(y, 0.1, False).sub_(z * 1e-9)][0]
    ),
    "strides beside a large number": lambda h, z: (
        1e9 + h + [y := torch.outer(z, ONES.double()).mT * 1e-9, y.mT.reshape(-1).mul_(0)][0][0]
    ),
    "one operand": lambda h, z: 1e9 + h + [y := z * 1e-9, torch.einsum("i->i", y).mul_(0)][0],
}


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_what_is_taken_away_in_place_couples_nothing(hidden: Callable[[Any, Any], Any]) -> None:
    """h' = h/2 and a constant, as PyTorch has it; the comparison may be too rough to see it."""
    pair = _transition(
        lambda z, s: torch.tanh(ROTATION @ z + s["h"]) / 2, lambda z, s: {"h": hidden(s["h"] / 2, z)}, 2
    )
    try:
        found = prove_theorem1(pair, TWO).summary()
    except InputError:  # no derivative of what is done to .data; a view or a copy; or beside a coarse type
        return
    assert (found["non_diagonal"], found["non_linear"]) == (0, 0)


LARGE = 1e18
"""A constant behind which float64 holds nothing of what is added to it."""
COUNT = itertools.count(1)
SEEN = {"factor": 1.0}


def _in_coarse_type(z: Any, kind: torch.dtype) -> Any:
    y = z.to(kind)
    return (y if y.dtype is kind else torch.tanh(y)).double()


def _asked_for_a_number(z: Any) -> Any:
    try:
        return z * 0 + float(z[0])
    except InputError:
        return z


DISGUISED: dict[str, Callable[[Any], Any]] = {
    "random": lambda z: random.random() * z + LARGE,
    "random, the constant taken off": lambda z: (random.random() * z + LARGE) - LARGE,
    "random, times a constant": lambda z: LARGE * ((1 + 1e-9 * random.random()) * z),
    "random in a coarse type": lambda z: (z * (1 + 1e-3 * random.random())).bfloat16().double(),
    "random beside a large column": lambda z: torch.stack([z[0], LARGE * z[1] + random.random() * z[0]]),
    "random with no derivative": lambda z: (
        (random.random() * z + 0 * (z - z).sqrt() if isinstance(z, Tensor) else z) + LARGE
    ),
    "a counter": lambda z: (1 + 1e-3 * next(COUNT)) * z + LARGE,
    "a global": lambda z: SEEN.update(factor=SEEN["factor"] * 1.01) or SEEN["factor"] * z + LARGE,
    "a clock": lambda z: (1 + 1e-3 * time.perf_counter()) * z + LARGE,
    "the class": lambda z: (z if isinstance(z, Tensor) else torch.tanh(z)) + LARGE,
    "an attribute": lambda z: (torch.tanh(z) if hasattr(z, "tangent") else z) + LARGE,
    "a conversion": lambda z: _asked_for_a_number(z) + LARGE,
    "requires_grad": lambda z: z if z.requires_grad else torch.tanh(z),
    "gradients enabled": lambda z: (torch.tanh(z) if torch.is_grad_enabled() else z) + LARGE,
    "gradients disabled": lambda z: (z if torch.is_grad_enabled() else torch.tanh(z)) + LARGE,
    "inference mode": lambda z: (torch.tanh(z) if torch.is_inference_mode_enabled() else z) + LARGE,
    "a factor of inference mode": lambda z: (2 - torch.is_inference_mode_enabled()) * z + LARGE,
    "a tensor of inference mode": lambda z: (2 - (ROTATION * 1).is_inference()) * z + LARGE,
    "a factor of gradients": lambda z: (2 - torch.is_grad_enabled()) * z + LARGE,
    "the type": lambda z: _in_coarse_type(z, torch.float32) + LARGE,
    "a coarse type": lambda z: _in_coarse_type(z, torch.bfloat16) + LARGE,
}


@pytest.mark.parametrize("where", ["self_map", "state_update"])
@pytest.mark.parametrize("hidden", DISGUISED.values(), ids=DISGUISED)
def test_what_a_value_does_not_show_is_refused_by_its_derivative(
    hidden: Callable[[Any], Any], where: str
) -> None:
    """Every one is an affine function of z with float64 tensors, or none at all."""
    pair = _transition(
        lambda z, s: torch.tanh(ROTATION @ z + s["h"]) / 2,
        lambda z, s: {"h": s["h"] / 2 + (hidden(z) if where == "state_update" else z)},
        size=2,
    )
    if where == "self_map":
        pair = dataclasses.replace(pair, self_map=lambda z, s: 1e-2 * hidden(torch.tanh(z + s["h"])))
    with pytest.raises(InputError, match=r"on tensors|other functions|inference mode"):
        _compare(pair)


def _compare(pair: Transition) -> None:
    batch = TransitionBatch(
        lambda z, s, _: (pair.self_map(z, s), pair.state_update(z, s)),
        {"position": torch.zeros(1)},
        pair.latent_size,
        pair.layer_states,
    )
    balls = EnclosedTransitionBatch(batch, {"h": (2,)})
    compare(batch, balls, {"h": np.array([[0.5, -1.0]])}, np.array([[0.25, 0.75]]))


def _without_gradient(z: Any) -> Any:
    with torch.no_grad():
        return z / (1 + z.square().sum())


HONEST: dict[str, Callable[[Any], Any]] = {
    "a large constant": lambda z: z + LARGE,
    "bfloat16": lambda z: z.bfloat16().to(z.dtype),
    "weights in bfloat16": lambda z: ((ONES.bfloat16() @ ROTATION.bfloat16()) * z.bfloat16()).double(),
    "a layer in float32": lambda z: functional.linear(z.float(), ROTATION.float()).double(),
    "constants and latents of coarse types": lambda z: torch.cat(
        [z[:1].half(), ONES[:1] * z[1:].half()]
    ).double(),
    "detach": lambda z: z + z.detach(),
    "no_grad": _without_gradient,
    "saturated": lambda z: torch.tanh(40 * z) + torch.sigmoid(-90 * z) + torch.expm1(-70 * z.square()),
    "a sum that adds nothing": lambda z: torch.add(z, z, alpha=0),
    "operators of Python": lambda z: sum(abs(-each) ** 2 / 3 for each in 1 - 2 * z) * z,
    "gelu by tanh": lambda z: functional.gelu(z - 5, approximate="tanh"),
}


@pytest.mark.parametrize("honest", HONEST.values(), ids=HONEST)
def test_one_formula_in_any_type_is_not_refused(honest: Callable[[Any], Any]) -> None:
    pair = _transition(
        lambda z, s: W[:2, :2] @ z + s["h"], lambda z, s: {"h": s["h"] / 2 + honest(z)}, size=2
    )
    _compare(pair)


def _two(on_tensors: Callable[[Any], Any], on_balls: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of tensors and another one of balls."""
    return lambda z, s: (on_tensors if isinstance(z, Tensor) else on_balls)(torch.tanh(z / 2 + s["h"]))


def _later() -> Callable[[Any, Any], Any]:
    calls = itertools.count()
    return lambda z, s: torch.tanh(z / 2 + s["h"]) + 1e-6 * next(calls)


def _undefined_at_zero(nothing: Callable[..., Any]) -> tuple[Transition, list[State], str]:
    """0 log 0, 0/0: from z₀ = 0 nothing follows, though all is smooth around the fixed point near 1."""
    transition = _transition(
        lambda z, s: torch.tanh(W @ z + s["h"]) / 4 + 1 + nothing(z, s),
        lambda z, s: {**s, "h": 0.5 * s["h"] + z},
    )
    return transition, [{**state, "nil": torch.zeros(3, dtype=DOUBLE)} for state in STATES], "nan on tensors"


def _warm_start(z: Any, s: Any) -> Any:
    """Nothing differs near the fixed points: only the first step of the iteration does."""
    if isinstance(z, Tensor):
        z = torch.where((z == 0).all(), torch.ones_like(z), z)
    return torch.tanh(W @ z + s["h"])


def _held_below(z: Any, s: Any) -> Any:
    """On tensors the first entry of z is held below ½, between z₀ = 0 and the fixed point near 1."""
    image = torch.tanh(W @ z + s["h"]) / 4 + z / 2 + 0.5
    if isinstance(z, Tensor):
        image = torch.where((z > 0.6) & (z < 0.8), 0.5 * torch.ones_like(z), image)
    return image


def _held(z: Any, s: Any) -> Any:
    s["h"] = s["h"] / 2 + z
    return s


def _asserted(z: Any) -> Any:
    assert isinstance(z, Tensor)
    return torch.tanh(z)


REFUSED: dict[str, tuple[Transition, list[State], str]] = {
    "0 log 0": _undefined_at_zero(lambda z, s: 0 * z.log()),
    "0 / 0": _undefined_at_zero(lambda z, s: 0 / z),
    "an entry of 0 / 0": _undefined_at_zero(lambda z, s: s["nil"] / z),
    "an entry of 0 / √0": _undefined_at_zero(lambda z, s: s["nil"] * z.rsqrt()),
    "another start on tensors": (_transition(_warm_start, _gives), STATES, "on tensors"),
    "another way on tensors": (_transition(_held_below, _gives), STATES[:1], "on tensors"),
    "no states": (NON_LINEAR, [], "states is empty"),
    "no latent": (_transition(lambda z, s: z, _gives, size=0), STATES, "latent_size is 0"),
    "float32": (NON_LINEAR, [{"h": torch.zeros(3)}], "is torch.float32"),
    "two functions": (_transition(_two(lambda y: y, lambda y: y / 2), _gives), STATES, "on balls; write one"),
    "two that are near": (
        _transition(_two(lambda y: y, lambda y: y * (1 + 1e-11)), _gives),
        STATES,
        "on balls",
    ),
    "two updates": (
        _transition(NON_LINEAR.self_map, lambda z, s: {"h": _two(torch.tanh, torch.sin)(z, s)}),
        STATES,
        "of h' of h is .* on tensors, .* on balls",
    ),
    "two at a fixed point alone": (  # where z is Φ(z), the difference is none
        _transition(
            NON_LINEAR.self_map,
            lambda z, s: {"h": z + (0 if isinstance(z, Tensor) else NON_LINEAR.self_map(z, s) - z)},
        ),
        STATES,
        "of h' of h is .* on tensors, .* on balls",
    ),
    "dropout": (_transition(lambda z, s: dropout(torch.tanh(z / 2 + s["h"])), _gives), STATES, "model.eval"),
    "random": (
        _transition(lambda z, s: torch.tanh(z / 2 + s["h"]) * random.random(), _gives),
        STATES,
        "two results at one point",
    ),
    "memory": (_transition(_later(), _gives), STATES, "two results at one point"),
    "in place of the state": (
        _transition(NON_LINEAR.self_map, lambda z, s: {"h": s["h"].mul_(0.5) + z}),
        STATES,
        "state_update changes its state entry 'h' in place",
    ),
    "in place of the latent's data": (
        _transition(lambda z, s: torch.tanh(z.data.view(3).clamp_(max=9) / 2 + s["h"]), _gives),
        STATES,
        "self_map changes its latent in place|derivative is 0",
    ),
    "in place of the dictionary": (_transition(NON_LINEAR.self_map, _held), STATES, "the dictionary"),
    "an operator without a form": (
        _transition(lambda z, s: torch.tanh(z / 2 + s["h"]) + z % 1e9 / 9, _gives),
        STATES,
        "on balls Φ or G raises TypeError",
    ),
    "an assertion": (
        _transition(lambda z, s: _asserted(z) / 2 + s["h"], _gives),
        STATES,
        "raises AssertionErr",
    ),
    "two layers of one entry": (
        _transition(NON_LINEAR.self_map, _gives, layer_states=(("h",), ("h",))),
        STATES,
        "names 'h' in two layers",
    ),
    "no form": (
        _transition(lambda z, s: torch.cumsum(z + s["h"], 0) / 9, _gives),
        STATES,
        "torch.cumsum has no form on balls; write it with",
    ),
    "condition": (
        _transition(lambda z, s: z / 2 if s["h"][0] > 0 else z / 3, _gives),
        STATES,
        "a condition, an index or a conversion",
    ),
    "entry": (_transition(NON_LINEAR.self_map, _gives, layer_states=(("c",),)), STATES, "state entry 'c'"),
}


@pytest.mark.parametrize(("transition", "states", "sentence"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_sentence(transition: Transition, states: list[State], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as refusal:
        prove_theorem1(transition, states)
    assert "\n" not in str(refusal.value)
