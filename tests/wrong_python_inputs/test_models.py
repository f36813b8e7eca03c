"""Wrong input to models, solvers and gradients, in a Python shell."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from implicit import LSTM, LSTMConfig, Mamba2Config, Solve, build_model
from implicit.gradients import FactoredImplicit, Phantom, Unrolled
from implicit.modes import Windowed
from tests.wrong_python_inputs.refused_calls import (
    PARITY,
    SEQUENTIAL,
    TOKENS,
    WIDE,
    Row,
    assert_refused,
    lstm,
    model,
    row_name,
    state,
)

# Types are wrong on purpose all over this table.
MODELS: list[Row] = [
    (lambda: model()([[0, 1]]), ["tokens is [[0, 1]]", "torch.as_tensor(tokens)"]),
    (lambda: model()(np.array([[0, 1]])), ["of type ndarray", "torch.as_tensor(tokens)"]),
    (lambda: lstm().run(None), ["tokens is None", "int64"]),
    (lambda: model()(TOKENS.to("meta")), ["on meta", "on cpu", "move"]),
    (lambda: lstm().run(WIDE), ["(10000000, 10000000)", "GiB", "fewer sequences"]),
    (lambda: model().states([[0, 1]]), ["tokens is [[0, 1]]"]),
    (lambda: model().transitions([0, 1]), ["tokens is [0, 1]", "torch.as_tensor"]),
    (lambda: model().transition("1"), ["token is '1'", "whole number"]),
    (lambda: model().step(model().init_state(1), 1), ["token is 1", "torch.as_tensor"]),
    (lambda: lstm().step(lstm().init_state(2), TOKENS), ["token has shape (2, 3)", "[batch]"]),
    (lambda: model().step(TOKENS[:, 0], model().init_state(2)), ["token is", "torch.as_tensor"]),
    (lambda: model().init_state(-1), ["batch_size is -1", "at least 0"]),
    (
        lambda: model().run(TOKENS, state(**{"conv.0": torch.zeros(2, 5, 3)})),
        ["conv.0", "(2, 5, 3)", "needs"],
    ),
    (
        lambda: model().run(TOKENS, {name: part.double() for name, part in state().items()}),
        ["torch.float64", ".to(torch.float32)"],
    ),
    (
        lambda: model().run(TOKENS, {name: part.numpy() for name, part in state().items()}),
        ["conv.0 is of type ndarray", "returned"],
    ),
    (lambda: lstm().run(TOKENS, torch.zeros(2, 4)), ["state is of type Tensor", "returned"]),
    (lambda: model().run(TOKENS, SEQUENTIAL), ["state is of type Solve", "leave"]),
    (lambda: model().run(TOKENS, lengths=[3, 2]), ["lengths is [3, 2]", "torch.as_tensor"]),
    (lambda: model().run(TOKENS, solve="sequential"), ["'sequential'", "Solve("]),
    (lambda: Solve(np.zeros(2)), ["mode", "known: auto"]),
    (lambda: FactoredImplicit("tight"), ["rtol is 'tight'", "number"]),
    (lambda: Solve("serial"), ["'serial'", "'sequential'"]),
    (lambda: Solve(stopping=1e-3), ["stopping is 0.001", "Stopping("]),
    (lambda: Solve(solver="anderson"), ["'anderson'", "DampedPicard"]),
    (lambda: Solve(gradient=Phantom), ["the class Phantom", "Phantom(4)"]),
    (
        lambda: model().run(TOKENS, solve=Solve(start=torch.zeros(2, 3, 8).double())),
        ["start has", "torch.float64"],
    ),
    (lambda: Unrolled("four"), ["iterations is 'four'", "whole number"]),
    (lambda: Windowed("wide"), ["width is 'wide'", "whole number"]),
    (lambda: LSTMConfig(vocabulary_size=2), ["output_size is missing", "give"]),
    (lambda: LSTMConfig(vocabulary_size=2, output_size=2, d_model=-1), ["d_model is -1", "greater than 0"]),
    (
        lambda: LSTM(Mamba2Config(vocabulary_size=2, output_size=2)),
        ["config is of type", "LSTM.config_class"],
    ),
    (lambda: build_model(LSTM, {}, PARITY), ["the class LSTM", "'lstm'"]),
    (lambda: build_model("lstm", {}, "parity"), ["task is 'parity'", "task_from"]),
    (lambda: build_model("lstm", None, PARITY), ["sizes is None", "'d_model'"]),
    (lambda: build_model("lstm", {"d_modl": 4}, PARITY), ["'d_modl'", "'d_model'"]),
    (lambda: build_model("implicit-mamba2", {"damping": 2}, PARITY), ["damping is 2"]),
]


@pytest.mark.parametrize(("call", "words"), MODELS, ids=row_name)
def test_wrong_input_ends_in_one_sentence(call: Callable[[], object], words: Sequence[str]) -> None:
    assert_refused(call, words)
