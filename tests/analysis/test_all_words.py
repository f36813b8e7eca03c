"""What is proved of all words, against all words in floating point."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from analysis.certificates.proofs import words as all_words
from analysis.framework.needs import word_problem_of
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.loading import load_run


def test_margins_and_answers_are_those_of_every_word_in_floating_point() -> None:
    run = load_run("parity-small")
    found = all_words.analyse(run, length=6, tolerance=1e-10)
    assert found.proved_length == 6
    model = run.model.double()
    words = torch.tensor(list(itertools.product((0, 1), repeat=6)))
    with torch.no_grad():
        stopping = Stopping(rtol=1e-12, max_iterations=2000)
        logits = model.run(words, solve=Solve("sequential", stopping=stopping)).logits
    labels = words.cumsum(1) % 2
    right = logits.gather(2, labels[..., None])[..., 0]
    margins = (right - logits.gather(2, 1 - labels[..., None])[..., 0]).amin(dim=0).numpy()
    # proved margins are below the computed ones, by no more than the enclosures are wide
    assert (found.margin <= margins + 1e-9).all()
    np.testing.assert_allclose(found.margin, margins, atol=1e-6)
    assert found.words.tolist() == found.proved.tolist() == [2, 4, 8, 16, 32, 64]
    assert found.radius.max() < 1e-6


@pytest.mark.parametrize("length", [60, 10**12])
def test_more_words_than_memory_holds_are_refused_unread(length: int) -> None:
    with pytest.raises(InputError, match=f"the set of all words of {length} tokens needs at least"):
        all_words.analyse(load_run("parity-small"), length=length)


def test_a_model_that_is_wrong_is_not_proved_right() -> None:
    run = load_run("parity-small")
    with torch.no_grad():
        run.model.get_parameter("head.weight").neg_()
        run.model.get_parameter("head.bias").neg_()
    found = all_words.analyse(run, length=3)
    assert found.proved_length == 0
    assert found.counterexample == (0,)
    assert "nothing is proved, not even of the word 0" in found.sentence
    assert np.isneginf(found.margin).all()
    assert all_words.draw(found).axes
    assert found.rows()
    assert (found.finding.holds, found.finding.limits) == (False, "")


def test_of_another_task_the_first_wrong_word_is_told() -> None:
    run = load_run("parity-small")
    task = word_problem_of(run)
    # odd stays odd under the token 1: the words 1, 01, 001 are answered alike, 11 is not
    once = WordProblem([[0, 1], [1, 1]], 0, task.token_names, task.state_names, name="once")
    found = all_words.analyse(replace(run, task=once), length=4)
    assert found.counterexample == (1, 1)
    assert found.proved_length == 1
    # words that begin with one of which nothing is proved are not followed
    assert found.proved.tolist() == [2, 3, 4, 5]
    assert found.words.tolist() == [2, 4, 8, 16]


def test_models_without_small_states_are_refused(make_run: Any) -> None:
    with pytest.raises(InputError, match="has no fixed points"):
        all_words.analyse(make_run("lstm"))
    with pytest.raises(InputError, match="numbers; give a run of at most 200"):
        all_words.analyse(load_run("parity"))
    with pytest.raises(InputError, match="length is 0"):
        all_words.analyse(load_run("parity-small"), length=0)
