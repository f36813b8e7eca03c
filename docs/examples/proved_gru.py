"""A GRU-like implicit cell of one's own, and the proof that it has the state transition of an RNN."""

import torch
from torch import Tensor, nn

from theory import Theorem1Proof, Transition, prove_theorem1
from theory.transition import State

torch.manual_seed(0)
SIZE = 8  # of the state h and of the latent z
gates, new, read = (nn.Linear(SIZE, size).double() for size in (2 * SIZE, SIZE, SIZE))
token = torch.randn(3 * SIZE, dtype=torch.float64)  # what the token adds to the gates and to the new state


def update(z: Tensor, state: State) -> State:
    """G: gates that read the latent keep a part of h, forget a part of z, and write the rest."""
    keep, reset = torch.sigmoid(gates(z) + token[: 2 * SIZE]).chunk(2)
    written = torch.tanh(new(reset * z) + token[2 * SIZE :])
    return {"h": keep * state["h"] + (1 - keep) * written}


def self_map(z: Tensor, state: State) -> Tensor:
    """Φ: the latent reads the state after the update."""
    return torch.tanh(read(update(z, state)["h"]))


def main() -> Theorem1Proof:
    """Prove existence, uniqueness, contraction, non-diagonal and non-linear at eight visited states."""
    transition = Transition(self_map, update, latent_size=SIZE, layer_states=(("h",),), damping=0.8)
    states: list[State] = [{"h": torch.zeros(SIZE, dtype=torch.float64)}]
    while len(states) < 8:
        z = torch.zeros(SIZE, dtype=torch.float64)
        for _ in range(100):
            z = 0.2 * z + 0.8 * self_map(z, states[-1]).detach()
        states.append({"h": update(z, states[-1])["h"].detach()})
    proof = prove_theorem1(transition, states)
    print(proof.sentence)
    return proof


if __name__ == "__main__":
    main()
