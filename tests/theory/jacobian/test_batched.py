from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import jacrev
from torch.utils._python_dispatch import TorchDispatchMode

from tests.refusals import refusals
from tests.theory.transitions import random
from theory import (
    BatchedJacobian,
    BlockMap,
    State,
    TokenInputs,
    Transition,
    TransitionBatch,
    batched_layer_jacobians,
    full_state_jacobian,
    layer_jacobians,
    solve_fixed_point,
)
from theory.blocks import flatten
from theory.jacobian.coupling_entries import coupling_entries

POSITIONS = 5
# Sums of at most 49 products of numbers of order one, and a hundredfold of that where something cancels.
assert_close = partial(torch.testing.assert_close, rtol=1e-12, atol=1e-13)


def make_batch(size: int = 6, latent_size: int = 4, positions: int = POSITIONS) -> TransitionBatch:
    """Eq. 1-2 with two layers, the second of two entries, and gates and drives that differ between tokens."""
    forget, write = random(3, size, latent_size, seed=1), random(3, size, latent_size, seed=2)
    recur = random(latent_size, latent_size, seed=3, scale=0.3 / latent_size**0.5)
    read = random(latent_size, 3 * size, seed=4, scale=0.3 / size**0.5)

    def advance(z: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
        following = {
            name: torch.sigmoid(1 + W @ z + inputs["gate"]) * state[name]
            + torch.tanh(U @ z + inputs["drive"])
            for name, W, U in zip(("h", "k", "c"), forget, write, strict=True)
        }
        h = torch.cat(list(following.values()))
        image = torch.tanh(recur @ z + read @ h + inputs["drive"][:latent_size])
        return image, {**following, "window": torch.cat([state["window"][1:], inputs["gate"][:1]])}

    inputs = {"gate": random(positions, size, seed=5), "drive": random(positions, size, seed=6)}
    return TransitionBatch(advance, inputs, latent_size, (("h",), ("k", "c")), damping=0.8)


def make_states(size: int = 6, positions: int = POSITIONS) -> State:
    entries = {name: random(positions, size, seed=seed) for seed, name in enumerate("hkc", start=7)}
    return {**entries, "window": random(positions, 2, seed=10)}


def at(states: State, position: int) -> State:
    return {name: entry[position] for name, entry in states.items()}


def solved(batch: TransitionBatch, states: State) -> Tensor:
    return torch.stack([solve_fixed_point(batch[t], at(states, t)).latent for t in range(len(batch))])


@pytest.mark.parametrize("ignored", ["latent in G", "state in Φ", "latent in Φ"])
def test_negative_controls_have_the_coupling_that_is_left(ignored: str) -> None:
    """Φ = z/2 + h and G = h/4 + z, each term in turn left out: J = 1/4 + 1 · (1 − ∂zΦ)^{-1} · 1."""
    weights = [float(name != ignored) for name in ("latent in G", "state in Φ", "latent in Φ")]
    read, source, recur = torch.tensor(weights, dtype=torch.float64)

    def advance(z: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
        image = inputs["token"] + (recur * 0.5 * z if recur else 0) + (source * state["h"] if source else 0)
        return image, {"h": 0.25 * state["h"] + (z if read else 0)}

    ones = torch.ones(3, 2, dtype=torch.float64)
    batch = TransitionBatch(advance, {"token": ones}, 2, (("h",),))
    (jacobian,) = batched_layer_jacobians(batch, {"h": ones}, ones)
    # All numbers are dyadic, hence exact; every matrix is diagonal, so that summed entries are exactly zero.
    expected = 0.25 + {"latent in G": 0, "state in Φ": 0, "latent in Φ": 1}[ignored]
    assert torch.equal(jacobian.diagonals(), expected * ones)
    assert [jacobian[t].off_diagonal_mass() for t in range(3)] == [0, 0, 0]


@pytest.fixture(params=["diagonal", "dense"])
def batched(request: pytest.FixtureRequest) -> BatchedJacobian:
    direct = random(4, 7, 7, seed=0) if request.param == "dense" else random(4, 7, seed=0)
    left, right = random(4, 7, 3, seed=1), random(4, 3, 7, seed=2)
    return BatchedJacobian(direct, left, right, torch.zeros(4, dtype=torch.float64))


def as_dense(jacobian: BatchedJacobian) -> Tensor:
    direct = jacobian.direct.diag_embed() if jacobian.direct.ndim == 2 else jacobian.direct
    return direct + jacobian.left @ jacobian.right


def test_every_method_equals_the_dense_matrices(batched: BatchedJacobian) -> None:
    dense = as_dense(batched)
    diagonals = dense.diagonal(dim1=1, dim2=2)
    vectors, shared = random(4, 7, seed=3), random(7, seed=4)
    assert_close(batched.matvec(vectors), torch.einsum("tij,tj->ti", dense, vectors))
    assert_close(batched.matvec(shared), dense @ shared)
    assert_close(batched.diagonals(), diagonals)
    assert_close(torch.stack([batched[t].dense() for t in range(len(batched))]), dense)


def test_a_direct_term_that_is_not_diagonal_at_one_position_is_found() -> None:
    mix = random(3, 9, 9, seed=0)
    mix[:2] = mix[:2].diagonal(dim1=1, dim2=2).diag_embed()
    batch = TransitionBatch(lambda z, s, x: (z, {"h": x["mix"] @ s["h"]}), {"mix": mix}, 0, (("h",),))
    latents = torch.zeros(3, 0, dtype=torch.float64)
    (jacobian,) = batched_layer_jacobians(batch, {"h": random(3, 9, seed=1)}, latents)
    assert not jacobian.has_diagonal_direct_term
    assert torch.equal(torch.stack([jacobian[t].dense() for t in range(3)]), mix)  # products with 0 and 1
    assert [jacobian[t].off_diagonal_mass() for t in range(2)] == [0, 0]


class LargestTensor(TorchDispatchMode):
    """Remembers the most entries of any tensor that an operation returned."""

    entries = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self.entries = max(self.entries, tensor.numel())
        return result


def test_no_square_matrix_of_the_state_is_formed() -> None:
    size = 2048
    batch, states = make_batch(size, positions=2), make_states(size, positions=2)
    latents = solved(batch, states)
    with LargestTensor() as largest:
        for jacobian in batched_layer_jacobians(batch, states, latents):
            assert jacobian.has_diagonal_direct_term
            assert jacobian.matvec(torch.ones(jacobian.size, dtype=torch.float64)).isfinite().all()
    # Every tangent counts: 2 positions × 4 latent entries × 3 entries of the state.
    assert 2 * 4 * 3 * size <= largest.entries < size**2 / 10


def measured(change: Callable[[State, Tensor], tuple[State, Tensor]]) -> Callable[[], object]:
    """The Jacobians at states and latents that are changed."""
    return lambda: batched_layer_jacobians(make_batch(), *change(make_states(), random(POSITIONS, 4)))


def batch_with(inputs: TokenInputs) -> Callable[[], object]:
    return lambda: TransitionBatch(lambda z, s, x: (z, s), inputs, 0, (("h",),))


def jacobians_of(update: Callable[..., State], slope: Tensor, *names: str) -> Callable[[], object]:
    """Those of Φ = slope · z and an update, at a state of ones."""
    batch = TransitionBatch(lambda z, s, x: (x["slope"] * z, update(z, s)), {"slope": slope}, 1, (names,))
    state = {"h": torch.ones_like(slope), "position": torch.arange(len(slope))}
    return lambda: batched_layer_jacobians(batch, state, slope)


SLOPES = torch.tensor([[0.5], [1.0]], dtype=torch.float64)
ONE_FOR_EACH = "positions; give at least one entry, the same T ≥ 1 for each"
test_what_cannot_be_used_is_refused_in_a_sentence = refusals(
    (measured(lambda s, z: ({**s, "h": s["h"].float()}, z)), "entry 'h' is torch.float32; convert"),
    (measured(lambda s, z: ({**s, "h": s["h"] / 0}, z)), "entry 'h' holds a non-finite number; give finite"),
    (
        measured(lambda s, z: ({**s, "h": s["h"][:3]}, z)),
        r"entry 'h' has shape \(3, 6\); .* of the 5 positions",
    ),
    (measured(lambda s, z: ({"h": s["h"], "k": s["k"]}, z)), "state entry 'c' is unknown"),
    (measured(lambda s, z: (s, z[:, :3])), r"latents has shape \(5, 3\) .* float64 tensor of shape \(5, 4\)"),
    (measured(lambda s, z: (s, z.float())), r"shape \(5, 4\) and type torch.float32; give a float64"),
    (jacobians_of(lambda z, s: {**s, "h": s["h"] + z}, SLOPES, "h"), "singular at position 1"),
    (
        jacobians_of(lambda z, s: s, SLOPES, "position"),
        "state entry 'position' is torch.int64, which has no derivative; leave",
    ),
    (
        jacobians_of(lambda z, s: {"h": s["h"].float()}, SLOPES / 2, "h"),
        "returns entry 'h' as torch.float32 .* return torch.float64",
    ),
    (batch_with({}), ONE_FOR_EACH),
    (batch_with({"x": torch.zeros(0)}), ONE_FOR_EACH),
    (batch_with({"x": torch.zeros(2), "y": torch.zeros(3)}), ONE_FOR_EACH),
)


def test_the_entry_is_off_the_diagonal_and_among_the_large_ones() -> None:
    A, C, B = (
        random(3, 3, seed=1, scale=0.25),
        random(3, 9, seed=2, scale=0.25),
        random(9, 3, seed=3, scale=0.25),
    )

    def advance(z: Tensor, s: State, x: TokenInputs) -> tuple[Tensor, State]:
        return torch.tanh(A @ z + C @ s["h"] + x["x"]), {"h": s["h"] / 2 + B @ z}

    transitions = TransitionBatch(advance, {"x": random(8, 3, seed=4)}, 3, (("h",),))
    states = {"h": random(8, 9, seed=5)}
    latents = solved(transitions, states)
    slopes = torch.diag_embed(1 - latents**2) @ A
    ((rows, columns),) = coupling_entries(transitions, states, latents, slopes)
    (jacobian,) = batched_layer_jacobians(transitions, states, latents)
    for t, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        matrix = jacobian[t].dense().abs().fill_diagonal_(0)
        assert row != column
        # the row is the largest of its column, and the column no small one
        assert matrix[row, column] == matrix[:, column].max()
        assert matrix[row, column] > 0.1 * matrix.max()


HEADS, D_K, D_V, LATENT = 2, 3, 2, 4
SIZE = HEADS * D_K * D_V
READ, WRITE = random(LATENT, SIZE, seed=1, scale=0.1), random(HEADS * D_K, LATENT, seed=2, scale=0.3)


def delta(S: Tensor, keys: Tensor, inputs: TokenInputs) -> Tensor:
    """One step of the gated delta rule on S ``[heads, d_k, d_v]``."""
    read = torch.einsum("hk,hkv->hv", keys, S)
    forgotten = S - inputs["beta"][:, None, None] * torch.einsum("hk,hv->hkv", keys, read)
    return inputs["decay"] * forgotten + torch.einsum("hk,hv->hkv", keys, inputs["values"])


def delta_batch(latent_size: int = 0) -> TransitionBatch:
    """S with its window, then c driven by S; a latent is read by the keys, and reads the next S."""

    def advance(z: Tensor, state: State, inputs: TokenInputs) -> tuple[Tensor, State]:
        keys = inputs["keys"] + ((WRITE @ z).reshape(HEADS, D_K) if latent_size else 0)
        S = delta(state["S"], torch.nn.functional.normalize(keys, dim=-1), inputs)
        window = torch.cat([state["window"][1:], inputs["values"].reshape(1, -1)])
        # The token is an integer, as a model has it: a lookup, no derivative.
        c = state["c"] * torch.sigmoid(inputs["decay"]) + S.sum() + inputs["token"]
        following = {**state, "S": S, "window": window, "c": c, "position": state["position"] + 1}
        return (torch.tanh(READ @ S.reshape(-1)) if latent_size else z), following

    inputs = {
        "keys": random(POSITIONS, HEADS, D_K, seed=3),
        "values": random(POSITIONS, HEADS, D_V, seed=4),
        "beta": 2 * torch.sigmoid(random(POSITIONS, HEADS, seed=5)),
        "decay": torch.sigmoid(random(POSITIONS, seed=6)),
        "token": torch.arange(POSITIONS),
    }
    return TransitionBatch(advance, inputs, latent_size, (("S",), ("c",)), damping=0.8)


def delta_states() -> State:
    return {
        "position": torch.arange(POSITIONS),
        "c": random(POSITIONS, seed=7),
        "S": random(POSITIONS, HEADS, D_K, D_V, seed=8),
        "window": random(POSITIONS, 3, HEADS * D_V, seed=9),
        "mask": torch.ones(POSITIONS, dtype=torch.bool),
    }


def unrolled(transition: Transition, state: State, names: tuple[str, ...], vector: Tensor) -> Tensor:
    """The block of the next state by 200 damped iterations, as a function of the block of the state."""
    block = BlockMap(transition, state, names)
    z = vector.new_zeros(transition.latent_size)
    for _ in range(200 if transition.latent_size else 0):
        z = 0.2 * z + 0.8 * block.self_map(z, vector)
    return block.state_update(z, vector)


SPLIT, JOINED, WITH_WINDOW = (("S",), ("c",)), (("c", "S"),), (("S", "window"), ("c",))


@pytest.mark.parametrize(
    ("latent_size", "layers", "chunk_entries"),
    [
        *((0, layers, 2**20) for layers in (SPLIT, JOINED, WITH_WINDOW)),
        (LATENT, SPLIT, 1),
        (LATENT, JOINED, 3 * (SIZE + 1) * LATENT),  # uneven
        (LATENT, WITH_WINDOW, 2**20),
    ],
    ids=str,
)
def test_blocks_of_several_shapes_equal_reverse_autodiff(
    latent_size: int, layers: tuple[tuple[str, ...], ...], chunk_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("theory.jacobian.batched.MAX_CHUNK_ENTRIES", chunk_entries)
    made = delta_batch(latent_size)
    batch = TransitionBatch(made.advance, made.inputs, latent_size, layers, made.damping)
    states = delta_states()
    latents = solved(batch, states)
    found = batched_layer_jacobians(batch, states, latents)
    for t in range(POSITIONS):
        state = at(states, t)
        singles = layer_jacobians(batch[t], state, latents[t])
        for names, batched, single in zip(layers, found, singles, strict=True):
            expected = jacrev(partial(unrolled, batch[t], state, names))(flatten(state, names))
            assert_close(batched[t].dense(), expected)
            assert_close(single.dense(), expected)
            assert batched[t].diagonality_error == pytest.approx(single.diagonality_error, abs=1e-15)


def test_the_full_matrix_leaves_out_what_has_no_derivative() -> None:
    batch, states = delta_batch(LATENT), delta_states()
    state, latent = at(states, 2), solved(batch, states)[2]
    full = full_state_jacobian(batch[2], state, latent)
    names = tuple(full.slices)
    assert set(names) == {"c", "S", "window"}
    assert_close(full.matrix, jacrev(partial(unrolled, batch[2], state, names))(flatten(state, names)))
    assert full.block("c", "S").abs().min() > 0
    assert not full.block("window", "S").any()
