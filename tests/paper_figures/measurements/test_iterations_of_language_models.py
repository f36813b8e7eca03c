"""Self-iterations of language models at test, against loops and single tokens, in float64."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from implicit.fixed_point import Stopping
from implicit.language.pretrain import FinishedRun
from implicit.modes import Solve
from paper_figures.measurements.language import IterationSettings, kind_of_token, measure_iterations
from tests.paper_figures.measurements.language_runs import run_of, write_text

WINDOWS, CONTEXT = 9, 16
LIMIT = 12
"""Of evaluations token by token: some tokens need more."""
ROUNDING = 1e-6
"""Logits are rounded to float32 before their likelihoods, which have 6e-8 relative to logits of some 10."""


@dataclass
class Measured:
    run: FinishedRun
    found: dict[str, Any]
    windows: Tensor


@pytest.fixture(scope="module", params=["mamba2", "llama"])
def measured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """A model in float64, so that no rounding decides when a token is done."""
    folder = tmp_path_factory.mktemp(request.param)
    run = run_of(folder, request.param, True)
    run.model.double()
    settings = IterationSettings(
        file=write_text(folder),
        windows=WINDOWS,
        context=CONTEXT,
        allowed=(1, 2, 3, 5, 40),
        rtol=0.02,
        max_iterations=LIMIT,
    )
    found = measure_iterations(run, settings)
    text = run.tokenizer(Path(settings.file).read_text())["input_ids"][: WINDOWS * CONTEXT]
    rows = [text[first : first + CONTEXT] for first in range(0, len(text), CONTEXT)]
    return Measured(run, found, torch.tensor(rows))


def nats(logits: list[float], following: int) -> float:
    largest = max(logits)
    return largest + math.log(sum(math.exp(logit - largest) for logit in logits)) - logits[following]


@torch.no_grad()
def perplexity_after(measured: Measured, count: int) -> float:
    """The perplexity after so many damped steps from zero, layer by layer, each window by itself."""
    model: Any = measured.run.model
    stack, damping = model.model, model.config.damping
    told = []
    for window in measured.windows:
        injection = stack.injections[0](stack.embedding_norm(stack.embedding(window[None])))
        begin = stack.init_state(1)
        latent = torch.zeros(1, CONTEXT, model.config.hidden_size, dtype=torch.float64)
        for _ in range(count):
            stream = latent
            for layer, (cell, norm) in enumerate(zip(stack.mixers, stack.mixer_norms, strict=True)):
                state = {
                    name.rpartition(".")[0]: part
                    for name, part in begin.items()
                    if name.endswith(f".{layer}")
                }
                output = cell(norm(stream), state, injection, None)[0]
                stream = stream + output if stack.residual else output
                if stack.mlps:
                    stream = stream + stack.mlps[layer](stream)
            latent = (1 - damping) * latent + damping * stack.latent_norm(stream)
        logits = model.lm_head(latent)[0].tolist()
        told += [nats(logits[place], int(window[place + 1])) for place in range(CONTEXT - 1)]
    return math.exp(sum(told) / len(told))


def test_as_many_self_iterations_are_taken_as_are_allowed(measured: Measured) -> None:
    found = measured.found["perplexity"]
    assert list(found) == [1, 2, 3, 5, 40]
    by_hand = {count: perplexity_after(measured, count) for count in (1, 2, 3, 4, 5, 6)}
    for count in (1, 2, 3, 5):
        assert found[count] == pytest.approx(by_hand[count], rel=ROUNDING)
        assert abs(found[count] / by_hand[count + 1] - 1) > 100 * ROUNDING  # one more would be seen


@pytest.fixture(scope="module")
def by_token(measured: Measured) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    """Iterations of the tokens, whether they reached the tolerance, and the surprise of the next one."""
    solve = Solve("sequential", stopping=Stopping(rtol=0.02, max_iterations=LIMIT))
    with torch.no_grad():
        output = measured.run.model(measured.windows, use_cache=False, solve=solve)
    likely = output.logits[:, :-1].log_softmax(-1).gather(-1, measured.windows[:, 1:, None])
    return output.iterations.numpy(), (output.status == 0).numpy(), -likely[..., 0].numpy()


def test_what_is_told_of_tokens_is_that_of_the_sequential_mode(measured: Measured, by_token: Any) -> None:
    counts, reached, surprise = by_token
    found = measured.found
    assert found["mean"] == pytest.approx(counts.mean(), rel=1e-12)
    assert found["positions"] == pytest.approx(counts.mean(axis=0), rel=1e-12)
    assert found["quantiles"] == pytest.approx(
        {str(q): np.quantile(counts, q) for q in (0.05, 0.5, 0.95, 1.0)}
    )
    assert found["share_converged"] == pytest.approx(reached.mean(), rel=1e-12)
    assert found["sequential_perplexity"] == pytest.approx(np.exp(surprise.mean()), rel=ROUNDING)
    assert counts.min() < counts.max() == LIMIT
    assert 0 < reached.mean() < 1


def test_fifths_are_of_the_tokens_by_the_surprise_of_the_next(measured: Measured, by_token: Any) -> None:
    """The oracle: by rank. The last token of a window, behind which nothing is known, is in none."""
    counts, _, surprise = by_token
    ranks = surprise.ravel().argsort().argsort()
    last = len(ranks) - 1
    assert last % 5 != 0  # no token is the quantile itself
    fifths = np.minimum(4, 5 * ranks // last)
    ordered = np.sort(surprise.ravel())
    edges = np.flatnonzero(np.diff(fifths[surprise.ravel().argsort()]))
    assert np.diff(ordered)[edges].min() > 10 * ROUNDING  # no rounding decides
    means = [counts[:, :-1].ravel()[fifths == fifth].mean() for fifth in range(5)]
    assert measured.found["fifths_of_surprise"] == pytest.approx(means, rel=1e-12)


def test_kinds_are_those_of_the_tokens_and_have_their_means(measured: Measured, by_token: Any) -> None:
    decode = measured.run.tokenizer.decode
    kinds = np.array([[kind_of_token(decode([int(token)])) for token in row] for row in measured.windows])
    assert len(np.unique(kinds)) == 4
    for kind in np.unique(kinds):
        own = by_token[0][kinds == kind]
        assert measured.found["kinds"][str(kind)] == {"mean": pytest.approx(own.mean()), "tokens": own.size}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (" Élan", "begins a word"),
        ("Élan", "goes on in a word"),
        ("'s", "punctuation"),
        (" @-@", "punctuation"),
        ("1st", "number"),
        (" B2", "number"),
        ("�", "punctuation"),  # a byte of a letter
        (" ", "punctuation"),
        ("", "punctuation"),
    ],
)
def test_what_a_token_is_to_a_reader(text: str, kind: str) -> None:
    assert kind_of_token(text) == kind
