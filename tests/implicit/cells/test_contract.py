"""The contract of `implicit.cells.interface`, for every cell of the table in conftest.py."""

import inspect
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.cells import Mamba2Cell, Mamba3Cell
from implicit.cells.interface import Cell
from tests.implicit.cells.conftest import D_MODEL, random_tensor
from theory.transition import State

# A token, a few, and more than a chunk of 64.
LENGTHS = (1, 3, 65)
BATCH = 3


def close(result: Tensor, expected: Tensor) -> None:
    # float64: the same sums of order one in another order.
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-10)


def close_states(result: State, expected: State) -> None:
    assert result.keys() == expected.keys()
    for name in expected:
        close(result[name], expected[name])


def material(cell: Cell, length: int, batch: int = BATCH) -> tuple[Tensor, Tensor, State]:
    """Inputs, an injection, and a state that tokens have led to."""
    inputs = random_tensor(batch, length, D_MODEL)
    injection = random_tensor(batch, length, cell.injection_size, seed=2)
    _, state = cell(random_tensor(batch, 5, D_MODEL, seed=3), cell.init_state(batch))
    return inputs, injection, state


def of_sequence(state: State, index: int) -> State:
    return {name: part[index : index + 1] for name, part in state.items()}


def scan(cell: Cell, inputs: Tensor, state: State, injection: Tensor) -> tuple[Tensor, list[State]]:
    outputs, visited = [], [state]
    for t in range(inputs.shape[1]):
        output, state = cell.step(inputs[:, t], state, injection[:, t])
        outputs.append(output)
        visited.append(state)
    return torch.stack(outputs, dim=1), visited


@pytest.mark.parametrize("length", LENGTHS)
def test_a_sequence_and_its_states_are_the_scan_of_its_tokens(cell: Cell, length: int) -> None:
    inputs, injection, state = material(cell, length)
    outputs, after = cell(inputs, state, injection)
    expected, visited = scan(cell, inputs, state, injection)
    close(outputs, expected)
    close_states(after, visited[-1])
    if cell.state_grows:  # nothing to stack
        with pytest.raises(InputError, match="grows"):
            cell.states(inputs, state)
        return
    states = cell.states(inputs, state, injection)
    for t in range(length + 1):
        close_states({name: part[:, t] for name, part in states.items()}, visited[t])


def test_a_sequence_can_be_cut_anywhere(cell: Cell) -> None:
    inputs, injection, state = material(cell, 70)
    outputs, after = cell(inputs, state, injection)
    follow_up = random_tensor(BATCH, D_MODEL, seed=4)
    for cut in (1, 2, 40, 69):
        before, between = cell(inputs[:, :cut], state, injection[:, :cut])
        behind, end = cell(inputs[:, cut:], between, injection[:, cut:])
        close(torch.cat([before, behind], dim=1), outputs)
        close(cell.step(follow_up, end)[0], cell.step(follow_up, after)[0])
        if not cell.state_grows:
            close_states(end, after)


@pytest.mark.parametrize("start", ["at-rest", "later"])
@pytest.mark.parametrize("cut", [None, 2, 5])
def test_padded_sequences_give_what_each_gives_alone(cell: Cell, cut: int | None, start: str) -> None:
    """With lengths from none to all, in one call or cut at a place that is padding for some."""
    lengths = [0, 1, 3, 9]
    inputs, injection, state = material(cell, max(lengths), batch=len(lengths))
    if start == "at-rest":
        state = cell.init_state(len(lengths))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    if cut is None:
        outputs, after = cell(inputs, state, injection, mask)
    else:
        first, between = cell(inputs[:, :cut], state, injection[:, :cut], mask[:, :cut])
        second, after = cell(inputs[:, cut:], between, injection[:, cut:], mask[:, cut:])
        outputs = torch.cat([first, second], dim=1)
    assert outputs.isfinite().all()
    follow_up = random_tensor(1, 3, D_MODEL, seed=4)
    for index, length in enumerate(lengths):
        alone = slice(index, index + 1)
        before = of_sequence(state, index)
        if length:
            expected, end = cell(inputs[alone, :length], before, injection[alone, :length])
            close(outputs[alone, :length], expected)
        else:
            end = before
        # What goes on from there is equal, in sequences and single tokens.
        close(cell(follow_up, of_sequence(after, index))[0], cell(follow_up, end)[0])
        token = follow_up[:, 0]
        close(cell.step(token, of_sequence(after, index))[0], cell.step(token, end)[0])
        if not cell.state_grows:
            close_states(of_sequence(after, index), end)


