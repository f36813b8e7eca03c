from collections.abc import Callable

import pytest
import torch

from tests.refusals import refusals
from theory import State, Transition
from theory.blocks import BlockMap, flatten, replace, validate


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


def validated(entries: State, *layers: tuple[str, ...]) -> Callable[[], object]:
    return lambda: validate(Transition(lambda z, s: z, lambda z, s: s, 0, layers), entries)


ZEROS = torch.zeros(2)
test_unusable_states_are_refused = refusals(
    (validated({"h": ZEROS}, ("h",)), "'h' is torch.float32; convert"),
    (validated({"h": ZEROS.double() / 0}, ("h",)), "'h' holds a non-finite number"),
    (validated({"ssm": ZEROS.double()}, ("ssn",)), "'ssn' is unknown; did you mean 'ssm'"),
    (validated({"h": ZEROS.double()}), "layer_states is empty"),
)
