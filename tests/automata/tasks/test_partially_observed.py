"""Probabilistic automata as tasks: against the automaton's own filter, and against all hidden paths."""

from itertools import product as words_of

import numpy as np
import pytest

from automata.probabilistic import NO_VALUE, ProbabilisticAutomaton, lazy_swaps, noisy_parity
from automata.tasks.partially_observed import PartiallyObserved, Target
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


def as_events(task: PartiallyObserved, tokens: list[int]) -> list[tuple[int, int]]:
    """The pairs (token of the automaton, value or NO_VALUE), each reveal together with its value."""
    automaton = task.automaton
    events: list[tuple[int, int]] = []
    first_value = len(automaton.token_names)
    for token in tokens:
        if token < first_value:
            events.append((token, NO_VALUE))
        else:
            reveal = automaton.token_names[events[-1][0]]
            name = task.token_names[token].removeprefix("=")
            events[-1] = (events[-1][0], automaton.value_names[reveal].index(name))
    return events


@pytest.mark.parametrize("seed", range(3))
def test_states_are_filtered_as_the_automaton_filters_them(seed: int) -> None:
    automaton = random_automaton(seed)
    task = PartiallyObserved(automaton, "states", 0.4)
    batch = task.batch(6, 30, np.random.default_rng(seed))
    ours = task.probabilities(batch.tokens)
    for row, tokens in enumerate(batch.tokens.tolist()):
        for end in range(1, 31):
            events = as_events(task, tokens[:end])
            if events[-1][1] == NO_VALUE and events[-1][0] >= len(automaton.actions):
                events = events[:-1]  # asked and not yet answered: nothing more is known
            expected = (
                automaton.beliefs(*(list(part) for part in zip(*events, strict=True)))[-1]
                if events
                else automaton.initial
            )
            # two orders of the same products and sums of at most 30 factors in float64
            np.testing.assert_allclose(ours[row, end - 1], expected, rtol=1e-11, atol=1e-14)


def test_reveals_are_predicted_as_the_sum_over_all_hidden_paths_says() -> None:
    automaton = random_automaton(7)
    task = PartiallyObserved(automaton, "reveals", 0.5)
    names = {name: number for number, name in enumerate(task.token_names)}
    spoken = ["a", "some", "=w", "b", "b", "all"]
    shown: dict[str, float] = {}
    seen = 0.0
    for path in words_of(range(3), repeat=4):  # before a, after a, after b, after b
        start, first, second, third = path
        weight = (
            automaton.initial[start]
            * automaton.matrices[0][first, start]
            * automaton.matrices[1][second, first]
            * automaton.matrices[1][third, second]
            * (first in (1, 2))
        )
        seen += weight
        value = ["x", "y", "z"][third]
        shown[value] = shown.get(value, 0) + weight
    answers = task.probabilities([[names[token] for token in spoken]])[0, -1]
    for number, value in enumerate(task.target_names):
        # four factors and 81 sums in float64
        assert answers[number] == pytest.approx(shown.get(value, 0) / seen, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("target", ["reveals", "states"])
def test_targets_are_drawn_with_the_probabilities_of_the_filter(target: Target) -> None:
    task = PartiallyObserved(lazy_swaps(3, 0.3), target, 0.3)
    batch = task.batch(4000, 12, np.random.default_rng(0))
    answers = task.probabilities(batch.tokens)[batch.counted]
    targets = batch.targets[batch.counted]
    np.testing.assert_allclose(answers.sum(axis=-1), 1, rtol=1e-12)
    # calibration: among the targets given probability p the share that comes true is p, within 5 deviations
    predicted = answers[np.arange(len(targets)), targets]
    likeliest = answers.max(axis=1)
    is_right = answers.argmax(axis=1) == targets
    assert (predicted > 0).all()
    for low in np.arange(0.2, 1.0, 0.1):
        chosen = (likeliest > low) & (likeliest <= low + 0.1)
        if chosen.sum() > 200:
            # a sequence's targets hang together: 12 of them at most
            error = 5 * 0.5 * np.sqrt(12 / chosen.sum())
            assert abs(is_right[chosen].mean() - likeliest[chosen].mean()) < error


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


def test_sequences_that_go_on_are_one_long_sequence() -> None:
    deterministic = lazy_swaps(3, probability=1.0)
    task = PartiallyObserved(deterministic, "reveals", 0.5)
    rng = np.random.default_rng(1)
    pieces = [task.batch(40, 7, rng)]
    for _ in range(5):
        pieces.append(task.batch(40, 7, rng, start=pieces[-1].end))
    tokens = np.concatenate([piece.tokens for piece in pieces], axis=1)
    targets = np.concatenate([piece.targets for piece in pieces], axis=1)
    counted = np.concatenate([piece.counted for piece in pieces], axis=1)
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
    weights = (
        np.array([np.prod(np.arange(length - n + 1, length + 1) / np.arange(1, n + 1)) for n in k])
        / 2**length
    )
    expected = (weights * np.maximum(odd, 1 - odd)).sum()
    spread = np.sqrt((weights * (np.maximum(odd, 1 - odd) - expected) ** 2).sum())
    assert abs(ceiling.accuracy - expected) < 5 * spread / np.sqrt(sequences)


test_bad_input_is_refused = refusals(
    (lambda: PartiallyObserved(noisy_parity(0.1), "value"), "target 'value' is unknown"),  # type: ignore[arg-type]
    (lambda: PartiallyObserved(noisy_parity(0.1), "reveals", 0.0), r"reveal_probability is 0"),
    (lambda: PartiallyObserved(noisy_parity(0.1), "states", 1.5), r"reveal_probability is 1\.5"),
    (
        lambda: PartiallyObserved(ProbabilisticAutomaton(["q"], [1], {"a": [[1]]})),
        "has no reveal to predict",
    ),
    (lambda: PartiallyObserved(ProbabilisticAutomaton(["q"], [1], {}, {"look": ["q"]})), "has no action"),
    (
        lambda: PartiallyObserved(ProbabilisticAutomaton(["q"], [1], {"=q": [[1]]}, {"look": ["q"]})),
        "together holds '=q' twice",
    ),
    (lambda: PartiallyObserved(noisy_parity(0.1)).probabilities([0, 1]), r"tokens has shape \[2\]"),
    (lambda: PartiallyObserved(noisy_parity(0.1)).probabilities([[9]]), "tokens holds 9"),
    (lambda: PartiallyObserved(noisy_parity(0.1)).probabilities([[0, -1, 9]]), "tokens holds -1"),
    (lambda: PartiallyObserved(noisy_parity(0.1)).probabilities([[3]]), "without a reveal"),
    (lambda: PartiallyObserved(noisy_parity(0.1)).probabilities([[2, 0]]), "without a value"),
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
