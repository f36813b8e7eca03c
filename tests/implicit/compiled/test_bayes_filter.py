"""The Bayes filter in the weights of the block: its latents against other exact filters, and brute force."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import torch

from automata.errors import InputError
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.registry import make_task
from implicit.compiled import compile_automaton, compile_bayes_filter, latent_beliefs
from implicit.fixed_point import Stopping
from implicit.modes.solve import Solve
from tests.automata.probabilistic.random_automata import enumerated_masses, random_automaton, random_trace
from theory import check_theorem1
from theory.belief.filters import BayesFilter

AUTOMATA: dict[str, Callable[[], ProbabilisticAutomaton]] = {
    "lazy swaps of 3": lambda: lazy_swaps(3, probability=0.3),
    "noisy parity": lambda: noisy_parity(0.2),
}
ROUNDING = 1e-12
"""Errors of entries stay relative, as all sums have terms of one sign: some 1e-15 for every observation."""


def trace(
    automaton: ProbabilisticAutomaton, length: int, batch: int = 2
) -> tuple[BayesFilter, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    count = len(automaton.actions)
    partial = [count + i for i, name in enumerate(automaton.reveals) if not automaton.is_full(name)]
    reveals = rng.choice(partial or [count], size=(batch, length))
    tokens = np.where(rng.random((batch, length)) < 1 / 3, reveals, rng.integers(count, size=(batch, length)))
    _, values = automaton.sample(tokens, rng)
    exact = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    beliefs = torch.from_numpy(np.exp(automaton.log_beliefs(tokens, values)[0]))
    return exact, exact.observations(tokens, values), beliefs


@pytest.mark.parametrize("name", AUTOMATA)
def test_latents_are_multiples_of_the_exact_beliefs_in_both_modes_and_at_every_iterate(name: str) -> None:
    close = partial(torch.testing.assert_close, rtol=0, atol=ROUNDING)
    exact, observations, beliefs = trace(AUTOMATA[name](), 150)
    close(latent_beliefs(compile_bayes_filter(exact, damping=0.8), observations), beliefs)
    exact, observations, beliefs = trace(AUTOMATA[name](), 24)
    for damping in (1.0, 0.3):
        model = compile_bayes_filter(exact, damping=damping)
        sweeps = Solve("simultaneous", stopping=Stopping(rtol=1e-9, max_iterations=400))
        close(latent_beliefs(model, observations, sweeps), beliefs)
        for evaluations in (2, 3, 5):  # the last of them only measures
            early = Solve("sequential", stopping=Stopping(rtol=0, max_iterations=evaluations))
            close(latent_beliefs(model, observations, early), beliefs)


def test_two_evaluations_per_token_are_enough_and_sweeps_move_one_token_on() -> None:
    exact, observations, _ = trace(lazy_swaps(3), 24)
    model = compile_bayes_filter(exact)
    with torch.no_grad():
        found = model.run(observations, solve=Solve("sequential")).solution
    assert found is not None
    assert found.iterations.unique().tolist() == [2]
    for sweeps in (1, 7, 23):
        limit = Solve("simultaneous", stopping=Stopping(rtol=1e-9, max_iterations=sweeps + 1))
        beliefs = latent_beliefs(model, observations, limit)
        assert (beliefs[:, :sweeps].sum(-1) - 1).abs().max() < ROUNDING
        assert (beliefs[:, sweeps:] == 0).all()  # they wait at 0 for the token before


@pytest.mark.parametrize("seed", range(6))
def test_they_are_what_enumeration_says_of_random_automata(seed: int) -> None:
    rng = np.random.default_rng(seed)
    automaton = random_automaton(rng)
    tokens, values = random_trace(automaton, rng, 5, automaton.reveals[:1])
    exact = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    found = latent_beliefs(compile_bayes_filter(exact), exact.observations([tokens], [values]))[0]
    for end in range(1, 6):
        masses = enumerated_masses(automaton, tokens[:end], values[:end])
        np.testing.assert_allclose(found[end - 1], masses / masses.sum(), rtol=0, atol=ROUNDING)


def test_after_a_contradiction_there_is_no_belief() -> None:
    automaton = lazy_swaps(3)
    exact = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    reveal = len(automaton.actions)
    observations = exact.observations([[reveal, reveal, 0, reveal]], [[0, 1, -1, 0]])
    found = latent_beliefs(compile_bayes_filter(exact), observations)[0]
    assert found.sum(-1).tolist() == pytest.approx([1, 0, 0, 0], abs=ROUNDING)
    assert (found[1:] == 0).all()


def test_a_deterministic_automaton_is_a_special_case_and_float32_keeps_it() -> None:
    parity = BayesFilter([1.0, 0.0], [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]], [[0, 1]])
    model = compile_bayes_filter(parity).float()
    tokens = torch.randint(2, (2, 500), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        answers = model(tokens).argmax(-1)
    assert torch.equal(answers, tokens.cumsum(1) % 2)


def test_theorem_1_says_nothing_of_a_memory_in_the_window() -> None:
    """The SSM's state stays 0: nothing of h reaches h through z, which is condition C4."""
    automaton = lazy_swaps(3)
    exact, observations, _ = trace(automaton, 12, batch=1)
    model = compile_bayes_filter(exact, damping=0.8)
    states, state = [], model.init_state(1)
    with torch.no_grad():
        for place in range(12):
            state = model.run(observations[:, place : place + 1], state).state
            states.append({name: part[0] for name, part in state.items()})
    token = torch.tensor([len(automaton.actions)])  # the first value of the first reveal
    transition = model.transitions(token)[0]
    report = check_theorem1(transition, states[4:5], seed=0)
    assert report.counts == {"holds": 0, "fails": 1, "inconclusive": 0, "does not apply": 0}
    failed = {(c.name, c.verdict.value) for check in report.checks for c in check.conditions}
    assert failed == {("C1", "holds"), ("C2", "holds"), ("C3", "holds"), ("C4", "fails")}
    assert all((state["ssm.0"] == 0).all() for state in states)


