"""Extraction from models whose automaton is known, and from models that are no automata."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import analysis
from analysis import extraction
from analysis.extraction.state_merging import ExtractionSettings, Reader, extract_machine
from automata.errors import InputError
from automata.machines.mealy import MealyMachine, distinguishing_tokens, minimise_mealy
from automata.tasks.final_answers import Recognition
from automata.tasks.registry import make_task
from automata.tasks.sequence_file import SequenceFile, write_sequences
from automata.tasks.specification import task_from
from implicit.models.interface import ModelConfig
from implicit.models.torch_rnn import LSTM, LSTMConfig
from implicit.runs.loading import Run
from tests.analysis.machine_models import MachineModel, StepwiseModel
from theory import State
from theory.transition import TransitionBatch


class Loose(StepwiseModel):
    """A model given by a function of (number, token): next number and answer, one number per state."""

    name = "loose"
    config_class = ModelConfig

    def __init__(self, advance: Any, answers: int = 2) -> None:
        super().__init__(ModelConfig(vocabulary_size=2, output_size=answers))
        self.advance = advance

    def init_state(self, batch_size: int) -> State:
        return {"number": torch.zeros(batch_size, 1)}

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        following, answer = self.advance(state["number"][:, 0], token)
        logits = functional.one_hot(answer.long(), self.config.output_size).float()
        return {"number": following[:, None]}, logits

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        raise NotImplementedError


@pytest.mark.parametrize("seed", range(8))
def test_a_model_that_is_a_machine_gives_back_that_machine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = MealyMachine(rng.integers(0, 12, (12, 2)), rng.integers(0, 2, (12, 2)))
    tokens = torch.as_tensor(rng.integers(0, 2, (64, 24)))
    settings = ExtractionSettings(inconsistent=0, max_suffixes=40)
    found = extract_machine(Reader(MachineModel(machine)), tokens, 2, settings)
    assert found.machine is not None
    smallest = minimise_mealy(machine)
    np.testing.assert_array_equal(found.machine.table, smallest.table)
    np.testing.assert_array_equal(found.machine.answers, smallest.answers)
    assert found.against == 0
    assert found.stray == 0
    assert found.reachable == smallest.state_count


@pytest.mark.parametrize("name", ["parity", "S3", "S5-generators", "counter-5", "dyck-2-3"])
def test_the_machine_of_a_task_is_found_equivalent(name: str) -> None:
    task = make_task(name)
    model = MachineModel(task.machine())
    found = extraction.analyse(Run.of(model, name), sequences=128, length=24, fresh_words=8, times=2)
    assert found.verdict == "equivalent"
    assert found.difference is None
    assert found.departs_after is None
    assert found.fidelity(48) == found.accuracy(48) == 1
    if name == "S3":  # whose states are answered, each by a name of its own
        names, steps = task.state_names, found.dfa.transitions
        reached = [[steps[state][token] for token in task.token_names] for state in names]
        assert reached == [[names[after] for after in row] for row in task.table]


@pytest.mark.parametrize("language", ["(b*ab*a)*b*", ".*ab", ".*abb?"])
def test_the_machine_of_a_language_is_found(language: str) -> None:
    """Answers below the first length at which words are asked do not count."""
    task = task_from(f"recognition:{language}")
    assert isinstance(task, Recognition)
    exact, first = task.machine(), task.first_asked()
    assert first is not None
    settings: Any = {"fresh_words": 8, "times": 2}
    found = extraction.analyse(Run.of(MachineModel(exact), task, length=12), **settings)
    assert found.verdict == "equivalent"
    assert found.extraction.machine is not None
    assert found.extraction.machine.state_count == minimise_mealy(exact).state_count
    if first > 1:
        free = talkative_before(exact, first)
        found = extraction.analyse(Run.of(MachineModel(free), task, length=12), **settings)
        assert found.verdict == "equivalent"
        late = talkative_before(exact, first + 1)
        found = extraction.analyse(Run.of(MachineModel(late), task, length=12), **settings)
        assert found.verdict == "differs"
        assert found.difference is not None
        assert len(found.difference.word) == first


def test_a_model_whose_logits_are_nan_is_refused_after_one_warning() -> None:
    model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=4))
    torch.nn.init.constant_(model.head.bias, torch.nan)
    with pytest.warns(RuntimeWarning, match="NaN") as told, pytest.raises(InputError, match="logits are NaN"):
        analysis.ask("extraction", model, task="parity", length=8, sequences=8)
    assert len(told) == 1


def talkative_before(machine: MealyMachine, first: int) -> MealyMachine:
    """The machine with wrong answers to the tokens before a length."""
    count, rows, answers = machine.state_count, [], []
    for read in range(first):
        for state in range(count):
            rows.append([min(read + 1, first - 1) * count + target for target in machine.table[state]])
            spoken = machine.answers[state]
            answers.append(spoken if read + 1 >= first else 1 - spoken)
    return MealyMachine(rows, answers, machine.initial)


def test_a_language_that_is_not_asked_at_every_length_says_why() -> None:
    task = task_from("recognition:(ab|ba)*")
    assert isinstance(task, Recognition)
    run = Run.of(MachineModel(task.machine()), task, length=12)
    with pytest.raises(InputError, match="which never asks at some lengths: what the model answers there"):
        extraction.analyse(run)


def test_a_run_of_stored_words_is_compared_with_their_automaton(tmp_path: Path) -> None:
    exact = make_task("S3")
    task = SequenceFile(write_sequences(tmp_path / "S3=5.csv", exact, sequences=150, length=5))
    found = analysis.ask("extraction", MachineModel(exact.machine()), task=task)
    assert (found.verdict, found.length, found.agrees.shape[1]) == ("equivalent", 5, 20)
    lengths = analysis.ask("length_generalization", MachineModel(exact.machine()), task=task)
    assert lengths.settings.lengths == (5,)
    assert lengths.runs[0].accuracy(5) == 1
    with pytest.raises(InputError, match="length is 6, and the longest word of 'S3=5' has 5 tokens"):
        analysis.ask("length_generalization", MachineModel(exact.machine()), task=task, lengths=[6])


def test_one_wrong_transition_is_told_by_a_shortest_word() -> None:
    task = make_task("S3")
    exact = task.machine()
    table = exact.table.copy()
    table[4, 2] = (table[4, 2] + 1) % 6
    spoilt = MealyMachine(table, table, exact.initial)
    found = extraction.analyse(Run.of(MachineModel(spoilt), "S3"), length=16, fresh_words=8)
    assert found.verdict == "differs"
    assert found.difference is not None
    assert found.difference.word == distinguishing_tokens(spoilt, exact)
    assert found.difference.model == spoilt.read([found.difference.word])[0, -1]
    assert found.difference.task == exact.read([found.difference.word])[0, -1]
    assert found.fidelity(16) == 1
    assert found.accuracy(16) < 1


def test_a_few_stray_states_do_not_change_the_automaton() -> None:
    # parity beside a chaotic clock; rarely a state is lost, and then answers 0 for ever
    def advance(number: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        phase = number.frac()
        parity = (number.floor() + token) % 2
        moved = (phase * 1.7 + 0.137 * (token + 1)).frac()
        lost = (number >= 2) | (moved > 0.995)
        following = torch.where(lost, torch.full_like(number, 2.0), parity + moved)
        return following, torch.where(lost, torch.zeros_like(parity), parity)

    found = extraction.analyse(Run.of(Loose(advance), "parity"), length=16, times=16, max_suffixes=0)
    assert found.extraction.machine is not None
    assert found.difference is None
    assert found.extraction.machine.state_count == 2
    assert 0 < found.extraction.inconsistent < 0.05
    assert 0 < found.extraction.stray < 0.2
    assert found.fidelity(256) < found.fidelity(16) < 1
    assert found.verdict == "inconclusive"
    assert found.departure is not None
    assert found.departs_after is not None
    assert found.first_error is not None
    assert len(found.first_error.word) == np.flatnonzero(~found.correct.all(axis=0))[0] + 1
    # more suffixes foresee the loss: the automaton then tells a word on which the model is wrong
    resolved = extraction.analyse(Run.of(Loose(advance), "parity"), length=16, times=1)
    assert resolved.verdict == "differs"


def test_a_model_departs_after_the_last_token_that_it_answers() -> None:
    def advance(number: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        parity, read = (number % 2 + token) % 2, (number / 2).floor() + 1
        return 2 * read + parity, torch.where(read > 20, torch.zeros_like(parity), parity)

    found = extraction.analyse(Run.of(Loose(advance), "parity"), length=16, times=4)
    assert found.departs_after == 20


def test_a_rare_word_on_which_the_model_is_wrong_is_named_beside_the_verdict() -> None:
    def advance(number: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        parity, word = (number % 2 + token) % 2, (number / 2).floor().clamp_min(1)
        word = torch.where(word < 2**10, 2 * word + token, word)  # in binary, behind a 1
        return 2 * word + parity, torch.where(word == 0b1110, 1 - parity, parity)

    found = extraction.analyse(Run.of(Loose(advance), "parity"), length=12, sequences=128)
    assert found.verdict == "equivalent"
    assert "; not always: after 110 (3 tokens) the model answers '1'" in found.sentence


def test_a_counter_without_bound_is_not_taken_for_an_automaton() -> None:
    # answers whether there were more ones than zeros
    def advance(number: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        following = number + 2 * token - 1
        return following, following > 0

    found = extraction.analyse(Run.of(Loose(advance), "parity"), length=64, fresh_words=64, times=4)
    # every suffix resolves one more value of the counter, and beyond them votes go on to disagree
    assert len(found.extraction.suffixes) == 2 + found.settings.max_suffixes
    assert found.extraction.inconsistent > 0.001
    assert found.verdict in ("differs", "inconclusive")
    assert found.fidelity(256) < 0.99
    # with the first suffixes alone few classes are reached; what more suffixes reach is beyond the limit
    fewer = extraction.analyse(Run.of(Loose(advance), "parity"), length=64, fresh_words=2, max_states=3)
    assert fewer.extraction.machine is not None
    assert fewer.extraction.reachable <= 3 < found.extraction.reachable
    assert fewer.extraction.inconsistent > 0.001
    # where every state is a class of its own there is none to give
    several = MealyMachine([[1, 0], [2, 1], [2, 0]], [[0, 0], [1, 0], [1, 1]])
    few = extraction.analyse(Run.of(MachineModel(several), "parity"), length=64, fresh_words=2, max_states=2)
    assert few.extraction.machine is None
    assert few.verdict == "inconclusive"
    assert few.fidelity(64) == 0
    assert "more than 2 classes" in few.sentence
    assert extraction.draw(few).axes
