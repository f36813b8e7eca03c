"""Reading fresh texts in a measurement."""

import pytest
import torch

from automata.tasks.registry import registered_task
from implicit.config.recipes import recipe
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.loading import Run, untrained_run
from implicit.training.streams import Stream, draw_batch
from paper_figures.measurements.answers import AnswerSettings, answers


def run_of(model: str) -> Run:
    return untrained_run(recipe("swap-balls-3", model, d_model=8))


@pytest.mark.parametrize("model", ["lstm", "implicit-mamba2"])
def test_answers_are_those_of_the_model_on_the_texts_of_the_seed(model: str) -> None:
    run, task = run_of(model), registered_task("swap-balls-3")
    settings = AnswerSettings(sequences=5, batch_size=2, seed=7)
    found = list(answers(run, task, 40, settings, 3))
    assert [len(one.right) for one in found] == [2, 2, 1]
    for index, one in enumerate(found):
        batch = draw_batch(task, len(one.right), 40, 7, Stream.TEST, 3, index)
        length = 40 if batch.lengths is None else int(batch.lengths.max())
        assert torch.equal(one.batch.tokens, batch.tokens[:, :length])
        for row in range(len(one.right)):
            real = length if batch.lengths is None else int(batch.lengths[row])
            with torch.no_grad():
                solve = Solve("sequential", stopping=Stopping(rtol=1e-3, max_iterations=200))
                logits = run.model.run(batch.tokens[row : row + 1, :real], solve=solve).logits[0]
            expected = logits.argmax(-1) == batch.targets[row, :real]
            assert torch.equal(one.right[row, :real], expected)
        assert (one.share_converged is None) == (model == "lstm")
        assert not one.right.requires_grad


def test_other_numbers_have_other_texts() -> None:
    run, task = run_of("lstm"), registered_task("swap-balls-3")
    one, other = (
        next(iter(answers(run, task, 40, AnswerSettings(), number))).batch.tokens for number in (1, 2)
    )
    assert not torch.equal(one, other)
