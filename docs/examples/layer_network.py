"""An implicit layer in a network and a training loop of one's own: parity of bits."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from implicit import ImplicitLayer
from implicit.cells import Mamba2Cell


class Network(nn.Module):
    """Embedding, a Mamba-2 cell that is iterated to a fixed point, and head."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2, width)
        self.layer = ImplicitLayer(Mamba2Cell(width, d_state=16, head_size=16))
        self.head = nn.Linear(width, 2)

    def forward(self, bits: Tensor) -> Tensor:
        """Return logits of the parity of the bits so far."""
        features, _state = self.layer(self.embedding(bits))
        return self.head(features)


def train(steps: int = 600) -> Network:
    """Train on sequences that grow when they are learnt; print the accuracy at four times the length."""
    torch.manual_seed(0)
    network, length, right = Network(), 2, 0.0
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    for _ in range(steps):
        bits = torch.randint(2, (64, length))
        targets = bits.cumsum(1) % 2
        logits = network(bits)
        loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 0.25)
        optimizer.step()
        right += 0.1 * (float((logits.argmax(-1) == targets).float().mean()) - right)
        if right > 0.97 and length < 16:
            length, right = length + 2, 0.0
    bits = torch.randint(2, (64, 4 * length))
    with torch.no_grad():
        share = float((network(bits).argmax(-1) == bits.cumsum(1) % 2).float().mean())
    print(f"trained at up to {length} bits; right at {4 * length}: {share:.3f}")
    return network


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads of so small a model would only wait for each other
    train()
