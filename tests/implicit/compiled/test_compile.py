"""Compiled automata answer as the automata do: all machines, both modes, both precisions, every damping."""

import numpy as np
import pytest
import torch

from automata import DFA, task_from
from automata.errors import InputError
from automata.machines.mealy import MealyMachine
from automata.monoids.groups import symmetric_group
from automata.tasks import make_task
from implicit import ImplicitMamba2
from implicit.compiled import Gains, Wiring, bounds_of, compile_automaton
from implicit.fixed_point import Stopping
from implicit.modes import Solve

LENGTH = 12


def random_machine(states: int, tokens: int, answers: int, seed: int) -> MealyMachine:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, states, (states, tokens))
    return MealyMachine(table, rng.integers(0, answers, table.shape), int(rng.integers(states)))


PARITY = MealyMachine([[0, 1], [1, 0]], [[0, 1], [1, 0]])
ALL_TO_ONE = MealyMachine(np.zeros((12, 3), int), np.zeros((12, 3), int))


def _tracked(table: np.ndarray, initial: int = 0) -> MealyMachine:
    return MealyMachine(table, table, initial)


_ALL_EQUAL = np.repeat(np.random.default_rng(0).permutation(7)[:, None], 4, axis=1)
_UNREACHED = np.array([[1, 0], [0, 1], [3, 2], [0, 4], [4, 4]])
MACHINES = {
    "one state, one token": MealyMachine([[0]], [[0]]),
    "one state, many answers": MealyMachine(np.zeros((1, 9), int), np.arange(9)[None]),
    "one token, a cycle": _tracked((np.arange(11)[:, None] + 1) % 11, 4),
    "all tokens equal": _tracked(_ALL_EQUAL),
    "identity tokens only": _tracked(np.tile(np.arange(5)[:, None], 3), 2),
    "absorbing": _tracked(np.array([[1, 0], [2, 0], [2, 2]])),
    "constant tokens": _tracked(np.tile(np.arange(6), (6, 1))),
    "unreachable states": _tracked(_UNREACHED),
    "first state not the first": _tracked(np.array([[1, 0], [0, 1]]), 1),
    "many tokens, few states": random_machine(2, 25, 3, 1),
    "30 states, 10 tokens": random_machine(30, 10, 2, 2),
    "answers on transitions": random_machine(9, 4, 7, 3),
    "one answer": random_machine(8, 3, 1, 4),
    "S3": _tracked(symmetric_group(3).table),
    "parity": PARITY,
}


