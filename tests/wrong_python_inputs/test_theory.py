"""Wrong input to theorem checks and the assertions of our pytest checks, in a Python shell."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from tests.wrong_python_inputs.refused_calls import (
    SEQUENTIAL,
    SIMULTANEOUS,
    TOKENS,
    Row,
    analysed,
    assert_refused,
    model,
    row_name,
    written,
)
from theory import Transition, full_state_jacobian, latent_jacobian, layer_jacobians, solve_fixed_point
from theory.testing import (
    assert_contractive,
    assert_fixed_point,
    assert_kind,
    assert_modes_agree,
    assert_theorem1,
)

# Types are wrong on purpose all over this table.
THEORY: list[Row] = [
    (lambda: assert_contractive(analysed()[0], analysed()[1][0]), ["a single state", "list"]),
    (
        lambda: solve_fixed_point(analysed()[0], {n: p.float() for n, p in analysed()[1][0].items()}),
        ["torch.float32", ".double()"],
    ),
    (
        lambda: assert_contractive(analysed()[0], [{n: p[None] for n, p in analysed()[1][0].items()}]),
        ["self_map raised", "without a batch axis"],
    ),
    (
        lambda: assert_kind(model(), analysed()[1], "diagonal and linear"),
        ["transition is of type", "model.transition(token)"],
    ),
    (lambda: assert_theorem1(model().transition(1), analysed()[1]), ["self_map raised", ".double()"]),
    (
        lambda: Transition(lambda z, s: z, lambda z, s: s, 1, (("h",),), damping=2),
        ["damping is 2", "at most 1"],
    ),
    (lambda: Transition(lambda z, s: z, lambda z, s: s, -1, (("h",),)), ["latent_size is -1"]),
    (lambda: Transition(lambda z, s: z, lambda z, s: s, 1, ("h",)), ["layer_states", "(('h',),)"]),
    (lambda: Transition(lambda z, s: z, lambda z, s: s, 1, None), ["layer_states is None", "(('h',),)"]),
    (lambda: solve_fixed_point(analysed()[0], analysed()[1][0], [0.0]), ["start is [0.0]"]),
    (lambda: layer_jacobians(analysed()[0], analysed()[1][0], None), ["latent is None", "float64"]),
    (
        lambda: full_state_jacobian(analysed()[0], analysed()[1][0], torch.zeros(1).double()),
        ["latent has shape (1,)", "(8,)"],
    ),
    (lambda: latent_jacobian(None, {}, torch.zeros(1)), ["transition is None", "Transition"]),
    (
        lambda: written(lambda z, s: torch.as_tensor(np.tanh(z.numpy()))),
        ["self_map cannot be differentiated", "without NumPy"],
    ),
    (
        lambda: written(lambda z, s: z.detach() / 2 + s["h"] / 3),
        ["self_map changes", "derivative is 0", ".detach()"],
    ),
    (
        lambda: written(lambda z, s: z / 2, lambda z, s: {"h": torch.as_tensor(np.tanh(s["h"].numpy()))}),
        ["state_update cannot be differentiated", "without NumPy"],
    ),
    (lambda: written(lambda z, s: np.zeros(2)), ["self_map returns is of type ndarray", "(2,)"]),
    (lambda: written(lambda z, s: z.sum()), ["shape ()", "(2,)"]),
    (lambda: written(lambda z, s: z.float()), ["torch.float32", "torch.float64"]),
    (
        lambda: written(lambda z, s: z / 2, lambda z, s: s["h"]),
        ["state_update returns is of type Tensor", "dictionary"],
    ),
    (lambda: written(lambda z: z), ["self_map raised TypeError", "give"]),
    (
        lambda: assert_fixed_point(*analysed(), [torch.zeros(8).double()]),
        ["latents holds 1 for 2 states", "one for each"],
    ),
    (lambda: assert_fixed_point(*analysed(), tolerance=-1), ["tolerance is -1", "at least 0"]),
    (lambda: assert_theorem1(*analysed(), "hold"), ["'hold'", "'holds'"]),
    (lambda: assert_modes_agree(model(), [[0, 1]], SIMULTANEOUS, SEQUENTIAL), ["tokens is [[0, 1]]"]),
    (
        lambda: assert_modes_agree(model(), TOKENS, SIMULTANEOUS, SEQUENTIAL, share=2),
        ["share is 2", "at most 1"],
    ),
]


@pytest.mark.parametrize(("call", "words"), THEORY, ids=row_name)
def test_wrong_input_ends_in_one_sentence(call: Callable[[], object], words: Sequence[str]) -> None:
    assert_refused(call, words)
