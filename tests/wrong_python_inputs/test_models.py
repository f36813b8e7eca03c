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
    state,
)

# Types are wrong on purpose all over this table.
MODELS: dict[str, Row] = {
    "tokens: lists": (lambda: model()([[0, 1]]), ["tokens is [[0, 1]]", "torch.as_tensor(tokens)"]),
    "tokens: an array": (lambda: model()(np.array([[0, 1]])), ["of type ndarray", "torch.as_tensor(tokens)"]),
    "tokens: None": (lambda: lstm().run(None), ["tokens is None", "int64"]),
    "tokens: another device": (lambda: model()(TOKENS.to("meta")), ["on meta", "on cpu", "move"]),
    "tokens: beyond the memory": (
        lambda: lstm().run(WIDE),
        ["(10000000, 10000000)", "GiB", "fewer sequences"],
    ),
    "states: lists": (lambda: model().states([[0, 1]]), ["tokens is [[0, 1]]"]),
    "transitions: lists": (lambda: model().transitions([0, 1]), ["tokens is [0, 1]", "torch.as_tensor"]),
    "transition: a text": (lambda: model().transition("1"), ["token is '1'", "whole number"]),
    "step: a number": (lambda: model().step(model().init_state(1), 1), ["token is 1", "torch.as_tensor"]),
    "step: sequences": (
        lambda: lstm().step(lstm().init_state(2), TOKENS),
        ["token has shape (2, 3)", "[batch]"],
    ),
    "step: swapped": (
        lambda: model().step(TOKENS[:, 0], model().init_state(2)),
        ["token is", "torch.as_tensor"],
    ),
    "init_state: negative": (lambda: model().init_state(-1), ["batch_size is -1", "at least 0"]),
    "state: part of another size": (
        lambda: model().run(TOKENS, state(**{"conv.0": torch.zeros(2, 5, 3)})),
        ["conv.0", "(2, 5, 3)", "needs"],
    ),
    "state: of another dtype": (
        lambda: model().run(TOKENS, {name: part.double() for name, part in state().items()}),
        ["torch.float64", ".to(torch.float32)"],
    ),
    "state: arrays": (
        lambda: model().run(TOKENS, {name: part.numpy() for name, part in state().items()}),
        ["conv.0 is of type ndarray", "returned"],
    ),
    "state: a tensor": (
        lambda: lstm().run(TOKENS, torch.zeros(2, 4)),
        ["state is of type Tensor", "returned"],
    ),
    "state: options in its place": (
        lambda: model().run(TOKENS, SEQUENTIAL),
        ["state is of type Solve", "leave"],
    ),
    "lengths: a list": (
        lambda: model().run(TOKENS, lengths=[3, 2]),
        ["lengths is [3, 2]", "torch.as_tensor"],
    ),
    "solve: the name of a mode": (
        lambda: model().run(TOKENS, solve="sequential"),
        ["'sequential'", "Solve("],
    ),
    "solve: an array as mode": (lambda: Solve(np.zeros(2)), ["mode", "known: auto"]),
    "tolerance in words": (lambda: FactoredImplicit("tight"), ["rtol is 'tight'", "number"]),
    "solve: unknown mode": (lambda: Solve("serial"), ["'serial'", "'sequential'"]),
    "solve: tolerance as stopping": (lambda: Solve(stopping=1e-3), ["stopping is 0.001", "Stopping("]),
    "solve: name of a solver": (lambda: Solve(solver="anderson"), ["'anderson'", "DampedPicard"]),
    "solve: a class as gradient": (lambda: Solve(gradient=Phantom), ["the class Phantom", "Phantom(4)"]),
    "solve: start of another dtype": (
        lambda: model().run(TOKENS, solve=Solve(start=torch.zeros(2, 3, 8).double())),
        ["start has", "torch.float64"],
    ),
    "unrolled in words": (lambda: Unrolled("four"), ["iterations is 'four'", "whole number"]),
    "width of windows": (lambda: Windowed("wide"), ["width is 'wide'", "whole number"]),
    "config: constructor": (lambda: LSTMConfig(vocabulary_size=2), ["output_size is missing", "give"]),
    "config: negative size": (
        lambda: LSTMConfig(vocabulary_size=2, output_size=2, d_model=-1),
        ["d_model is -1", "greater than 0"],
    ),
    "config: of another model": (
        lambda: LSTM(Mamba2Config(vocabulary_size=2, output_size=2)),
        ["config is of type", "LSTM.config_class"],
    ),
    "build: a class": (lambda: build_model(LSTM, {}, PARITY), ["the class LSTM", "'lstm'"]),
    "build: name of a task": (lambda: build_model("lstm", {}, "parity"), ["task is 'parity'", "task_from"]),
    "build: sizes None": (lambda: build_model("lstm", None, PARITY), ["sizes is None", "'d_model'"]),
    "build: unknown size": (lambda: build_model("lstm", {"d_modl": 4}, PARITY), ["'d_modl'", "'d_model'"]),
    "build: damping 2": (lambda: build_model("implicit-mamba2", {"damping": 2}, PARITY), ["damping is 2"]),
}


@pytest.mark.parametrize(("call", "words"), MODELS.values(), ids=MODELS)
def test_wrong_input_ends_in_one_sentence(call: Callable[[], object], words: Sequence[str]) -> None:
    assert_refused(call, words)