def test_states_under_a_mask_stay_behind_the_last_real_token(cell: Cell) -> None:
    if cell.state_grows:
        return
    inputs, injection, state = material(cell, 6)
    lengths = torch.tensor([0, 2, 6])
    mask = torch.arange(6) < lengths[:, None]
    states = cell.states(inputs, state, injection, mask)
    unpadded = cell.states(inputs, state, injection)
    for index, length in enumerate(lengths.tolist()):
        for t in range(7):
            close_states(
                {name: part[index, t] for name, part in states.items()},
                {name: part[index, min(t, length)] for name, part in unpadded.items()},
            )


def test_gradients_of_both_forms_are_equal(cell: Cell) -> None:
    def gradients(run: Callable[[Tensor, State, Tensor], Tensor]) -> list[Tensor]:
        inputs, injection, state = material(cell, 9)
        inputs.requires_grad_()
        injection.requires_grad_()
        leaves = [inputs, injection]
        for name, part in state.items():
            state[name] = part.detach()
            if part.is_floating_point() and part.numel():
                leaves.append(state[name].requires_grad_())
        outputs = run(inputs, state, injection)
        loss = (outputs * random_tensor(*outputs.shape, seed=5)).sum()
        return list(torch.autograd.grad(loss, [*leaves, *cell.parameters()]))

    results = gradients(lambda inputs, state, injection: cell(inputs, state, injection)[0])
    expected = gradients(lambda inputs, state, injection: scan(cell, inputs, state, injection)[0])
    for result, reference in zip(results, expected, strict=True):
        close(result, reference)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # forward mode
def test_first_and_second_derivatives_by_finite_differences(cell: Cell) -> None:
    inputs, injection, state = material(cell, 3, batch=1)
    state = {name: part.detach() for name, part in state.items()}
    leaves = inputs.requires_grad_(), injection.requires_grad_()
    # In random directions, as entry by entry the sequence is compared with its steps above.
    both_modes = {"fast_mode": True, "check_forward_ad": True}
    assert torch.autograd.gradcheck(lambda u, v: cell(u, state, v)[0], leaves, **both_modes)
    assert torch.autograd.gradcheck(lambda u, v: cell.step(u[:, 0], state, v[:, 0])[0], leaves)
    assert torch.autograd.gradgradcheck(lambda u: cell(u, state, injection)[0], inputs, fast_mode=True)


@torch.no_grad()
def test_the_outputs_do_not_depend_on_whether_gradients_are_on(cell: Cell) -> None:
    inputs, injection, state = material(cell, 9)
    mask = torch.arange(9) < torch.tensor([0, 4, 9])[:, None]
    for real in (None, mask):
        outputs, _ = cell(inputs, state, injection, real)
        with torch.enable_grad():
            expected, _ = cell(inputs, state, injection, real)
        close(outputs, expected.detach())


def test_a_step_can_be_mapped_over_sequences_and_differentiated(cell: Cell) -> None:
    """As theory/ does, which has no batch axis and takes Jacobians in the state."""
    inputs, injection, state = material(cell, 1)

    def alone(token: Tensor, injected: Tensor, state: State) -> Tensor:
        batched = {name: part[None] for name, part in state.items()}
        return cell.step(token[None], batched, injected[None])[0][0]

    mapped = torch.func.vmap(alone)(inputs[:, 0], injection[:, 0], state)
    close(mapped, cell.step(inputs[:, 0], state, injection[:, 0])[0])
    inputs, _, state = material(cell, 1, batch=1)
    name = cell.recurrent_parts[0]

    def after(part: Tensor) -> Tensor:
        return cell.step(inputs[:, 0], {**state, name: part})[0]

    jacobian = torch.func.jacrev(after)(state[name])
    assert jacobian.abs().max() > 0
    close(jacobian, torch.autograd.functional.jacobian(after, state[name]))


