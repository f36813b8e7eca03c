"""Perplexity and operations of language models: those of the package, as the settings ask for them."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from implicit.fixed_point import Stopping
from implicit.language import evaluate_text
from implicit.language.cost import TrainingCost
from implicit.language.pretrain import Phase
from implicit.modes import Solve
from paper_figures.measurements.language import PerplexitySettings, measure_perplexity
from tests.paper_figures.measurements.language_runs import NAMES, RESULT, run_of, write_text

PHASES = (
    Phase(share=0.25, iterations=4, phantom_steps=1, rtol=0.0),
    Phase(share=0.75, iterations=12, phantom_steps=2, rtol=0.05),
)


@pytest.mark.parametrize(("family", "implicit"), NAMES)
def test_the_perplexity_is_that_of_the_text_at_the_tolerance(
    family: str, implicit: bool, tmp_path: Path
) -> None:
    run = run_of(tmp_path, family, implicit, phases=PHASES)
    text = write_text(tmp_path)
    found = measure_perplexity(run, PerplexitySettings(file=text, tokens=75, context=16, rtol=1e-4))
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
    found = measure_perplexity(run, PerplexitySettings(file=str(tmp_path / "short.txt")))
    assert found["tokens"] == len(run.tokenizer("3 plus 4 is 7")["input_ids"])  # the end is predicted, too


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
