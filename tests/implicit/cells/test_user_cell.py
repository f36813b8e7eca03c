"""A cell of a user's is evaluated once where it is made: what would train silently and wrongly is refused."""

import sys
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from automata.errors import InputError
from implicit import ExplicitLayer, ImplicitLayer
from implicit.cells import Cell, CellSizes, GatedDeltaNetCell, Mamba2Cell
from implicit.cells.contract import check_cell
from implicit.fixed_point import Stopping
from implicit.gradients import FactoredImplicit, Unrolled
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model
from implicit.models.registry import model_class
from implicit.modes import Solve
from theory.transition import State

D = 6


class Sizes(CellSizes):
    """One size."""

    d_inner: int = 4


class Right(Cell):
    """h ← λ h + v; a gated output, in which the injection may be switched off at the beginning."""

    sizes_class: ClassVar[Any] = Sizes
    recurrent_parts: ClassVar[Any] = ("h",)
    linear_in_state = True
    injected = True

    def __init__(self, d_model: int, d_inner: int = 4) -> None:
        super().__init__()
        self.injection_size = 2 * d_inner
        self.in_proj, self.out_proj = nn.Linear(d_model, 2 * d_inner), nn.Linear(d_inner, d_model)
        self.dropout = nn.Dropout(0.5)

    def init_state(self, batch_size: int) -> State:
        return {"h": self.in_proj.weight.new_zeros(batch_size, self.injection_size // 2)}

    def write(self, h: Tensor, value: Tensor) -> Tensor:
        return 0.5 * h + value

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        projected = self.in_proj(inputs)
        if injection is not None and self.injected:
            projected = projected + injection
        value, gate = projected.chunk(2, -1)
        h = self.write(state["h"], value)
        return self.out_proj(self.dropout(h * gate.sigmoid())), {"h": h}


class Pair(Right):
    """An LSTM's state, of which only c is named: h acts on it and follows from it."""

    recurrent_parts = ("c",)
    linear_in_state = False

    def init_state(self, batch_size: int) -> State:
        return {name: torch.zeros(batch_size, 4) for name in ("c", "h")}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        outputs, after = super().step(inputs, {"h": state["h"] + state["c"]}, injection)
        return outputs, {"c": after["h"], "h": after["h"].tanh()}


def wrong(changed: Callable[[Any], object] = id, **members: Any) -> Any:
    """A cell with other members, which is changed where it is made."""

    def made(self: Any, d_model: int, d_inner: int = 4) -> None:
        Right.__init__(self, d_model, d_inner)
        changed(self)

    return type("Wrong", (Right,), {"__init__": made, **members})


def state_in_float32(self: Any, *given: Any) -> tuple[Tensor, State]:
    outputs, after = Right.step(self, *given)
    return outputs, {"h": after["h"].float()}


def another_scan(self: Any, *given: Any) -> tuple[Tensor, State]:
    outputs, state = Right.forward(self, *given)
    return outputs + outputs.cumsum(1), state


def in_chunks(
    self: Any, inputs: Any, state: State, injection: Any = None, mask: Any = None, size: int = 4
) -> tuple[Tensor, State]:
    outputs = []
    for t in range(0, inputs.shape[1], size):
        given: list[Any] = [
            part if part is None else part[:, t : t + size] for part in (inputs, injection, mask)
        ]
        given.insert(1, state if t == 0 else {"h": 0 * state["h"]})
        output, state = Right.forward(self, *given)
        outputs.append(output)
    return torch.cat(outputs, 1), state


def state_of_another_shape(self: Any, *given: Any) -> tuple[Tensor, State]:
    outputs, after = Right.step(self, *given)
    return outputs, {"h": after["h"].repeat(1, 2)[:, :5]}


def step_of_a_complex_state(self: Any, inputs: Tensor, state: State, *given: Any) -> tuple[Tensor, State]:
    outputs, after = Right.step(self, inputs, {"h": state["h"].real}, *given)
    return outputs, {"h": torch.complex(after["h"], state["h"].imag)}


def with_a_running_mean(cell: Any) -> None:
    cell.register_buffer("mean", torch.ones(D))
    cell.dropout.eval()  # whose draws would hide it


def with_a_sum(self: Any, batch_size: int) -> State:
    return {**Right.init_state(self, batch_size), "sum": self.in_proj.weight.new_zeros(batch_size, 1)}


def beside_a_sum(self: Any, inputs: Tensor, state: State, *given: Any) -> tuple[Tensor, State]:
    outputs, after = Right.step(self, inputs, state, *given)
    return outputs + state["sum"], {**after, "sum": 0.9 * state["sum"] + outputs.mean(-1, keepdim=True)}


def over_a_running_mean(self: Any, inputs: Tensor, *given: Any) -> tuple[Tensor, State]:
    outputs, after = Right.step(self, inputs, *given)
    if self.training:
        self.mean.mul_(0.9).add_(0.1 * inputs.abs().mean(0))
    return outputs / (1 + self.mean), after


def in_place(self: Any, inputs: Tensor, state: State, injection: Any = None) -> tuple[Tensor, State]:
    outputs, after = Right.step(self, inputs, {"h": state["h"].tanh()}, injection)
    h = after["h"].sigmoid()
    return outputs + h.mul_(2).sum(-1, keepdim=True), {"h": h}


def shrink(cell: Any) -> None:
    with torch.no_grad():
        for weight in cell.out_proj.parameters():
            weight.mul_(1e-5)


def without_dropout(cell: Any) -> None:
    cell.dropout = nn.Identity()


def dropped(self: Any, *given: Any) -> tuple[Tensor, State]:
    outputs, state = Right.forward(self, *given)
    return functional.dropout(outputs, 0.5, self.training), state


IN_FLOAT32 = lambda _, batch_size: {"h": torch.zeros(batch_size, 4)}  # noqa: E731
NO_SCAN = "forward of Wrong is not the scan of its step: "
WRONG: list[tuple[Any, str]] = [
    (wrong(lambda cell: setattr(cell, "norm", nn.BatchNorm1d(D))), "Wrong holds BatchNorm1d, which mixes"),
    (wrong(lambda cell: delattr(cell, "injection_size")), "Wrong has no injection_size; set it in the con"),
    (wrong(recurrent_parts=("ssm",)), "recurrent_parts of Wrong is ('ssm',); name parts of its state: h"),
    (wrong(recurrent_parts="h"), "recurrent_parts of Wrong is 'h'; name parts of its state: h"),
    (wrong(recurrent_parts=()), "recurrent_parts of Wrong is (); name parts of its state: h"),
    (Pair, "recurrent_parts of Pair is ('c',), and 'h' depends on them and acts on them; name it too"),
    (wrong(write=lambda self, h, x: x), "recurrent_parts of Wrong is ('h',), and step does not read them to"),
    (wrong(injected=False), "step of Wrong ignores the injection; add it to the input projection"),
    (
        wrong(forward=lambda self, x, h, *given: Right.forward(self, x, h, None, *given[1:])),
        "forward of Wrong ignores the injection",
    ),
    (wrong(write=lambda self, h, x: torch.tanh(h + x)), "linear_in_state of Wrong is True, and its step is"),
    (wrong(write=lambda self, h, x: torch.tanh((h + x) / 100)), "linear_in_state of Wrong is True, and its"),
    (wrong(forward=lambda self, x, h, *given: Right.forward(self, x, h, given[0])), f"{NO_SCAN}state part"),
    (wrong(forward=another_scan), f"{NO_SCAN}outputs of 9 tokens, one of them"),
    (
        wrong(forward=lambda self, x, state, *given: Right.forward(self, x, {"h": 0 * state["h"]}, *given)),
        f"{NO_SCAN}outputs behind 5 tokens",
    ),
    (
        wrong(init_state=IN_FLOAT32),
        "init_state of Wrong returns 'h' in torch.float32 where the weights are in torch.float64, as in",
    ),
    (
        wrong(
            init_state=lambda _, batch_size: {"h": torch.zeros(batch_size, 4, dtype=torch.complex64)},
            step=step_of_a_complex_state,
        ),
        "init_state of Wrong returns 'h' in torch.complex64 where the weights are in torch.float64, as in "
        "analyses; make it of the precision of the weights, as self.in_proj.weight.new_zeros(..., "
        "dtype=self.in_proj.weight.dtype.to_complex()) does",
    ),
    (wrong(forward=in_chunks), NO_SCAN),
    (wrong(state_grows=True), "the state of Wrong grows, so its scan takes no padding; write a forward"),
    (wrong(step=lambda self, x, *given: Right.step(self, x.mul_(2), *given)), "step of Wrong writes into"),
    (
        wrong(forward=partialmethod(in_chunks, size=64)),
        f"{NO_SCAN}outputs of 130 tokens differ from token 64",
    ),
    (wrong(shrink, forward=another_scan), NO_SCAN),
    (wrong(write=lambda self, h, x: h - 0.5 * h.mean(0) + x), "forward of Wrong gives a sequence other outp"),
    (
        wrong(lambda cell: setattr(cell, "in_proj", nn.Linear(D, 10))),
        "step of Wrong raises RuntimeError (The",
    ),
    (wrong(lambda cell: setattr(cell, "out_proj", nn.Linear(4, D + 1))), "step of Wrong returns outputs of"),
    (
        wrong(step=state_of_another_shape),
        "step of Wrong returns the state {'h': [2, 5]}; return {'h': [2, 4]}",
    ),
    (
        wrong(init_state=lambda *_: {"h": torch.zeros(4)}),
        "state part 'h' of init_state of Wrong has shape [4]",
    ),
    (
        wrong(with_a_running_mean, step=over_a_running_mean),
        "step of Wrong gives a sequence other outputs in a batch than alone, in training; let each row",
    ),
    (
        wrong(write=lambda self, h, value: 0.5 * h.cumsum(0) + value),  # the first row is right, the next not
        "forward of Wrong gives a sequence other outputs in a batch than alone; let each row",
    ),
    (
        wrong(init_state=with_a_sum, step=beside_a_sum),
        "recurrent_parts of Wrong is ('h',), and step carries on 'sum'; name it too",
    ),
    (wrong(step=in_place), "the gradient of step of Wrong raises RuntimeError (one of the variables"),
    (
        wrong(states=lambda self, x, *given: Cell.states(self, 3 * x, *given)),
        "states of Wrong are not those of its step, but of the cell that it extends; write states too",
    ),
    (
        wrong(step=lambda self, x, state, injection=None: Right.step(self, x, state, injection + 0)),
        "step of Wrong raises TypeError (unsupported operand",
    ),
]


@pytest.mark.parametrize(("cell", "sentence"), WRONG)
def test_a_wrong_cell_is_refused_in_a_sentence(cell: type[Cell], sentence: str) -> None:
    for layer in (ImplicitLayer, ExplicitLayer):
        with pytest.raises(InputError) as caught:
            layer(cell(D), D)
        assert str(caught.value).startswith(sentence)
        assert "\n" not in str(caught.value)


def test_a_forward_that_alone_draws_is_refused_where_it_is_iterated() -> None:
    cell = wrong(without_dropout, forward=dropped)
    ExplicitLayer(cell(D), D)
    with pytest.raises(InputError, match="forward of Wrong draws random numbers in training and step"):
        ImplicitLayer(cell(D), D)


def test_models_of_a_cell_check_it_too() -> None:
    model: Any = explicit_model("own", wrong(injected=False), "wrong")
    with pytest.raises(InputError, match=r"^step of Wrong ignores the injection"):
        model(vocabulary_size=2, output_size=2)


def test_a_right_cell_passes_and_stays_as_it_is() -> None:
    cell = Right(D)
    nn.init.zeros_(cell.out_proj.weight)
    cell.dropout.eval()
    layer = ImplicitLayer(cell)
    drawn = torch.get_rng_state()
    check_cell(cell, D)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert layer.training
    assert cell.training
    assert not cell.dropout.training
    with torch.device("meta"):
        ImplicitLayer(wrong(injected=False)(D))  # nothing to evaluate


class Clocked(Right):
    """Reads every second token twice as strongly; what counts them has no derivative."""

    dtype: ClassVar = torch.bool

    def init_state(self, batch_size: int) -> State:
        return {**super().init_state(batch_size), "clock": torch.zeros(batch_size, 1, dtype=self.dtype)}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        outputs, after = super().step(inputs * (1 + state["clock"]), {"h": state["h"]}, injection)
        return outputs, {**after, "clock": state["clock"].logical_not().to(self.dtype)}


@pytest.mark.parametrize("kind", [Clocked, type("Counted", (Clocked,), {"dtype": torch.int64})])
def test_a_part_of_the_state_without_derivative_has_none(kind: type[Cell]) -> None:
    torch.manual_seed(0)
    layer, gradients = ImplicitLayer(kind(D)).double().eval(), []
    inputs = torch.randn(2, 5, D, dtype=torch.float64)
    for rule in (FactoredImplicit(), Unrolled(200)):
        layer.solve = Solve(stopping=Stopping(rtol=1e-10, max_iterations=200), gradient=rule)
        outputs, state = layer(inputs)
        loss = outputs.square().sum() + state["h.0"].sum()
        gradients.append(torch.autograd.grad(loss, [*layer.parameters()]))
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [Mamba2Cell, GatedDeltaNetCell])
def test_a_right_cell_of_few_digits_passes(kind: Any, dtype: torch.dtype) -> None:
    """The state is in float32, computed from weights in half precision; autocast would do the same."""
    torch.manual_seed(4)
    own = type("Own", (kind,), {"__module__": "mine"})(32)
    with torch.autocast("cpu", dtype):
        check_cell(own, 32)
    check_cell(own.to(dtype), 32)
    check_cell(wrong(init_state=IN_FLOAT32, step=state_in_float32)(D), D)


class NoSizes(Right):
    sizes_class = None


class OtherSizes(Right):
    def __init__(self, d_model: int, width: int = 4) -> None:
        super().__init__(d_model, width)


class NoStep(Cell):
    sizes_class = Sizes
    init_state = Right.init_state


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (NoStep, "NoStep lacks step; a Cell has the methods init_state, step (docs/your_own_cell"),
        (nn.GRU, "cell is the class GRU; give a subclass of Cell, such as Mamba2Cell"),
        (NoSizes, "sizes_class of NoSizes is None; give the CellSizes whose fields are the keyword"),
        (OtherSizes, "sizes_class of OtherSizes has d_inner, which its constructor does not take"),
    ],
)
def test_a_class_that_makes_no_model_is_refused(cell: type[Cell], sentence: str) -> None:
    for made in (explicit_model, implicit_model):
        with pytest.raises(InputError) as caught:
            made("own", cell, "wrong")
        assert str(caught.value).startswith(sentence)


def test_a_module_with_such_a_cell_is_not_called_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "cell_without_sizes"
    (tmp_path / f"{name}.py").write_text(
        "from tests.implicit.cells.test_user_cell import NoSizes\n"
        "from implicit.models.explicit import explicit_model\n"
        "Model = explicit_model('own', NoSizes, 'no sizes')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="whose module is refused: sizes_class of NoSizes is None") as caught:
        model_class(f"{name}:Model")
    assert "PYTHONPATH" not in str(caught.value)
    sys.modules.pop(name, None)
