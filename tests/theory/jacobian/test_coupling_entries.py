"""The chosen entries against the dense Jacobian."""

import torch
from torch import Tensor

from theory import State, TransitionBatch, batched_layer_jacobians
from theory.jacobian.coupling_entries import coupling_entries
from theory.transition_batch import TokenInputs


def test_the_entry_is_off_the_diagonal_and_among_the_large_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    A, C, B = (
        torch.randn(shape, generator=generator, dtype=torch.float64) / 4 for shape in [(3, 3), (3, 9), (9, 3)]
    )

    def advance(z: Tensor, s: State, x: TokenInputs) -> tuple[Tensor, State]:
        image = torch.tanh(A @ z + C @ s["h"] + x["x"])
        return image, {"h": s["h"] / 2 + B @ z}

    inputs = torch.randn(8, 3, generator=generator, dtype=torch.float64)
    transitions = TransitionBatch(advance, {"x": inputs}, latent_size=3, layer_states=(("h",),))
    states = {"h": torch.randn(8, 9, generator=generator, dtype=torch.float64)}
    latents = torch.zeros(8, 3, dtype=torch.float64)
    for _ in range(200):
        latents = torch.stack([transitions[t].self_map(latents[t], {"h": states["h"][t]}) for t in range(8)])
    slopes = torch.stack([torch.diag(1 - latents[t] ** 2) @ A for t in range(8)])
    ((rows, columns),) = coupling_entries(transitions, states, latents, slopes)
    (jacobian,) = batched_layer_jacobians(transitions, states, latents)
    for t in range(8):
        matrix = jacobian[t].dense()
        matrix.fill_diagonal_(0)
        row, column = int(rows[t]), int(columns[t])
        assert row != column
        # the row is the largest of its column, and the column no small one
        assert matrix[row, column].abs() == matrix[:, column].abs().max()
        assert matrix[row, column].abs() > 0.1 * matrix.abs().max()
