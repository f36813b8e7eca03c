"""Perplexity and operations of language models, against loops written out and numbers by hand."""

import copy
import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from implicit.language.pretrain import FinishedRun, Phase
from paper_figures.measurements.language import PerplexitySettings, measure_perplexity
from tests.paper_figures.measurements.language_runs import NAMES, run_of, write_text

ITERATIONS = 300
"""Of the oracle, which leave a residual below 1e-8."""


def logits_by_hand(model: Any, window: Tensor) -> Tensor:
    """Logits of a window in float64; fixed points by plain damped iteration, all tokens together."""
    if not hasattr(model.config, "damping"):
        return model(window[None], use_cache=False).logits[0]
    image = model.model.problem(window[None]).function
    latent = torch.zeros(1, len(window), model.config.hidden_size, dtype=torch.float64)
    damping = model.config.damping
    for _ in range(ITERATIONS):
        latent = (1 - damping) * latent + damping * image(latent)
    assert float((image(latent) - latent).abs().max()) < 1e-8
    return model.lm_head(latent)[0]


@torch.no_grad()
def nats_by_hand(run: FinishedRun, tokens: list[int], context: int) -> list[float]:
    """Negative log-likelihood of every token but the first, window after window, in float64."""
    model = copy.deepcopy(run.model).double()
    found, first = [], 0
    while first < len(tokens) - 1:
        window = tokens[first : first + context]
        logits = logits_by_hand(model, torch.tensor(window)).tolist()
        for place, following in enumerate(window[1:]):
            largest = max(logits[place])
            total = sum(math.exp(logit - largest) for logit in logits[place])
            found.append(largest + math.log(total) - logits[place][following])
        first += context - 1  # the next window begins with the last token of this one
    return found


@pytest.mark.parametrize(("family", "implicit"), NAMES)
def test_the_perplexity_is_that_of_a_loop_in_float64(family: str, implicit: bool, tmp_path: Path) -> None:
    run = run_of(tmp_path, family, implicit)
    text = write_text(tmp_path)
    settings = PerplexitySettings(file=text, tokens=75, context=16, rtol=1e-5, max_iterations=1000)
    found = measure_perplexity(run, settings)
    tokens = run.tokenizer(Path(text).read_text())["input_ids"][:75]
    nats = nats_by_hand(run, tokens, 16)
    assert len(nats) == found["tokens"] == 74
    # a residual of 1e-5 leaves an error of some 1e-4 in logits, of both signs in the mean; explicit: float32
    tolerance = 1e-4 if implicit else 1e-5
    assert found["nats"] == pytest.approx(sum(nats) / 74, abs=tolerance)
    assert found["perplexity"] == pytest.approx(math.exp(sum(nats) / 74), rel=2 * tolerance)
    other = nats_by_hand(run, tokens, 74)
    assert abs(sum(other) - sum(nats)) / 74 > 5 * tolerance  # other windows would be seen
    assert found["sha256"] == hashlib.sha256(np.array(tokens, dtype="<u4").tobytes()).hexdigest()
    if implicit:
        assert found["share_converged"] == 1.0
        assert found["iterations"] > 5
    else:
        assert (found["iterations"], found["share_converged"]) == (None, None)


def test_a_text_that_is_shorter_is_read_to_its_end(tmp_path: Path) -> None:
    run = run_of(tmp_path, "llama", False)
    (tmp_path / "short.txt").write_text("3 plus 4 is 7")
    found = measure_perplexity(run, PerplexitySettings(file=str(tmp_path / "short.txt")))
    tokens = [*run.tokenizer("3 plus 4 is 7")["input_ids"], run.tokenizer.eos_token_id]
    assert found["tokens"] == len(tokens) - 1
    assert found["nats"] == pytest.approx(np.mean(nats_by_hand(run, tokens, 128)), abs=1e-5)  # float32


def test_the_tolerance_and_the_limit_are_those_of_the_settings(tmp_path: Path) -> None:
    run = run_of(tmp_path, "mamba2", True)
    one = PerplexitySettings(file=write_text(tmp_path), tokens=75, context=16, max_iterations=1)
    found = measure_perplexity(run, one)
    assert (found["iterations"], found["share_converged"]) == (1.0, 0.0)
    loose, strict = (
        measure_perplexity(run, one.model_copy(update={"rtol": rtol, "max_iterations": 1000}))["iterations"]
        for rtol in (0.3, 0.001)
    )
    assert 1 < loose < 0.5 * strict


LAYERS = 2 * (2 * 16 * 16 * (32 + 16 + 2 * 12) + 2 * 16 * 12 * 16 + 4 * 16**2 * 16)
"""Operations of both Llama layers forward on 16 tokens of width 16: queries (16), keys and values (8 each),
what leaves attention (16); an MLP of 12, whose gate and value read the width; attention of all pairs."""


@pytest.mark.parametrize("implicit", [True, False])
def test_operations_of_llama_are_those_counted_by_hand(implicit: bool, tmp_path: Path) -> None:
    phases = (
        Phase(share=0.25, iterations=4, phantom_steps=1, rtol=0.0),
        Phase(share=0.75, iterations=12, phantom_steps=2, rtol=0.05),
    )
    run = run_of(tmp_path, "llama", implicit, phases=phases)
    vocabulary = run.model.config.vocab_size
    found = measure_perplexity(run, PerplexitySettings(file=write_text(tmp_path), tokens=20, context=8))
    # with gradient, forward and back, is 3; phantom steps are taken without it too; one measures the residual
    layers = 3 if not implicit else 0.25 * (4 + 1 + 1 + 3 * 1) + 0.75 * (12 + 2 + 1 + 3 * 2)
    columns = vocabulary + (32 if implicit else 0)  # the injection has the width of queries, keys and values
    sequence = layers * LAYERS + 3 * 2 * 16 * 16 * columns
    assert found["operations"] == pytest.approx(sequence / 16 * 40_960, rel=1e-12)  # float64
