"""A cell of a user's is evaluated once where it is made: what would train silently and wrongly is refused."""

import sys
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from automata.errors import InputError
from implicit import ExplicitLayer, ImplicitLayer
from implicit.cells import Cell, CellSizes, GatedDeltaNetCell, Mamba2Cell
from implicit.cells.contract import check_cell
from implicit.models.explicit import explicit_model
from implicit.models.implicit_model import implicit_model
from implicit.models.registry import model_class
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

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        outputs = []
        for t in range(inputs.shape[1]):
            output, after = self.step(inputs[:, t], state, None if injection is None else injection[:, t])
            outputs.append(output)
            keep = slice(None) if mask is None else mask[:, t]
            state = {name: part.clone() for name, part in state.items()}
            for name in state:
                state[name][keep] = after[name][keep]
        return torch.stack(outputs, 1), state


class NoSizes(Right):
    sizes_class = None


class OtherSizes(Right):
    def __init__(self, d_model: int, width: int = 4) -> None:
        super().__init__(d_model, width)


class NoInjectionSize(Right):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        del self.injection_size


class UnknownPart(Right):
    recurrent_parts = ("ssm",)


class NameInPlaceOfNames(Right):
    recurrent_parts = "h"


class NoPart(Right):
    recurrent_parts = ()


class Ignores(Right):
    injected = False


class IgnoresInForward(Right):
    def forward(self, inputs: Tensor, state: State, *given: Any) -> tuple[Tensor, State]:
        return super().forward(inputs, state, None, *given[1:])


class NotAffine(Right):
    def write(self, h: Tensor, value: Tensor) -> Tensor:
        return torch.tanh(0.5 * h + value)


class NotRead(Right):
    def write(self, h: Tensor, value: Tensor) -> Tensor:
        return value


class IgnoresTheMask(Right):
    def forward(self, inputs: Tensor, state: State, *given: Any) -> tuple[Tensor, State]:
        return super().forward(inputs, state, given[0])


class AnotherScan(Right):
    def forward(self, *given: Any) -> tuple[Tensor, State]:
        outputs, state = super().forward(*given)
        return outputs + outputs.cumsum(1), state


class IgnoresTheState(Right):
    def forward(self, inputs: Tensor, state: State, *given: Any) -> tuple[Tensor, State]:
        return super().forward(inputs, {"h": 0 * state["h"]}, *given)


class ResetsAtEveryFourthToken(Right):
    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        outputs = []
        for t in range(0, inputs.shape[1], 4):
            part = [None if given is None else given[:, t : t + 4] for given in (injection, mask)]
            output, state = super().forward(
                inputs[:, t : t + 4], state if t == 0 else {"h": 0 * state["h"]}, *part
            )
            outputs.append(output)
        return torch.cat(outputs, 1), state


class MixesSequences(Right):
    def write(self, h: Tensor, value: Tensor) -> Tensor:
        return 0.5 * (h - 0.5 * h.mean(0)) + value


class AnotherScanOfSmallOutputs(AnotherScan):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        with torch.no_grad():
            for weight in self.out_proj.parameters():
                weight.mul_(1e-5)


class WrongInjection(Right):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.in_proj = nn.Linear(d_model, 10)


class WrongOutput(Right):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.out_proj = nn.Linear(4, D + 1)


class WrongState(Right):
    def step(self, *given: Any) -> tuple[Tensor, State]:
        outputs, after = super().step(*given)
        return outputs, {"h": after["h"].repeat(1, 2)[:, :5]}


class NoBatch(Right):
    def init_state(self, batch_size: int) -> State:
        return {"h": torch.zeros(4)}


class NeedsInjection(Right):
    def step(self, inputs: Tensor, state: State, injection: Any = None) -> tuple[Tensor, State]:
        return super().step(inputs, state, injection + 0)


class Pair(Right):
    """An LSTM's state, of which only c is named: h acts on it and follows from it."""

    recurrent_parts = ("c",)
    linear_in_state = False

    def init_state(self, batch_size: int) -> State:
        return {name: torch.zeros(batch_size, 4) for name in ("c", "h")}

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        outputs, after = super().step(inputs, {"h": state["h"] + state["c"]}, injection)
        return outputs, {"c": after["h"], "h": after["h"].tanh()}


