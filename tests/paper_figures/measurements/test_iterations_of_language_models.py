"""Self-iterations of language models at test, against loops and single tokens, in float64."""

import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
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
def by_token(measured: Measured) -> list[list[tuple[int, bool, list[float]]]]:
    """Iterations, whether the tolerance was reached, and logits: read one by one, with what was read."""
    stopping = Stopping(rtol=0.02, max_iterations=LIMIT)
    rows = []
    with torch.no_grad():
        for window in measured.windows:
            before, row = None, []
            for token in window:
                output = measured.run.model(
                    token.view(1, 1),
                    past_key_values=before,
                    use_cache=True,
                    solve=Solve("sequential", stopping=stopping),
                )
                before = output.past_key_values
                row.append((int(output.iterations), bool(output.status == 0), output.logits[0, 0].tolist()))
            rows.append(row)
    return rows


def counts_of(by_token: list[list[tuple[int, bool, list[float]]]]) -> list[list[int]]:
    return [[count for count, *_ in row] for row in by_token]


def test_iterations_of_a_token_are_its_own(measured: Measured, by_token: Any) -> None:
    counts = counts_of(by_token)
    flat = sorted(count for row in counts for count in row)
    assert measured.found["mean"] == pytest.approx(sum(flat) / len(flat), rel=1e-12)
    assert measured.found["positions"] == pytest.approx(
        [sum(column) / WINDOWS for column in zip(*counts, strict=True)], rel=1e-12
    )
    for name, quantile in measured.found["quantiles"].items():
        place = float(name) * (len(flat) - 1)
        low = int(place)
        high = min(low + 1, len(flat) - 1)
        assert quantile == pytest.approx(flat[low] + (place - low) * (flat[high] - flat[low]), rel=1e-12)
    assert list(measured.found["quantiles"]) == ["0.05", "0.5", "0.95", "1.0"]
    assert flat[0] < flat[-1] == LIMIT


def test_a_token_has_converged_if_it_and_all_before_it_in_the_window_have(
    measured: Measured, by_token: Any
) -> None:
    reached = [[all(one for _, one, _ in row[: place + 1]) for place in range(CONTEXT)] for row in by_token]
    share = sum(map(sum, reached)) / (WINDOWS * CONTEXT)
    assert 0 < share < 1
    assert measured.found["share_converged"] == pytest.approx(share, rel=1e-12)


def surprises(measured: Measured, by_token: Any) -> list[list[float]]:
    return [
        [nats(row[place][2], int(window[place + 1])) for place in range(CONTEXT - 1)]
        for row, window in zip(by_token, measured.windows, strict=True)
    ]


def test_the_perplexity_token_by_token_is_that_of_single_tokens(measured: Measured, by_token: Any) -> None:
    told = [value for row in surprises(measured, by_token) for value in row]
    assert measured.found["sequential_perplexity"] == pytest.approx(
        math.exp(sum(told) / len(told)), rel=ROUNDING
    )


def test_fifths_are_of_the_tokens_by_the_surprise_of_the_next(measured: Measured, by_token: Any) -> None:
    """The oracle: by rank. The last token of a window, behind which nothing is known, is in none."""
    told = [value for row in surprises(measured, by_token) for value in row]
    counts = [count for row in counts_of(by_token) for count in row[:-1]]
    ranks = sorted(range(len(told)), key=lambda place: told[place])
    last = len(told) - 1
    assert last % 5 != 0  # no token is the quantile itself
    of_rank = [min(4, 5 * rank // last) for rank in range(len(told))]
    gaps = [told[after] - told[before] for before, after in itertools.pairwise(ranks)]
    at_edges = [gap for gap, one, other in zip(gaps, of_rank, of_rank[1:], strict=False) if one != other]
    assert len(at_edges) == 4
    assert min(at_edges) > 10 * ROUNDING  # no rounding decides
    fifths: list[list[int]] = [[] for _ in range(5)]
    for fifth, place in zip(of_rank, ranks, strict=True):
        fifths[fifth].append(counts[place])
    assert measured.found["fifths_of_surprise"] == pytest.approx(
        [sum(fifth) / len(fifth) for fifth in fifths], rel=1e-12
    )
    assert len({len(fifth) for fifth in fifths}) <= 2


def test_kinds_are_those_of_the_tokens_and_have_their_means(measured: Measured, by_token: Any) -> None:
    """The oracle: what a token spells, by patterns."""
    patterns = {
        "number": r".*\d.*",
        "begins a word": r" [a-z]+",
        "goes on in a word": r"[a-z]+",
        "punctuation": r"[\s,|<>]+",
    }
    spelt = [
        [measured.run.tokenizer.convert_ids_to_tokens(int(token)) for token in row]
        for row in measured.windows
    ]
    of_kind: dict[str, list[int]] = {name: [] for name in patterns}
    for words, counts in zip(spelt, counts_of(by_token), strict=True):
        for word, count in zip(words, counts, strict=True):
            text = word.replace("Ġ", " ").replace("Ċ", "\n")
            (kind,) = [name for name, pattern in patterns.items() if re.fullmatch(pattern, text, re.DOTALL)]
            of_kind[kind].append(count)
    assert all(of_kind.values())
    assert {name: one["tokens"] for name, one in measured.found["kinds"].items()} == {
        name: len(counts) for name, counts in of_kind.items()
    }
    for name, counts in of_kind.items():
        assert measured.found["kinds"][name]["mean"] == pytest.approx(sum(counts) / len(counts), rel=1e-12)


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
