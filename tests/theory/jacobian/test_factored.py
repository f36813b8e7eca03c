import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from tests.theory.transitions import explicit, implicit, random
from theory import FactoredJacobian, State, Transition, full_state_jacobian, latent_jacobian, layer_jacobians
from theory.blocks import BlockMap, flatten, replace
from theory.pure_maps import validate_maps


@pytest.fixture(params=["diagonal", "dense"])
def factored(request: pytest.FixtureRequest) -> FactoredJacobian:
    direct = random(7, 7, seed=0) if request.param == "dense" else random(7, seed=0)
    return FactoredJacobian(direct, random(7, 3, seed=1), random(3, 7, seed=2))


def as_dense(jacobian: FactoredJacobian) -> Tensor:
    direct = jacobian.direct.diag() if jacobian.direct.ndim == 1 else jacobian.direct
    return direct + jacobian.left @ jacobian.right


def test_every_method_equals_the_dense_matrix(
    factored: FactoredJacobian, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("theory.jacobian.factored.MAX_CHUNK_ENTRIES", 14)  # two rows a chunk
    dense = as_dense(factored)
    vector = random(7, seed=3)
    off_diagonal = dense - dense.diag().diag()
    # Sums of at most 49 products of numbers of order one: 1e-14 covers their rounding.
    assert_close = partial(torch.testing.assert_close, rtol=1e-14, atol=1e-14)
    assert_close(factored.dense(), dense)
    assert_close(factored.matvec(vector), dense @ vector)
    assert_close(factored.diagonal(), dense.diagonal())
    assert_close(factored.coupling.dense(), factored.left @ factored.right)
    assert factored.frobenius_norm() == pytest.approx(dense.norm().item(), rel=1e-14)
    assert factored.off_diagonal_norm() == pytest.approx(off_diagonal.norm().item(), rel=1e-14)
    assert factored.off_diagonal_mass() == pytest.approx(
        (off_diagonal.norm() / dense.norm()).item(), rel=1e-14
    )


def test_difference_of_diagonal_and_dense(factored: FactoredJacobian) -> None:
    other = FactoredJacobian(random(7, seed=4), random(7, 2, seed=5), random(2, 7, seed=6))
    for difference in (factored - other, other - factored):
        expected = (as_dense(factored) - as_dense(other)).norm().item()
        assert difference.frobenius_norm() == pytest.approx(expected, rel=1e-14)  # rounding of 49 sums


def test_tiny_off_diagonal_mass_does_not_cancel() -> None:
    left = torch.zeros(50, 1, dtype=torch.float64)
    left[0] = 1e-12
    right = torch.zeros(1, 50, dtype=torch.float64)
    right[0, 1] = 1.0
    jacobian = FactoredJacobian(torch.ones(50, dtype=torch.float64), left, right)
    # ‖J‖² − ‖diag J‖² would be 0; the one off-diagonal entry over sqrt(50) is exact to rounding.
    assert jacobian.off_diagonal_mass() == pytest.approx(1e-12 / 50**0.5, rel=1e-14)


def test_zero_matrix_counts_as_diagonal() -> None:
    zero = FactoredJacobian(torch.zeros(3), torch.zeros(3, 1), torch.zeros(1, 3))
    assert zero.off_diagonal_mass() == 0


def test_one_weak_off_diagonal_entry_is_not_overlooked() -> None:
    mix = torch.eye(20, dtype=torch.float64)
    mix[3, 4] = 1e-10
    ones = torch.ones(20, dtype=torch.float64)
    (jacobian,) = layer_jacobians(explicit(lambda h: mix @ h), {"h": ones}, ones[:0])
    # One entry over ‖J‖ = sqrt(20), exact to rounding.
    assert jacobian.off_diagonal_mass() == pytest.approx(1e-10 / 20**0.5, rel=1e-6)


def test_singular_latent_system_is_refused() -> None:
    one = torch.ones(1, dtype=torch.float64)
    with pytest.raises(InputError, match="singular"):
        layer_jacobians(implicit(lambda z, h: z, lambda z, h: h + z, 1), {"h": one}, one)


@pytest.mark.parametrize("size", [2049, 3000])
def test_norms_from_factors_are_those_of_the_entries(size: int) -> None:
    """A block of more than 2,048 states takes them from the factors; the oracle is the dense matrix."""
    direct = random(size, seed=size).sigmoid()
    left, right = random(2, size, 3, seed=size + 1)
    # Rows of very different sizes, as of heads that forget at different rates.
    jacobian = FactoredJacobian(direct, left * torch.logspace(-6, 0, size).double()[:, None], right.mT)
    assert jacobian._off_diagonal_norm_from_factors() is not None
    dense = jacobian.dense()
    # Sums of 10⁷ squares in another order: errors of 1e-14 at most, seen 4e-15.
    assert jacobian.frobenius_norm() == pytest.approx(dense.norm().item(), rel=1e-13)
    dense.diagonal().zero_()
    assert jacobian.off_diagonal_norm() == pytest.approx(dense.norm().item(), rel=1e-13)


def test_where_much_cancels_between_the_factors_norms_are_those_of_the_entries() -> None:
    size = 2049
    ones, unit = torch.ones(size, 1, dtype=torch.float64), torch.eye(size, dtype=torch.float64)[:, :1]
    small = FactoredJacobian(ones[:, 0], 1e-9 * unit.roll(1, 0), unit.mT)
    # L R cancels but for 1e-9 in one entry: 1 + 1e-9 − 1 has an error of ε, 2e-7 of it.
    nearly = FactoredJacobian(ones[:, 0], torch.cat([ones + 1e-9 * unit, -ones], 1), torch.cat([unit.mT] * 2))
    on_diagonal = FactoredJacobian(ones[:, 0], unit + small.left, unit.mT)
    assert (on_diagonal - on_diagonal).frobenius_norm() == 0
    assert on_diagonal.off_diagonal_norm() == 1e-9
    assert nearly.off_diagonal_norm() == 0
    assert (on_diagonal - small).off_diagonal_norm() == 0
    assert small.off_diagonal_norm() == 1e-9


def _written(entry: str) -> Callable[[Tensor, State], State]:
    """An update that writes into an entry; nothing is differentiated by w, which is no entry of a layer."""

    def update(z: Tensor, s: State) -> State:
        s[entry].mul_(0.5)
        return {"h": s["h"] + z, "w": s["w"]}

    return update


def _raises(z: Tensor, s: State) -> Tensor:
    raise KeyError("gate")


def _phi(z: Tensor, s: State) -> Tensor:
    return z / 4 + s["h"]


def _update(z: Tensor, s: State) -> State:
    return {"h": s["h"] / 2 + z, "w": s["w"]}


IMPURE: dict[str, tuple[Callable[..., Tensor], Callable[..., State], str]] = {
    "G in place": (_phi, _written("h"), "state_update changes its state entry 'h' in place"),
    "G in place, elsewhere": (_phi, _written("w"), "state_update changes its state entry 'w' in place"),
    "G through NumPy": (
        _phi,
        lambda z, s: {**s, "h": torch.from_numpy(s["h"].numpy() / 2)},
        "state_update cannot be differentiated",
    ),
    "shape of G": (_phi, lambda z, s: {**s, "h": s["h"][:1]}, "state_update returns entry 'h'"),
    "name of G": (_phi, lambda z, s: {"g": z}, "state entry 'h' is unknown"),
    "Φ in place": (lambda z, s: z.mul_(0.1).add_(s["h"]), _update, "self_map changes its latent in place"),
    "Φ raises": (_raises, _update, "self_map raised KeyError"),
    "shape of Φ": (lambda z, s: z[:1], _update, "self_map returns torch.float64 of shape"),
    "Φ through NumPy": (
        lambda z, s: torch.from_numpy(z.numpy() / 2),
        _update,
        "self_map cannot be differentiated",
    ),
}


@pytest.mark.parametrize(("self_map", "update", "sentence"), IMPURE.values(), ids=IMPURE)
def test_code_without_a_jacobian_is_named_in_one_sentence(
    self_map: Callable[..., Tensor], update: Callable[..., State], sentence: str
) -> None:
    state = {name: torch.ones(2, dtype=torch.float64) for name in ("h", "w")}
    latent = torch.zeros(2, dtype=torch.float64)
    transition = Transition(self_map, update, 2, (("h",),))
    for function in (layer_jacobians, full_state_jacobian, *([latent_jacobian] if update is _update else [])):
        with pytest.raises(InputError, match=sentence):
            function(transition, state, latent)
    assert not latent.any()
    assert all(bool((entry == 1).all()) for entry in state.values())


@pytest.mark.parametrize("always", [True, False], ids=["when called", "when differentiated"])
def test_a_warning_that_the_user_made_an_error_is_no_fault_of_the_maps(always: bool) -> None:
    def self_map(z: Tensor, s: State) -> Tensor:
        if always or torch._C._functorch.is_functorch_wrapped_tensor(z):
            warnings.warn("deprecated", FutureWarning, stacklevel=2)
        return _phi(z, s)

    state = {name: torch.ones(2, dtype=torch.float64) for name in ("h", "w")}
    transition = Transition(self_map, _update, 2, (("h",),))
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        with pytest.raises(FutureWarning, match=r"^deprecated$"):
            validate_maps(transition, state)


@pytest.fixture
def state() -> State:
    return {
        "a": torch.arange(6.0).double().reshape(2, 3),
        "w": torch.tensor([7.0]).double(),
        "b": torch.ones(4).double(),
    }


def test_replace_inverts_flatten_in_any_order_of_names(state: State) -> None:
    names = ("b", "a")
    vector = flatten(state, names) + 1
    changed = replace(state, names, vector)
    assert torch.equal(flatten(changed, names), vector)
    assert torch.equal(changed["a"], state["a"] + 1)
    assert changed["w"] is state["w"]


def test_block_map_holds_the_rest_of_the_state_fixed(state: State) -> None:
    transition = Transition(
        self_map=lambda z, s: z + s["w"] * s["a"].sum(),
        state_update=lambda z, s: {"a": s["a"] * s["w"], "w": s["w"] + 1, "b": z},
        latent_size=1,
        layer_states=(("a",),),
    )
    block = BlockMap(transition, state, ("a",))
    ones = torch.ones(6).double()
    assert torch.equal(block.self_map(torch.zeros(1).double(), ones), torch.tensor([42.0]).double())
    assert torch.equal(block.state_update(torch.zeros(1).double(), ones), 7 * ones)
