import pytest
import torch

from automata.errors import InputError
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


@pytest.mark.parametrize(
    ("entries", "layers", "message"),
    [
        ({"h": torch.zeros(2)}, (("h",),), "'h' is torch.float32; convert"),
        ({"h": torch.tensor([float("nan")]).double()}, (("h",),), "'h' holds a non-finite number"),
        ({"ssm": torch.zeros(2).double()}, (("ssn",),), "'ssn' is unknown; did you mean 'ssm'"),
        ({"h": torch.zeros(2).double()}, (), "layer_states is empty"),
    ],
)
def test_unusable_states_are_refused(
    entries: State, layers: tuple[tuple[str, ...], ...], message: str
) -> None:
    transition = Transition(lambda z, s: z, lambda z, s: s, 0, layers)
    with pytest.raises(InputError, match=message):
        validate(transition, entries)