def test_the_injection_reaches_the_output_from_every_feature(cell: Cell) -> None:
    """Where a feature acts on this token or, as what is written does, on a later one."""
    inputs, injection, state = material(cell, 4, batch=1)
    injection.requires_grad_()
    outputs, _ = cell(inputs, state, injection)
    (gradient,) = torch.autograd.grad((outputs * random_tensor(*outputs.shape, seed=5)).sum(), injection)
    assert (gradient.abs().amax((0, 1)) > 0).all()


def test_no_injection_is_an_injection_of_zeros(cell: Cell) -> None:
    inputs, injection, state = material(cell, 4)
    nothing = torch.zeros_like(injection)
    assert torch.equal(cell(inputs, state)[0], cell(inputs, state, nothing)[0])
    assert torch.equal(cell.step(inputs[:, 0], state)[0], cell.step(inputs[:, 0], state, nothing[:, 0])[0])


def test_a_step_is_affine_in_the_recurrent_parts_if_and_only_if_the_cell_says_so(cell: Cell) -> None:
    """At fixed inputs and other parts the image of a mixture is the mixture of the images."""
    if cell.state_grows:  # what is appended is not a function of the state
        assert not cell.linear_in_state
        return
    inputs, injection, state = material(cell, 1)
    shapes = {name: state[name].shape for name in cell.recurrent_parts}
    one, other = (
        {name: random_tensor(*shape, seed=seed) for name, shape in shapes.items()} for seed in (4, 5)
    )

    def after(parts: State) -> State:
        following = cell.step(inputs[:, 0], {**state, **parts}, injection[:, 0])[1]
        return {name: following[name] for name in cell.recurrent_parts}

    mixed = after({name: 0.3 * one[name] + 0.7 * other[name] for name in one})
    images = after(one), after(other)
    mixture = {name: 0.3 * images[0][name] + 0.7 * images[1][name] for name in one}
    if cell.linear_in_state:
        close_states(mixed, mixture)
    else:
        assert max((mixed[name] - mixture[name]).abs().max().item() for name in one) > 1e-6


def test_sizes_are_the_arguments_of_the_constructor_and_not_zero(cell: Cell) -> None:
    arguments = inspect.signature(type(cell)).parameters
    for name, field in cell.sizes_class.model_fields.items():
        assert arguments[name].default == field.default
        if field.annotation is int:
            with pytest.raises(InputError, match=f"{name} is 0"):
                type(cell)(D_MODEL, **{name: 0})
    with pytest.raises(InputError, match="d_model is 0"):
        type(cell)(0)


@pytest.mark.parametrize(
    ("kind", "sizes", "field"),
    [
        (Mamba2Cell, {"head_size": 5}, "head_size is 5; it must divide"),
        (Mamba2Cell, {"head_size": 4, "groups": 3}, "groups is 3; it must divide"),
        (Mamba3Cell, {"head_size": 5}, "head_size is 5; it must divide"),
        (Mamba3Cell, {"d_state": 6}, "d_state is 6; give a multiple of 4"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(kind: type[Cell], sizes: dict[str, int], field: str) -> None:
    with pytest.raises(InputError, match=field):
        kind(8, **sizes)


def test_half_precision_runs_and_keeps_a_wide_memory(make_cell: Callable[[torch.dtype], Cell]) -> None:
    cell, exact = make_cell(torch.bfloat16), make_cell(torch.float64)
    exact.load_state_dict(cell.state_dict())
    inputs = random_tensor(BATCH, 9, D_MODEL).to(torch.bfloat16)
    outputs, state = cell(inputs, cell.init_state(BATCH))
    step, _ = cell.step(inputs[:, 0], state)
    assert outputs.dtype == step.dtype == torch.bfloat16
    assert cell.state_grows or {state[name].dtype for name in cell.recurrent_parts} == {torch.float32}
    expected, _ = exact(inputs.double(), exact.init_state(BATCH))
    # bfloat16 keeps 8 bits; a handful of roundings on the way, outputs of order one.
    torch.testing.assert_close(outputs.double(), expected, rtol=0.1, atol=0.1 * expected.abs().max().item())
