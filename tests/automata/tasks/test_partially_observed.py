"""Probabilistic automata as tasks: against the automaton's own filter, and against all hidden paths."""

from math import comb

import numpy as np
import pytest

from automata.errors import InputError
from automata.probabilistic import NO_VALUE, ProbabilisticAutomaton, lazy_swaps, noisy_parity
from automata.tasks.partially_observed import PartiallyObserved, Target
from tests.automata.probabilistic.random_automata import enumerated_masses
from tests.refusals import refusals


def random_automaton(seed: int) -> ProbabilisticAutomaton:
    """Three states, two actions; a full reveal and a partial one that share the name of a value."""
    rng = np.random.default_rng(seed)
    return ProbabilisticAutomaton(
        ["p", "q", "r"],
        rng.dirichlet(np.ones(3)),
        {action: rng.dirichlet(np.ones(3), size=3).T for action in ("a", "b")},
        {"all": ["x", "y", "z"], "some": ["x", "w", "w"]},
    )


def test_reveals_are_predicted_as_the_sum_over_all_hidden_paths_says() -> None:
    automaton = random_automaton(7)
    task = PartiallyObserved(automaton, "reveals", 0.5)
    w = automaton.value_names["some"].index("w")
    masses = enumerated_masses(
        automaton, automaton.encode(["a", "some", "b", "b"]), np.array([NO_VALUE, w, NO_VALUE, NO_VALUE])
    )
    spoken = [task.token_names.index(token) for token in ("a", "some", "=w", "b", "b", "all")]
    answers = dict(zip(task.target_names, task.probabilities([spoken])[0, -1], strict=True))
    expected = dict(zip("xyz", masses / masses.sum(), strict=True))
    # four factors and 81 sums in float64
    assert answers == pytest.approx(dict.fromkeys(answers, 0.0) | expected, rel=1e-13, abs=1e-15)


def test_the_grammar_of_the_tokens() -> None:
    task = PartiallyObserved(lazy_swaps(3), "reveals", 0.4)
    batch = task.batch(50, 41, np.random.default_rng(0))
    kinds = np.array(
        ["="[: name.startswith("=")] or ("s" if name[:4] == "swap" else "r") for name in task.token_names]
    )
    text = ["".join(kinds[row]) for row in batch.tokens]
    assert any(row.endswith("r") for row in text)
    for row, weights in zip(text, batch.weights, strict=True):
        assert set(row.replace("r=", "").removesuffix("r")) <= {"s"}
        assert [kind == "r" for kind in row] == (weights > 0).tolist()
    asked = batch.counted[:, :-1]
    names = np.array(task.token_names)
    answers = [name.removeprefix("=") for name in names[batch.tokens[:, 1:][asked]]]
    assert answers == [task.target_names[target] for target in batch.targets[:, :-1][asked]]


