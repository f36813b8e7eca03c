"""The models that the contract of `SequenceModel` is held to: every registered one, and variants of sizes."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from implicit.models.interface import ALPHABETS, SequenceModel
from implicit.models.registry import MODELS, size_names
from implicit.models.step_model import wrap
from tests.small_models import small_sizes, with_flat_self_map
from theory.transition import State

VOCABULARY, CLASSES, BATCH, LENGTH = 5, 3, 3, 4
# Relative tolerance of a solve in float64: little above what rounding allows, 64 units of 2e-16.
TIGHT = 1e-13
VARIANTS: dict[str, dict[str, Any]] = {
    "lstm, 2 layers": {"layers": 2},
    "slstm, 2 layers": {"layers": 2},
    "elman, 2 layers": {"layers": 2},
    "mamba2, 2 layers": {"layers": 2},
    "mamba2, no convolution": {"layers": 2, "d_conv": 1},
    "mamba2, MLP": {"mlp_size": 6},
    "transformer, 2 layers": {"layers": 2},
    "deltanet, negative eigenvalues": {"negative_eigenvalues": True, "layers": 2},
    "gated-deltaproduct, 3 steps": {"negative_eigenvalues": True, "householder_steps": 3},
    "implicit-mamba2, 2 layers": {"layers": 2},
    "implicit-mamba2, no residual": {"residual": False},
    "implicit-mamba2, 2 layers, no residual": {"layers": 2, "residual": False},
    "implicit-mamba2, no convolution": {"d_conv": 1},
    "implicit-mamba2, MLP": {"mlp_size": 6},
    "implicit-gated-deltanet, 2 layers": {"layers": 2, "negative_eigenvalues": True},
}
WRAPPED = "a network of torch.nn, wrapped"
CASES = {**{name: {} for name in MODELS}, **VARIANTS, WRAPPED: {}}


class PlainGRU(nn.Module):
    """A network as users have it: embedding, `torch.nn.GRU`, head."""

    def __init__(self, vocabulary_size: int = VOCABULARY, answers: int = CLASSES, size: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, size)
        self.gru = nn.GRU(size, size, batch_first=True)
        self.head = nn.Linear(size, answers)

    def one(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        output, hidden = self.gru(self.embedding(token)[:, None], state["hidden.0"][None].contiguous())
        return {"hidden.0": hidden[0]}, self.head(output[:, 0])

    def wrapped(self) -> SequenceModel:
        zeros = {"hidden.0": torch.zeros(self.gru.hidden_size)}
        return wrap(self, PlainGRU.one, zeros, vocabulary_size=self.embedding.num_embeddings)


def build_case(case: str) -> SequenceModel:
    if case == WRAPPED:
        return PlainGRU().wrapped()
    model = MODELS[case.split(",")[0]]
    sizes = small_sizes(model.name)
    if "rtol" in size_names(model.name):  # 5e-6: a little above what rounding allows in float32
        single = torch.get_default_dtype() == torch.float32
        sizes.update({"rtol": 5e-6 if single else TIGHT})
    alphabets = dict(zip(ALPHABETS, (VOCABULARY, CLASSES), strict=True))
    built = model(model.config_class(**alphabets, **{**sizes, **CASES[case]}))
    return with_flat_self_map(built, 0.02, 100)


@torch.no_grad()
def scan(model: SequenceModel, tokens: Tensor) -> tuple[Tensor, list[State]]:
    """Run `step` over the tokens; return logits and the states before every token and after the last."""
    states, logits = [model.init_state(len(tokens))], []
    for token in tokens.unbind(1):
        state, scores = model.step(states[-1], token)
        states.append(state)
        logits.append(scores)
    return torch.stack(logits, 1), states


def vector_of(weights: Mapping[str, Tensor]) -> Tensor:
    """All weights in one vector, for which two solves tell a directional derivative."""
    return torch.cat([weight.detach().flatten() for weight in weights.values()])


def parts_of(vector: Tensor, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    sizes = [weight.numel() for weight in weights.values()]
    for (name, weight), part in zip(weights.items(), vector.split(sizes), strict=True):
        yield name, part.view_as(weight)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(2))
