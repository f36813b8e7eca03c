"""Language models: perplexity, cost, self-iterations by token in float64, and updates on a clock of layers.

The runs have drawn weights: nothing is trained, and all is quick.
"""

import hashlib
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
from implicit.language import evaluate_text
from implicit.language.cost import TrainingCost
from implicit.language.pretrain import FinishedRun, Phase, train_tokenizer
from implicit.language.pretrain.tokens import documents, vocabulary_size
from implicit.modes import Solve
from paper_figures.measurements import language
from tests.implicit.language.pretrain.small_runs import LINES, small_run
from tests.implicit.language.small_language_models import small_model

PHASES = (
    Phase(share=0.75, iterations=4, phantom_steps=1, rtol=0.0),
    Phase(share=0.25, iterations=9, phantom_steps=2, rtol=0.05),
)
BOUNDED, FREE = (phase.label for phase in PHASES)
WINDOWS, CONTEXT = 9, 16
LIMIT = 12
"""The limit of evaluations token by token: some tokens need more."""
ROUNDING = 1e-6
"""Logits are rounded to float32 before their likelihoods, which have 6e-8 relative to logits of some 10."""
NAMES = {
    (family, implicit): f"{'Implicit' if implicit else 'Explicit'}{layers}ForCausalLM"
    for family, layers in (("mamba2", "Mamba2"), ("llama", "Llama"))
    for implicit in (True, False)
}
RESULT = {"perplexity": 31.5, "tokens": 40_960, "training_seconds": 12.5, "parameters": 7}
SHARPER = 16.0
"""By which weights of the head are multiplied: predictions then differ much, and depend on the latents."""


def write_text(folder: Path) -> str:
    """A text with words that the tokenizer has, and words that it has in pieces only."""
    path = folder / "test.txt"
    path.write_text("".join(LINES[:40]).replace("says line", "praises aisles"))
    return str(path)


def run_of(folder: Path, family: str, implicit: bool, **changes: Any) -> FinishedRun:
    config = small_run(folder, family, implicit, tokenizer=300, **changes)
    tokenizer = train_tokenizer(documents(config.train), 300)
    tells: dict[str, Any] = {"unconverged": "ignore"} if implicit else {}
    model = small_model(NAMES[family, implicit], 3.0, vocab_size=vocabulary_size(tokenizer), **tells)
    with torch.no_grad():
        model.lm_head.weight.mul_(SHARPER)
    return FinishedRun(folder, config, model, tokenizer, dict(RESULT), [])


@pytest.mark.parametrize(("family", "implicit"), NAMES)
def test_the_perplexity_is_that_of_the_text_at_the_tolerance(
    family: str, implicit: bool, tmp_path: Path
) -> None:
    run = run_of(tmp_path, family, implicit, phases=PHASES)
    text = write_text(tmp_path)
    found = language.measure_perplexity(
        run, language.PerplexitySettings(file=text, tokens=75, context=16, rtol=1e-4)
    )
    tokens = run.tokenizer(Path(text).read_text())["input_ids"][:75]
    solve = Solve("simultaneous", stopping=Stopping(rtol=1e-4, max_iterations=64)) if implicit else None
    expected = evaluate_text(run.model, torch.tensor(tokens), 16, solve=solve)
    assert (found["nats"], found["perplexity"]) == (expected.nats, expected.perplexity)
    assert (found["iterations"], found["share_converged"]) == (expected.iterations, expected.share_converged)
    assert found["tokens"] == 74
    assert found["sha256"] == hashlib.sha256(np.array(tokens, dtype="<u4").tobytes()).hexdigest()
    cost = TrainingCost(run.model.config, length=run.config.length)
    per_token = cost.mean_per_token(PHASES) if implicit else cost.per_token()
    assert found["operations"] == per_token * RESULT["tokens"]


def test_a_text_that_is_shorter_is_read_to_its_end(tmp_path: Path) -> None:
    run = run_of(tmp_path, "llama", False)
    (tmp_path / "short.txt").write_text("3 plus 4 is 7")
    found = language.measure_perplexity(run, language.PerplexitySettings(file=str(tmp_path / "short.txt")))
    assert found["tokens"] == len(run.tokenizer("3 plus 4 is 7")["input_ids"])  # the end is predicted, too


