"""Sessions of the training runs: how long they are, what differs between models, and what is measured."""

import math
import re
from pathlib import Path

import pytest
import torch

from automata.tasks.registry import registered_task
from automata.tasks.repl_language import ReplLanguage
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, untrained_run
from implicit.training.streams import Stream, draw_batch
from paper_figures.measurements.answers import RevealSettings, final_reveal
from paper_figures.registry import figure_named
from tests.paper_figures.measurements.reading_models import (
    Reader,
    always,
    executed,
    wrong_after,
)

POINTS = figure_named("repl_traces").experiment.points
FIRST = {"repl-3-values": 4, "repl-5-values": 4}
"""The commands of the shortest training sequences, and of each growth."""
FEW = RevealSettings(commands=(4, 8, 16, 32), sequences=6, batch_size=4)


def sessions(name: str) -> ReplLanguage:
    task = registered_task(name)
    assert isinstance(task, ReplLanguage)
    return task


def run_of(task: ReplLanguage, model: Reader) -> Run:
    return Run(Path("runs/by-hand"), recipe(task, "lstm", d_model=4), model, task, [{"step": 7}])


@pytest.mark.parametrize("name", FIRST)
def test_sequences_hold_whole_reveals_and_grow_by_as_many_commands(name: str) -> None:
    task, first = sessions(name), FIRST[name]
    every = task.form.reveal_every
    for config in {str(p.config.flat()): p.config for p in POINTS if p.config.task == name}.values():
        curriculum = config.curriculum
        assert curriculum.start_length is not None
        lengths = [*range(curriculum.start_length, config.length, curriculum.length_growth), config.length]
        for number, length in enumerate(lengths, start=1):
            batch = draw_batch(task, 4, length, 0, Stream.TRAIN, 1)
            assert batch.lengths is None  # no padding
            for row in batch.tokens:
                text = task.tokenizer.decode(row.tolist())
                commands = min(16, first * number)
                assert len(re.findall(r"\w, \w = ", text)) == commands
                assert text.count("print") == commands // every
                assert re.search(r"\n\w \d\n$", text)
        assert len(lengths) == 16 // first


@pytest.mark.parametrize("name", FIRST)
def test_who_runs_the_session_is_always_right_and_who_knows_nothing_at_chance(name: str) -> None:
    task = sessions(name)
    found = final_reveal(run_of(task, Reader(task, executed)), FEW)
    every = task.form.reveal_every
    assert found["accuracy"] == {n: 1.0 for n in FEW.commands if n % every == 0}
    assert found["updates"] == 7
    assert found["share_converged"] is None
    many = FEW.model_copy(update={"sequences": 256, "commands": (16,)})
    chance = 1 / task.form.variables
    deviation = math.sqrt(chance * (1 - chance) / 256)
    accuracy = final_reveal(run_of(task, Reader(task, always("1"))), many)["accuracy"][16]
    assert accuracy == pytest.approx(chance, abs=5 * deviation)


def test_the_accuracy_at_a_number_is_that_after_so_many_commands() -> None:
    task = sessions("repl-3-values-1")
    settings = RevealSettings(commands=(1, 2, 8, 9), sequences=32)
    values = final_reveal(run_of(task, Reader(task, wrong_after(8))), settings)["accuracy"]
    assert (values[1], values[2], values[8]) == (1, 1, 1)
    assert values[9] < 0.8  # 4 - v is v for one value of three


def test_all_models_and_the_three_tasks_of_one_spacing_are_asked_the_same_sessions() -> None:
    read = {}
    for name in ("repl-3-values", "repl-3-values-random", "repl-3"):
        task = sessions(name)
        for kind, answer in (("one", always("1")), ("other", always("2"))):
            model = Reader(task, answer)
            final_reveal(run_of(task, model), FEW)
            read[name, kind] = torch.cat(model.read)
    first, *others = read.values()
    assert len(first) == FEW.sequences
    assert all(torch.equal(first, other) for other in others)
    assert len(torch.unique(first, dim=0)) == FEW.sequences


def test_an_implicit_model_tells_the_share_of_fixed_points() -> None:
    run = untrained_run(recipe("repl-3-values", "implicit-mamba2", d_model=4, head_size=4, d_state=2))
    settings = RevealSettings(commands=(4,), sequences=1, max_iterations=1, rtol=1e-6)
    assert final_reveal(run, settings)["share_converged"] == 0
