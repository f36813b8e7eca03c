"""States that are matrices, of several shapes, with integers beside them: the delta rule per head."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.func import jacrev

from automata.errors import InputError
from theory import (
    BlockMap,
    State,
    TokenInputs,
    Transition,
    TransitionBatch,
    TransitionKind,
    batched_layer_jacobians,
    check_theorem1,
    full_state_jacobian,
    layer_jacobians,
    solve_fixed_point,
)
from theory.blocks import flatten

POSITIONS, HEADS, D_K, D_V, LATENT = 5, 2, 3, 2, 4
SIZE = HEADS * D_K * D_V
# Sums of at most a few dozen products of numbers of order one; the latent system is of size four.
assert_close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-13)


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


READ, WRITE = random(LATENT, SIZE, seed=1, scale=0.1), random(HEADS * D_K, LATENT, seed=2, scale=0.3)


def delta(S: Tensor, keys: Tensor, inputs: TokenInputs) -> Tensor:
    """One step of the gated delta rule on S ``[heads, d_k, d_v]``."""
    read = torch.einsum("hk,hkv->hv", keys, S)
    forgotten = S - inputs["beta"][:, None, None] * torch.einsum("hk,hv->hkv", keys, read)
    return inputs["decay"] * forgotten + torch.einsum("hk,hv->hkv", keys, inputs["values"])


def make_batch(latent_size: int = 0) -> TransitionBatch:
    """Two layers: S with its window, then a vector c driven by S; a counter and a mask beside them.

    With a latent, the keys depend on it, and it on the next S.
    """

    def advance(z: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
        keys = inputs["keys"] + ((WRITE @ z).reshape(HEADS, D_K) if latent_size else 0)
        S = delta(state["S"], torch.nn.functional.normalize(keys, dim=-1), inputs)
        window = torch.cat([state["window"][1:], inputs["values"].reshape(1, -1)])
        # The token is an integer, as a model has it: a lookup, no derivative.
        c = state["c"] * torch.sigmoid(inputs["decay"]) + S.sum() + inputs["token"]
        following = {
            "S": S,
            "window": window,
            "c": c,
            "position": state["position"] + 1,
            "mask": state["mask"],
        }
        return (torch.tanh(READ @ S.reshape(-1)) if latent_size else z), following

    inputs = {
        "keys": random(POSITIONS, HEADS, D_K, seed=3),
        "values": random(POSITIONS, HEADS, D_V, seed=4),
        "beta": 2 * torch.sigmoid(random(POSITIONS, HEADS, seed=5)),
        "decay": torch.sigmoid(random(POSITIONS, seed=6)),
        "token": torch.arange(POSITIONS),
    }
    return TransitionBatch(advance, inputs, latent_size, (("S",), ("c",)), damping=0.8)


def make_states() -> State:
    return {
        "position": torch.arange(POSITIONS),
        "c": random(POSITIONS, seed=7),
        "S": random(POSITIONS, HEADS, D_K, D_V, seed=8),
        "window": random(POSITIONS, 3, HEADS * D_V, seed=9),
        "mask": torch.ones(POSITIONS, dtype=torch.bool),
    }


def at(states: State, position: int) -> State:
    return {name: entry[position] for name, entry in states.items()}


def latents_of(batch: TransitionBatch, states: State) -> Tensor:
    solutions = [solve_fixed_point(batch[t], at(states, t)) for t in range(POSITIONS)]
    assert all(solution.converged for solution in solutions)
    return torch.stack([solution.latent for solution in solutions])


def unrolled(transition: Transition, state: State, names: tuple[str, ...], vector: Tensor) -> Tensor:
    """The block of the next state by 200 damped iterations, as a function of the block of the state."""
    block = BlockMap(transition, state, names)
    z = vector.new_zeros(transition.latent_size)
    for _ in range(200 if transition.latent_size else 0):
        z = 0.2 * z + 0.8 * block.self_map(z, vector)
    return block.state_update(z, vector)


@pytest.mark.parametrize("latent_size", [0, LATENT], ids=["explicit", "implicit"])
@pytest.mark.parametrize("layers", [(("S",), ("c",)), (("c", "S"),), (("S", "window"), ("c",))], ids=str)
def test_blocks_of_several_shapes_equal_reverse_autodiff(
    latent_size: int, layers: tuple[tuple[str, ...], ...]
) -> None:
    made = make_batch(latent_size)
    batch = TransitionBatch(made.advance, made.inputs, latent_size, layers, made.damping)
    states = make_states()
    latents = latents_of(batch, states)
    found = batched_layer_jacobians(batch, states, latents)
    for t in range(POSITIONS):
        state = at(states, t)
        singles = layer_jacobians(batch[t], state, latents[t])
        for names, batched, single in zip(layers, found, singles, strict=True):
            expected = jacrev(partial(unrolled, batch[t], state, names))(flatten(state, names))
            assert_close(batched[t].dense(), expected)
            assert_close(single.dense(), expected)


def test_the_full_matrix_leaves_out_what_has_no_derivative() -> None:
    batch, states = make_batch(LATENT), make_states()
    state, latent = at(states, 2), latents_of(batch, states)[2]
    full = full_state_jacobian(batch[2], state, latent)
    names = tuple(full.slices)
    assert set(names) == {"c", "S", "window"}
    assert_close(full.matrix, jacrev(partial(unrolled, batch[2], state, names))(flatten(state, names)))
    assert full.block("c", "S").abs().min() > 0
    assert not full.block("window", "S").any()


def test_the_kinds_of_both_layers_with_and_without_a_latent() -> None:
    states = make_states()
    visited = [at(states, t) for t in range(POSITIONS)]
    explicit = check_theorem1(make_batch()[0], visited)
    assert [layer.kind for layer in explicit.layer_kinds] == [
        TransitionKind.NON_DIAGONAL_LINEAR,
        TransitionKind.DIAGONAL_LINEAR,
    ]
    implicit = check_theorem1(make_batch(LATENT)[0], visited)
    assert implicit.layer_kinds[0].kind is TransitionKind.NON_DIAGONAL_NON_LINEAR


def test_what_has_no_derivative_is_no_block() -> None:
    made = make_batch()
    batch = TransitionBatch(made.advance, made.inputs, 0, (("position",),))
    with pytest.raises(
        InputError, match=r"state entry 'position' is torch.int64, which has no derivative; leave"
    ):
        batched_layer_jacobians(batch, make_states(), torch.zeros(POSITIONS, 0, dtype=torch.float64))


def test_an_update_that_does_not_return_the_state_is_refused() -> None:
    batch = TransitionBatch(lambda z, s, x: (z, {"h": s["h"].float()}), {"x": random(2)}, 0, (("h",),))
    with pytest.raises(InputError, match=r"returns entry 'h' as torch.float32 .* return torch.float64"):
        batched_layer_jacobians(batch, {"h": random(2, 3)}, torch.zeros(2, 0, dtype=torch.float64))
