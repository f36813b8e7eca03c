"""Runs of which a measurement can say nothing are refused, with what to give instead."""

from dataclasses import replace
from typing import Any

import pytest

from automata.errors import InputError
from automata.tasks.registry import registered_task
from automata.tasks.repl_language import ReplLanguage
from automata.tasks.word_problem import WordProblem
from implicit import load_run
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, untrained_run
from paper_figures.figures.catbabi import StorySettings, story_answers
from paper_figures.measurements.answers import (
    PuzzleSettings,
    RevealSettings,
    SpacingSettings,
    final_reveal,
    puzzle_accuracy,
    reveals_by_spacing,
)
from paper_figures.measurements.beliefs import ErrorSettings, belief_errors
from paper_figures.measurements.hard_tokens import HardTokenSettings, hard_pairs
from paper_figures.measurements.iterations import TokenSettings, token_iterations
from tests.refusals import refusals


def parity(task: Any = None) -> Run:
    run = untrained_run(recipe("parity", "lstm", d_model=4))
    return run if task is None else replace(run, task=task)


FULL, EIGHT = ReplLanguage(3, reveal="full", predict="values"), registered_task("repl-3-values-8")
test_a_run_on_another_task_is_refused = refusals(
    (lambda: story_answers(parity(), StorySettings()), "give a run on catbAbI"),
    (lambda: belief_errors(parity(), ErrorSettings()), "give a run on a probabilistic automaton"),
    (lambda: puzzle_accuracy(parity(), PuzzleSettings()), "give a run on swap-balls-3 or small-programs"),
    (lambda: final_reveal(parity(), RevealSettings()), "Python sessions"),
    (lambda: final_reveal(parity(FULL), RevealSettings()), "full reveals"),
    (lambda: final_reveal(parity(EIGHT), RevealSettings(commands=(4,))), r"\(4,\) .* give multiples of 8"),
    (lambda: reveals_by_spacing(parity(), SpacingSettings()), "Python sessions"),
    (lambda: reveals_by_spacing(parity(FULL), SpacingSettings()), "reveal is 'full'"),
)


def test_a_task_that_does_not_ask_for_its_state_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_run("s3")
    monkeypatch.setattr(WordProblem, "output_size", property(lambda self: 2))
    for measure in (
        lambda: token_iterations(run, TokenSettings()),
        lambda: hard_pairs(run, HardTokenSettings()),
    ):
        with pytest.raises(InputError, match="does not ask for its state"):
            measure()
