"""sLSTM against its formulas without exponents taken out, in float64."""

import pytest
import torch

from automata.errors import InputError
from implicit.models.torch_rnn import SLSTM, SLSTMConfig, SLSTMLayer

SIZE, HEADS, LENGTH = 12, 3, 40


def layer_of(model: SLSTM) -> SLSTMLayer:
    (layer,) = model.layers
    assert isinstance(layer, SLSTMLayer)
    return layer


def random_model() -> SLSTM:
    torch.manual_seed(0)
    model = SLSTM(SLSTMConfig(vocabulary_size=5, output_size=4, d_model=SIZE, heads=HEADS)).double()
    with torch.no_grad():
        layer_of(model).recurrent.normal_()
        layer_of(model).inputs.weight.normal_()
    return model


@torch.no_grad()
def test_outputs_are_those_of_the_formulas() -> None:
    """The public package's own step gave the same to 1.2e-7 in float32, with these weights (docs/log.md)."""
    model = random_model()
    layer, tokens = layer_of(model), torch.randint(5, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    logits = model(tokens)
    size = SIZE // HEADS
    for row in range(2):
        hidden, cell, normaliser = (torch.zeros(SIZE, dtype=torch.float64) for _ in range(3))
        for place in range(LENGTH):
            raw = layer.inputs(model.embedding(tokens[row, place]))
            gates = []
            for gate in range(4):
                from_hidden = torch.cat(
                    [
                        hidden[head * size : (head + 1) * size]
                        @ layer.recurrent[head][:, gate * size : (gate + 1) * size]
                        for head in range(HEADS)
                    ]
                )
                gates.append(raw[gate * SIZE : (gate + 1) * SIZE] + from_hidden)
            write, forget = gates[0].exp(), gates[1].sigmoid()
            cell = forget * cell + write * gates[2].tanh()
            normaliser = forget * normaliser + write
            hidden = gates[3].sigmoid() * cell / normaliser
            # some forty sums and quotients, each to 1e-16, in a state that forgets
            torch.testing.assert_close(logits[row, place], model.head(hidden), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("exponent", [1000.0, -1000.0])
def test_gates_that_no_float_holds_stay_finite(exponent: float) -> None:
    model = random_model()
    with torch.no_grad():
        layer_of(model).inputs.bias[:SIZE] = exponent
    logits = model(torch.zeros(1, 200, dtype=torch.long))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


def test_heads_divide_the_size() -> None:
    with pytest.raises(InputError, match="heads is 4; it must divide d_model = 6"):
        SLSTM(SLSTMConfig(vocabulary_size=2, output_size=2, d_model=6))