class NormalisesOverTheBatch(Right):
    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.norm = nn.BatchNorm1d(d_model)


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (NormalisesOverTheBatch, "NormalisesOverTheBatch holds BatchNorm1d, which mixes sequences"),
        (NoInjectionSize, "NoInjectionSize has no injection_size; set it in the constructor"),
        (UnknownPart, "recurrent_parts of UnknownPart is ('ssm',); name parts of its state: h"),
        (NameInPlaceOfNames, "recurrent_parts of NameInPlaceOfNames is 'h'; name parts of its state: h"),
        (NoPart, "recurrent_parts of NoPart is (); name parts of its state: h"),
        (Pair, "recurrent_parts of Pair is ('c',), and 'h' depends on them and acts on them; name it too"),
        (NotRead, "recurrent_parts of NotRead is ('h',), and step does not read them to write them;"),
        (Ignores, "step of Ignores ignores the injection; add it to the input projection"),
        (IgnoresInForward, "forward of IgnoresInForward ignores the injection"),
        (NotAffine, "linear_in_state of NotAffine is True, and its step is not affine; set False"),
        (IgnoresTheMask, "forward of IgnoresTheMask is not the scan of its step: state part 'h' of 9 tokens"),
        (AnotherScan, "forward of AnotherScan is not the scan of its step: outputs of 9 tokens, one of them"),
        (IgnoresTheState, "forward of IgnoresTheState is not the scan of its step: outputs behind 5 tokens"),
        (ResetsAtEveryFourthToken, "forward of ResetsAtEveryFourthToken is not the scan of its step:"),
        (MixesSequences, "forward of MixesSequences gives a sequence other outputs in a batch than alone;"),
        (AnotherScanOfSmallOutputs, "forward of AnotherScanOfSmallOutputs is not the scan of its step"),
        (WrongInjection, "step of WrongInjection raises RuntimeError (The size of tensor a (10) must match"),
        (WrongOutput, "step of WrongOutput returns outputs of shape [2, 7]; return [2, 6], as of its inputs"),
        (WrongState, "step of WrongState returns the state {'h': [2, 5]}; return {'h': [2, 4]}, as it is"),
        (NoBatch, "state part 'h' of init_state of NoBatch has shape [4]; return the batch in front"),
        (NeedsInjection, "step of NeedsInjection raises TypeError (unsupported operand"),
    ],
)
def test_a_wrong_cell_is_refused_in_a_sentence(cell: type[Cell], sentence: str) -> None:
    for layer in (ImplicitLayer, ExplicitLayer):
        with pytest.raises(InputError) as caught:
            layer(cell(D), D)
        assert str(caught.value).startswith(sentence)
        assert "\n" not in str(caught.value)


def test_models_of_a_cell_check_it_too() -> None:
    model: Any = explicit_model("own", Ignores, "wrong")
    with pytest.raises(InputError, match=r"^step of Ignores ignores the injection"):
        model(vocabulary_size=2, output_size=2)


def test_a_right_cell_passes_and_stays_as_it_is() -> None:
    """Weights of 0 are no fault, and dropout is neither drawn nor switched off."""
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
        ImplicitLayer(Ignores(D))  # nothing to evaluate


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", [Mamba2Cell, GatedDeltaNetCell])
def test_a_right_cell_of_few_digits_passes(kind: Any, dtype: torch.dtype) -> None:
    """The state is in float32, computed from weights in half precision; autocast would do the same."""
    torch.manual_seed(4)
    own = type("Own", (kind,), {"__module__": "mine"})(32)
    with torch.autocast("cpu", dtype):
        check_cell(own, 32)
    check_cell(own.to(dtype), 32)


class NoStep(Cell):
    sizes_class = Sizes
    init_state, forward = Right.init_state, Right.forward


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (NoStep, "NoStep lacks step; a Cell has the methods forward, init_state, step (docs/extending.md)"),
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
