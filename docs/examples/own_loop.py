"""A network of torch.nn, trained in a loop of one's own, and asked questions in memory."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import analysis
import implicit
import theory
from automata import make_task


class Net(nn.Module):
    """Embedding, GRU, head: nothing of this package."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(2, 16), nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of whole sequences."""
        return self.head(self.gru(self.embedding(tokens))[0])

    def one_token(self, state: dict[str, Tensor], token: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Return the state after a token, and the logits."""
        output, h = self.gru(self.embedding(token)[:, None], state["h"][None].contiguous())
        return {"h": h[0]}, self.head(output[:, 0])


def main(steps: int = 1000) -> None:
    """Train on parity, then ask."""
    torch.set_num_threads(1)  # threads of so small a model would only wait for each other
    torch.manual_seed(0)
    net, task, rng = Net(), make_task("parity"), np.random.default_rng(0)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        batch = task.batch(64, 12, rng)
        logits = net(torch.from_numpy(batch.tokens))
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), torch.from_numpy(batch.targets).flatten()).backward()
        optimizer.step()

    model = implicit.wrap(net, Net.one_token, {"h": torch.zeros(16)}, vocabulary_size=2)
    print(theory.check(model, [1, 0, 1, 1]))
    print(analysis.ask("length_generalization", model, task="parity", lengths=[12, 96]).runs[0].accuracy(96))
    print(analysis.ask("extraction", model, task="parity", length=12).sentence)


if __name__ == "__main__":
    main()