def test_every_entry_however_small_is_that_of_exact_rationals() -> None:
    """Reveals of a coin that almost never turns: odds of 1 to 10¹² at a flip, and none of them is lost."""
    rare = Fraction(1, 10**12)
    stay = 1 - rare - rare * rare
    columns = [[stay, rare, rare * rare], [rare * rare, stay, rare], [rare, rare * rare, stay]]
    matrix = [[columns[now][later] for now in range(3)] for later in range(3)]
    exact = BayesFilter([1.0, 0.0, 0.0], [np.array(matrix, float), np.eye(3)], [[0, 0, 1], [0, 1, 1]])
    rng = np.random.default_rng(0)
    tokens = rng.choice([0, 0, 0, 1, 2, 3], size=60)
    belief, values, expected = [Fraction(1), Fraction(0), Fraction(0)], [], []
    readings = {2: (0, 0, 1), 3: (0, 1, 1)}
    for token in tokens.tolist():
        if token == 0:
            belief = [sum((row[i] * belief[i] for i in range(3)), Fraction(0)) for row in matrix]
        shown = -1
        if token in readings:  # the value that is less likely, wherever both can occur
            masses = [sum(b for b, o in zip(belief, readings[token], strict=True) if o == v) for v in (0, 1)]
            shown = min((v for v in (0, 1) if masses[v] > 0), key=lambda v: masses[v])
            kept = zip(belief, readings[token], strict=True)
            belief = [b if o == shown else Fraction(0) for b, o in kept]
        belief = [b / sum(belief) for b in belief]
        values.append(shown)
        expected.append([float(b) for b in belief])
    observations = exact.observations([tokens], [values])
    found = latent_beliefs(compile_bayes_filter(exact), observations)[0].numpy()
    assert 0 < min(p for row in expected for p in row if p) < 1e-20
    # the float matrix is off by one rounding in every entry, the program by some more at each of 60 steps
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("dtype", "rare", "belief"),
    [
        (torch.float64, 1e-307, [0, 2 / 3, 1 / 3]),
        (torch.float32, 1e-37, [0, 2 / 3, 1 / 3]),
        (torch.float32, 1e-46, [0, 0, 0]),  # below the least number of the format
    ],
)
def test_what_is_rare_is_right_within_the_format(
    dtype: torch.dtype, rare: float, belief: list[float]
) -> None:
    exact = BayesFilter([1 - rare, 2 * rare / 3, rare / 3], [np.eye(3)], [[0, 1, 1]])
    model = compile_bayes_filter(exact).to(dtype)
    found = latent_beliefs(model, torch.tensor([[0, 2]]))[0, -1].tolist()
    assert found == pytest.approx(belief, rel=1e-6, abs=0)  # some roundings of float32


def test_what_makes_no_filter_is_refused() -> None:
    with pytest.raises(InputError, match=r"^model was not compiled from a filter; give one from"):
        latent_beliefs(compile_automaton(make_task("parity")), torch.zeros(1, 1, dtype=torch.long))
    with pytest.raises(InputError, match=r"^exact is 3; give a BayesFilter|^exact is of type int; give a Ba"):
        compile_bayes_filter(3)  # type: ignore[arg-type]
    exact, _, _ = trace(noisy_parity(0.2), 2)
    for damping in (0.0, 1.5, float("nan")):
        with pytest.raises(InputError, match=r"^damping is .*; give a number above 0 and at most 1$"):
            compile_bayes_filter(exact, damping=damping)