def test_the_tolerance_and_the_limit_are_those_of_the_settings(tmp_path: Path) -> None:
    run = run_of(tmp_path, "mamba2", True)
    one = language.PerplexitySettings(file=write_text(tmp_path), tokens=75, context=16, max_iterations=1)
    found = language.measure_perplexity(run, one)
    assert (found["iterations"], found["share_converged"]) == (1.0, 0.0)
    loose, strict = (
        language.measure_perplexity(run, one.model_copy(update={"rtol": rtol, "max_iterations": 1000}))[
            "iterations"
        ]
        for rtol in (0.3, 0.001)
    )
    assert 1 < loose < 0.5 * strict


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
    settings = language.IterationSettings(
        file=write_text(folder),
        windows=WINDOWS,
        context=CONTEXT,
        allowed=(1, 2, 3, 5, 40),
        rtol=0.02,
        max_iterations=LIMIT,
    )
    found = language.measure_iterations(run, settings)
    text = run.tokenizer(Path(settings.file).read_text())["input_ids"][: WINDOWS * CONTEXT]
    rows = [text[first : first + CONTEXT] for first in range(0, len(text), CONTEXT)]
    return Measured(run, found, torch.tensor(rows))


def nats(logits: list[float], following: int) -> float:
    largest = max(logits)
    return largest + math.log(sum(math.exp(logit - largest) for logit in logits)) - logits[following]


@torch.no_grad()
def perplexity_after(measured: Measured, count: int) -> float:
    """The perplexity after so many damped steps of the self-map from zero, each window by itself."""
    model: Any = measured.run.model
    stack, damping = model.model, model.config.damping
    told = []
    for window in measured.windows:
        self_map = stack.problem(window[None]).function
        latent = torch.zeros(1, CONTEXT, model.config.hidden_size, dtype=torch.float64)
        for _ in range(count):
            latent = (1 - damping) * latent + damping * self_map(latent)
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
    kinds = np.array(
        [[language.kind_of_token(decode([int(token)])) for token in row] for row in measured.windows]
    )
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
    assert language.kind_of_token(text) == kind


class Clock:
    """Stands still but where a model reads a batch: then as many seconds go by as it has self-iterations."""

    def __init__(self) -> None:
        self.now, self.read = 0.0, 0

    def perf_counter(self) -> float:
        return self.now

    def advance(self, model: Any, _: Any, output: Any) -> None:
        assert model.training
        assert torch.is_grad_enabled()
        self.read += 1
        self.now += 1.0 if output.iterations is None else float(output.iterations.max())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(language, "time", clock)
    return clock


@pytest.mark.parametrize("family", ["mamba2", "llama"])
def test_every_phase_is_timed_as_it_trains(family: str, clock: Clock, tmp_path: Path) -> None:
    run = run_of(tmp_path, family, True, phases=PHASES)
    assert run.config.steps % 4 == 0
    run.model.register_forward_hook(clock.advance)
    found = language.measure_update_seconds(
        run, language.TimeSettings(file=write_text(tmp_path), updates=3, warmup=2)
    )
    # 4 and 1, 9 and 2 self-iterations without gradient; the evaluation that measures the residual counts, too
    assert found["update_seconds"] == {BOUNDED: 6.0, FREE: 12.0}
    steps = run.config.steps
    assert found["updates"] == {BOUNDED: 0.75 * steps, FREE: 0.25 * steps}
    assert found["training_seconds"] == steps * (0.75 * 6 + 0.25 * 12)
    assert clock.read == 2 * (3 + 2) * run.config.accumulation


def test_an_explicit_model_has_one_phase(clock: Clock, tmp_path: Path) -> None:
    run = run_of(tmp_path, "mamba2", False, phases=PHASES)
    run.model.register_forward_hook(clock.advance)
    found = language.measure_update_seconds(run, language.TimeSettings(file=write_text(tmp_path), updates=3))
    assert found["update_seconds"] == {"explicit": 1.0}
    assert found["training_seconds"] == found["updates"]["explicit"] == run.config.steps


def test_weights_and_settings_stay_what_they_are(tmp_path: Path) -> None:
    run = run_of(tmp_path, "mamba2", True, phases=PHASES)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    found = language.measure_update_seconds(run, language.TimeSettings(file=write_text(tmp_path), updates=2))
    assert min(found["update_seconds"].values()) > 0
    after = run.model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert not run.model.training
    assert (run.model.config.training_max_iterations, run.model.config.phantom_steps) == (9, 2)


def test_a_text_that_is_shorter_than_an_update_is_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path, "llama", True)
    (tmp_path / "short.txt").write_text("3 plus 4 is 7")
    with pytest.raises(ValueError, match=r"^the text has \d+ tokens, and an update reads \d+$"):
        language.measure_update_seconds(run, language.TimeSettings(file=str(tmp_path / "short.txt")))