def _words(machine: MealyMachine, length: int = LENGTH, seed: int = 0) -> np.ndarray:
    """Random words, the same token all the time, and a change at the last moment."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, machine.token_count, (8, length))
    for row in range(4):
        words[row] = words[row, 0]
    words[2:4, -1] = machine.token_count - 1
    return words


def _answers(model: ImplicitMamba2, words: np.ndarray, solve: Solve | None = None) -> np.ndarray:
    with torch.no_grad():
        return model.run(torch.from_numpy(words), solve=solve).logits.argmax(-1).numpy()


@pytest.mark.parametrize("name", MACHINES)
def test_both_modes_answer_with_the_margin_that_is_proved(name: str) -> None:
    """All tokens together: a sweep for each token, three to settle, and one that finds all settled."""
    machine = MACHINES[name]
    model, words = compile_automaton(machine), _words(machine)
    assert (_answers(model, words, Solve("sequential")) == machine.read(words)).all()
    assert (_answers(model.double(), words, Solve("sequential")) == machine.read(words)).all()
    together = Solve("simultaneous", stopping=Stopping(rtol=1e-6, max_iterations=14))
    tight = Solve("sequential", stopping=Stopping(rtol=1e-12, max_iterations=100))
    with torch.no_grad():
        output = model.run(torch.from_numpy(words[:, -10:]), solve=together)
        logits = model.run(torch.from_numpy(words), solve=tight).logits
    assert (output.logits.argmax(-1).numpy() == machine.read(words[:, -10:])).all()
    assert output.solution is not None
    assert output.solution.share_converged == 1
    if machine.answers.max() > 0:
        best, second = logits.topk(2).values.unbind(-1)
        assert float(((best - second) / best).min()) >= bounds_of(model, Wiring.one_hot(machine)).margin


@pytest.mark.parametrize("name", ["S3", "parity", "absorbing", "answers on transitions"])
def test_token_t_is_right_from_sweep_t_on(name: str) -> None:
    machine = MACHINES[name]
    words = np.random.default_rng(1).integers(0, machine.token_count, (64, 8))
    model = compile_automaton(machine)
    for sweeps in range(1, 11):
        solve = Solve("simultaneous", stopping=Stopping(rtol=0, max_iterations=sweeps + 1))
        wrong = _answers(model, words, solve) != machine.read(words)
        assert not wrong[:, :sweeps].any()
        if name in ("S3", "parity"):
            assert wrong[:, sweeps:].any(axis=0).all()


@pytest.mark.parametrize(
    ("damping", "rtol", "limit"),
    [(0.1, 1e-6, 500), (0.5, 1e-2, 50), (0.8, 10.0, 500), (1.0, 1e-12, 2), (0.1, 1e-12, 2)],
)
def test_neither_tolerance_nor_limit_nor_damping_matters(damping: float, rtol: float, limit: int) -> None:
    machine = MACHINES["answers on transitions"]
    model = compile_automaton(machine, damping=damping).double()
    words = _words(machine, 8)
    solve = Solve("sequential", stopping=Stopping(rtol=rtol, max_iterations=limit))
    assert (_answers(model, words, solve) == machine.read(words)).all()


@pytest.mark.parametrize(
    "gains",
    [
        *(Gains(decay=2**-12), Gains(sharpness=512), Gains(start=2**-8), Gains(dominance=64)),
        *(Gains(dominance=4096), Gains(2**-12, 512, 2**-8, 4096), Gains(2**-12, 64, 2**-8, 64)),
    ],
    ids=repr,
)
def test_gains_at_the_ends_of_their_ranges_are_right_or_refused(gains: Gains) -> None:
    machine = MACHINES["S3"]
    try:
        model = compile_automaton(machine, gains)
    except InputError as error:
        assert "is not proved right" in str(error)  # noqa: PT017
        return
    words = _words(machine)
    assert (_answers(model.double(), words, Solve("sequential")) == machine.read(words)).all()


def test_dfa_answers_whether_it_accepts() -> None:
    dfa = DFA.from_table([[1, 0, 2], [0, 2, 1], [2, 1, 0]], initial=2, accepting=[0, 2])
    words = np.random.default_rng(0).integers(0, 3, (5, 40))
    accepted = [[dfa.accepts([str(x) for x in word[: t + 1]]) for t in range(40)] for word in words]
    assert (_answers(compile_automaton(dfa), words) == np.array(accepted)).all()


def test_monoid_and_task_answer_their_products() -> None:
    group = symmetric_group(3)
    words = np.random.default_rng(0).integers(0, 6, (5, 30))
    products = [[group.multiply(*word[: t + 1]) for t in range(30)] for word in words.tolist()]
    for source in (group, task_from(group), make_task("S3")):
        assert (_answers(compile_automaton(source), words) == np.array(products)).all()


def test_global_generator_is_left_alone() -> None:
    before = torch.random.get_rng_state()
    compile_automaton(MACHINES["parity"])
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("automaton", "sentence"),
    [
        ("parity", "automaton is of type str; give a DFA, a MealyMachine, a Monoid or a task"),
        (task_from("noisy-parity-states"), "has no machine that gives its answers"),
    ],
)
def test_what_cannot_be_compiled(automaton: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        compile_automaton(automaton)  # type: ignore[arg-type]


def test_numbers_outside_their_ranges_are_refused() -> None:
    wrong = (("decay", 0.1), ("decay", 0), ("sharpness", 10), ("start", 1), ("dominance", np.nan))
    for field, value in wrong:
        with pytest.raises(InputError, match=f"^{field} is "):
            Gains(**{field: value})
    for damping in (0.05, 0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match=r"^damping is .*; give at least 0\.1 and at most 1$"):
            compile_automaton(MACHINES["parity"], damping=damping)
    with pytest.raises(InputError, match="classes is 1, but the machine answers 1; give more"):
        Wiring.one_hot(MACHINES["parity"], 1)


def test_what_does_not_fit_into_memory_is_refused_before_anything_is_made() -> None:
    machine = _tracked(np.zeros((3000, 3000), int) + np.arange(3000)[:, None])
    with pytest.raises(InputError, match=r"needs at least .* GiB of memory.*; compile a smaller"):
        compile_automaton(machine)