@pytest.mark.parametrize("target", ["reveals", "states"])
def test_sequences_that_go_on_are_one_long_sequence(target: Target) -> None:
    task = PartiallyObserved(lazy_swaps(3, probability=1.0), target, 0.5)
    rng = np.random.default_rng(1)
    pieces = [task.batch(40, 7, rng)]
    for _ in range(5):
        pieces.append(task.batch(40, 7, rng, start=pieces[-1].end))
    tokens, targets, counted = (
        np.concatenate([getattr(piece, field) for piece in pieces], axis=1)
        for field in ("tokens", "targets", "counted")
    )
    answers = task.probabilities(tokens)  # refuses a value without a reveal before it
    # without chance the filter is sure: a piece begun in another state would be found out
    np.testing.assert_allclose(answers[counted].max(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(answers[counted].argmax(axis=1), targets[counted])


def test_the_ceiling_of_noisy_parity_is_its_closed_form() -> None:
    epsilon = 0.1
    task = PartiallyObserved(noisy_parity(epsilon), "states", 0.0)
    length, sequences = 12, 4000
    ceiling = task.ceiling(length, last=1, sequences=sequences)
    assert ceiling is not None
    # after k ones Pr(odd) = (1 - (2ε - 1)^k) / 2, and k is binomial
    k = np.arange(length + 1)
    odd = (1 - (2 * epsilon - 1) ** k) / 2
    weights = np.array([comb(length, n) for n in k]) / 2**length
    expected = (weights * np.maximum(odd, 1 - odd)).sum()
    spread = np.sqrt((weights * (np.maximum(odd, 1 - odd) - expected) ** 2).sum())
    assert abs(ceiling.accuracy - expected) < 5 * spread / np.sqrt(sequences)


PARITY = PartiallyObserved(noisy_parity(0.1))
test_bad_input_is_refused = refusals(
    (lambda: PartiallyObserved(noisy_parity(0.1), "value"), "target 'value' is unknown"),  # type: ignore[arg-type]
    (lambda: PartiallyObserved(noisy_parity(0.1), "reveals", 0.0), r"reveal_probability is 0"),
    (lambda: PartiallyObserved(noisy_parity(0.1), "states", 1.5), r"reveal_probability is 1\.5"),
    (lambda: PartiallyObserved(ProbabilisticAutomaton(["q"], [1], {"a": [[1]]})), "has no reveal to predict"),
    (lambda: PartiallyObserved(ProbabilisticAutomaton(["q"], [1], {}, {"look": ["q"]})), "has no action"),
    (
        lambda: PartiallyObserved(ProbabilisticAutomaton(["q"], [1], {"=q": [[1]]}, {"look": ["q"]})),
        "together holds '=q' twice",
    ),
    (lambda: PARITY.probabilities([0, 1]), r"tokens has shape \[2\]"),
    (lambda: PARITY.probabilities([[9]]), "tokens holds 9"),
    (lambda: PARITY.probabilities([[0, -1, 9]]), "tokens holds -1"),
    (lambda: PARITY.probabilities([[3]]), "without a reveal"),
    (lambda: PARITY.updated(np.ones((1, 2)), [[0, 1]]), r"beliefs has shape \[1, 2\]; give \[1, 2, 2\]"),
    (lambda: PARITY.probabilities([[2, 0]]), "without a value"),
    (lambda: noisy_parity(0.1).sample([[0]], np.random.default_rng(0), start=[5]), "start has shape"),
)


def test_the_sample_of_a_ceiling_is_drawn_from_the_generator_that_is_given() -> None:
    task = PartiallyObserved(noisy_parity(0.2), "reveals", 0.5)

    def ceiling(**options: object) -> object:
        return task.ceiling(length=12, sequences=8, **options)  # type: ignore[arg-type]

    assert ceiling() == ceiling(rng=np.random.default_rng(0))
    assert ceiling(rng=np.random.default_rng(1)) == ceiling(rng=np.random.default_rng(1)) != ceiling()
    assert ceiling(last=3) != ceiling()


def test_an_automaton_without_reveals_gives_its_actions() -> None:
    """Nothing is shown, so the tokens are the actions, and the states those that the actions lead to."""
    flip = ProbabilisticAutomaton(
        ["even", "odd"], [1.0, 0.0], {"stay": np.eye(2), "flip": np.eye(2)[::-1]}, {}
    )
    task = PartiallyObserved(flip, target="states")
    batch = task.batch(4, 30, np.random.default_rng(0))
    assert set(np.unique(batch.tokens)) == {0, 1}
    assert (batch.targets == batch.tokens.cumsum(axis=1) % 2).all()


def events(task: PartiallyObserved, tokens: list[int]) -> tuple[list[int], list[int]]:
    """The automaton's tokens and values: a reveal stands where its value does, and not before it."""
    automaton = task.automaton
    known = len(automaton.token_names)
    kept = [place for place, token in enumerate(tokens) if token < len(automaton.actions) or token >= known]
    given, values = [], []
    for place in kept:
        if tokens[place] < known:
            given.append(tokens[place])
            values.append(NO_VALUE)
        else:
            given.append(tokens[place - 1])
            names = automaton.value_names[automaton.token_names[tokens[place - 1]]]
            values.append(names.index(task.token_names[tokens[place]].removeprefix("=")))
    return given, values


@pytest.mark.parametrize("target", ["reveals", "states"])
@pytest.mark.parametrize("automaton", [lazy_swaps(3, 0.3), random_automaton(0)], ids=["swaps", "random"])
def test_beliefs_and_evidence_are_those_of_the_automaton(
    automaton: ProbabilisticAutomaton, target: Target
) -> None:
    task = PartiallyObserved(automaton, target, 0.4)
    batch = task.batch(8, 40, np.random.default_rng(0))
    beliefs, evidence = task.beliefs(batch.tokens), task.log_evidence(batch.tokens)
    for row, tokens in enumerate(batch.tokens.tolist()):
        asks = np.array([len(task.automaton.actions) <= t < len(task.automaton.token_names) for t in tokens])
        log_beliefs, log_evidence = task.automaton.log_beliefs(*events(task, tokens))
        # products and sums of non-negative numbers: 40 steps of 6 terms, relative error below 40 · 7 · 2⁻⁵³
        np.testing.assert_allclose(beliefs[row][~asks], np.exp(log_beliefs), rtol=1e-12)
        np.testing.assert_allclose(evidence[row][~asks], log_evidence, atol=1e-12)
        assert (evidence[row][asks] == 0).all()
    if target == "states":
        np.testing.assert_array_equal(task.probabilities(batch.tokens), beliefs)


def test_the_update_of_the_exact_belief_is_the_next_exact_belief() -> None:
    task = PartiallyObserved(lazy_swaps(3, 0.3), "reveals", 0.4)
    tokens = task.batch(8, 40, np.random.default_rng(2)).tokens
    beliefs = task.beliefs(tokens)
    before = np.concatenate(
        [np.broadcast_to(task.initial_belief, beliefs[:, :1].shape), beliefs[:, :-1]], axis=1
    )
    # the same products in float64; only the order of the sums may differ
    np.testing.assert_allclose(task.updated(before, tokens), beliefs, rtol=0, atol=1e-15)
    some = np.array([7, 3])
    np.testing.assert_array_equal(
        task.updated(before[:, some], tokens, some), task.updated(before, tokens)[:, some]
    )
    # a belief that the token contradicts is left without mass
    wrong = task.updated(1.0 * (beliefs == 0), tokens)
    assert (wrong.sum(axis=-1) == 0).any()


def test_full_reveals_are_those_that_show_the_state() -> None:
    task = PartiallyObserved(lazy_swaps(3), "reveals", 0.5)
    tokens = task.batch(20, 40, np.random.default_rng(3)).tokens
    asked_all = tokens[:, :-1] == task.token_names.index("all")
    expected = np.concatenate([np.zeros((20, 1), bool), asked_all], axis=1)
    assert expected.any()
    np.testing.assert_array_equal(task.fully_revealed(tokens), expected)
    values = tokens >= len(task.automaton.token_names)
    np.testing.assert_array_equal(task.revealed(tokens), values)


def test_an_action_that_resets_is_no_reveal_though_it_leaves_one_state() -> None:
    automaton = ProbabilisticAutomaton(
        ["p", "q"], [0.5, 0.5], {"reset": [[1, 1], [0, 0]], "stay": np.eye(2)}, {"look": ["p", "q"]}
    )
    task = PartiallyObserved(automaton)
    tokens = [[0, 1, 2, task.token_names.index("=p")]]
    assert task.revealed(tokens).tolist() == [[False, False, False, True]]
    assert task.fully_revealed(tokens).tolist() == [[False, False, False, True]]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1, 2], [2, 1]),  # both show the state: no partial reveal
        ([1, 1, 2, 2], [2, 2, 1, 1]),  # states that look the same
        ([1, 1, 2], [1, 2, 2]),  # no permutations
    ],
)
def test_reveals_that_are_no_variables(left: list[int], right: list[int]) -> None:
    initial, stay = np.full(len(left), 1 / len(left)), {"stay": np.eye(len(left))}
    automaton = ProbabilisticAutomaton(
        [*map(str, range(len(left)))], initial, stay, {"left": left, "right": right}
    )
    assert PartiallyObserved(automaton).arrangements is None


def test_a_contradiction_names_sequence_and_position() -> None:
    task = PartiallyObserved(noisy_parity(0.0))
    number = task.token_names.index
    right = [number(name) for name in ("1", "parity", "=odd", "1")]
    wrong = [number(name) for name in ("1", "1", "parity", "=odd")]
    for call in (task.beliefs, task.probabilities, task.log_evidence):
        with pytest.raises(InputError, match="token '=odd' at position 3 of sequence 1 contradicts"):
            call([right, wrong])


def test_beliefs_beyond_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 100})())
    with pytest.raises(InputError, match="the beliefs of 20000 tokens over 2 states need"):
        PartiallyObserved(noisy_parity(0.1)).beliefs(np.zeros((2, 10_000), dtype=np.int64))
