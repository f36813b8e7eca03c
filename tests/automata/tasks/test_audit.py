"""The shortcut audit against all words, closed forms, and its own estimates."""

from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import product as words_of

import numpy as np
import pytest

from automata import Batch, ReplLanguage, Task, WordProblem, make_task, symmetric_group, task_from
from automata.audit import command, main
from automata.errors import InputError
from automata.tasks import audit
from automata.tasks.audit import shortcut_audit
from tests.conftest import Refuses


def random_problem(seed: int) -> WordProblem:
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 4, (4, 2))
    table[:, 0] = np.arange(4)  # an easy token
    return WordProblem(table, 1, "ab", "pqrs", hard_fraction=0.6)


def swaps_of_three() -> WordProblem:
    S3 = symmetric_group(3)
    return WordProblem.from_monoid(S3, [S3.index(name) for name in ("132", "213", "321")])


PROBLEMS: dict[str, Callable[[], WordProblem]] = {
    "parity": lambda: make_task("parity"),
    "flip-flop": lambda: make_task("flip-flop"),
    "counter-5": lambda: make_task("counter-5"),
    "dyck-4": lambda: make_task("dyck-4"),
    "dyck-2-3": lambda: make_task("dyck-2-3"),
    "S3 transpositions": swaps_of_three,
    "random, seed 0": lambda: random_problem(0),
    "random, seed 1": lambda: random_problem(1),
    "expression": lambda: task_from({"regex": "(ab|ba)*"}),  # type: ignore[dict-item, return-value]
}


def by_enumeration(task: WordProblem, length: int, last: int, window: int) -> tuple[float, float]:
    """The accuracies without and with the position, over all words."""
    masses: dict[tuple[int, ...], float] = {}
    for word in words_of(range(task.vocabulary_size), repeat=length):
        probability, state = 1.0, task.initial_state
        for token in word:
            allowed = [a for a in range(task.vocabulary_size) if task.table[state, a] not in task.avoid]
            easy = (token in task.easy_tokens) / max(len(task.easy_tokens), 1)
            hard = (token in allowed) / len(allowed)
            probability *= task.hard_fraction * hard + (1 - task.hard_fraction) * easy
            state = int(task.table[state, token])
            if not probability:
                break
        if probability:
            masses[word] = probability
    blind: defaultdict[object, Counter[int]] = defaultdict(Counter)
    placed: defaultdict[object, Counter[int]] = defaultdict(Counter)
    for word, probability in masses.items():
        states = task.states(word)
        for end in range(length - last + 1, length + 1):
            suffix = word[max(0, end - window) : end]
            for shares in (blind[suffix], placed[suffix, end]):
                shares[int(states[end - 1])] += probability / last  # type: ignore[assignment]
    one, other = (sum(max(shares.values()) for shares in found.values()) for found in (blind, placed))
    return one, other


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("length", "last"), [(5, 2), (4, 4)])
def test_accuracies_are_those_of_all_words(name: str, length: int, last: int) -> None:
    task = PROBLEMS[name]()
    result = shortcut_audit(task, length, last=last, windows=range(length + 2))
    for entry in result.windows:
        blind, placed = by_enumeration(task, length, last, entry.window)
        # vectors are merged when they agree to 1e-10: at most 16 states times 6 tokens of that
        assert entry.accuracy == pytest.approx(blind, abs=1e-8)
        assert entry.with_position == pytest.approx(placed, abs=1e-8)
        assert entry.is_exact
    assert result.method == "Exact."
    assert result.majority == pytest.approx(result.windows[0].accuracy, abs=1e-12)


@pytest.mark.parametrize("name", ["Z60", "S3"])
def test_no_window_tells_a_product_of_uniform_elements(name: str) -> None:
    task = make_task(name)
    result = shortcut_audit(task, 64)  # 22 tokens at least lie before every window
    assert {entry.window for entry in result.windows} == {0, 1, 2, 4, 8, 16, 32}
    for entry in result.windows:
        assert entry.accuracy == pytest.approx(1 / task.state_count, abs=1e-8)
    assert result.ceiling is not None
    assert result.ceiling.accuracy == 1


def test_the_position_tells_the_sign_of_a_product_of_swaps() -> None:
    result = shortcut_audit(make_task("S5-transpositions"), 64, windows=[0, 4])
    assert result.majority == pytest.approx(1 / 120, abs=1e-8)
    assert result.position_only == pytest.approx(1 / 60, abs=1e-8)
    assert result.windows[1].with_position == pytest.approx(1 / 60, abs=1e-8)


@pytest.mark.parametrize("name", ["dyck-2-3", "random, seed 0", "S3 transpositions"])
def test_estimates_are_near_the_exact_figures(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = PROBLEMS[name]()
    exact = shortcut_audit(task, 20, windows=[1, 3, 6])
    monkeypatch.setattr(audit, "_LARGEST_WORK", 0)
    sampled = shortcut_audit(task, 20, windows=[1, 3, 6], sequences=1000)
    assert "sampled" in sampled.method
    for estimate, truth in zip(sampled.windows, exact.windows, strict=True):
        assert not estimate.is_exact
        # five standard errors, and rounding where every word is answered alike
        assert abs(estimate.accuracy - truth.accuracy) < 5 * estimate.standard_error + 1e-8
        assert estimate.with_position is not None
        assert truth.with_position is not None
        assert abs(estimate.with_position - truth.with_position) < 5 * estimate.standard_error + 0.02


def test_tables_for_other_tasks_come_near_the_truth_from_below() -> None:
    # a full reveal every time and no noise: the value repeats what the last reveal and the ones since say
    task = task_from(
        {
            "automaton": {
                "states": ["even", "odd"],
                "initial": [1, 0],
                "actions": {"0": [[1, 0], [0, 1]], "1": [[0, 1], [1, 0]]},
                "reveals": {"parity": ["even", "odd"]},
                "reveal_probability": 0.5,
            }
        }
    )
    result = shortcut_audit(task, 40, windows=[1, 8], sequences=4000)
    one, eight = result.windows
    # the token at the end is the reveal that asks: it tells nothing
    assert abs(one.accuracy - 0.5) < 5 * one.standard_error
    # among 7 tokens before it there is a value except with small probability: then the answer is certain
    batch = task.batch(4000, 40, np.random.default_rng(1))
    values = np.isin(batch.tokens, [3, 4])
    rows, columns = np.nonzero(batch.counted[:, 30:])
    seen = np.mean(
        [values[row, 30 + column - 7 : 30 + column].any() for row, column in zip(rows, columns, strict=True)]
    )
    truth = seen + (1 - seen) / 2
    assert truth - 0.02 < eight.accuracy < truth + 5 * eight.standard_error
    assert eight.with_position is None
    assert result.ceiling is not None
    assert result.ceiling.accuracy == pytest.approx(1)


class Documents(Task):
    """Documents of x's behind a beginning; the number of them, modulo 2, is asked after each token."""

    name, description = "documents", "the number of tokens of a document, modulo 2"
    token_names, target_names = ("<begin>", "x"), ("even", "odd")
    document_token = 0

    def batch(self, batch_size: int, length: int, rng: np.random.Generator, start: object = None) -> Batch:
        tokens = rng.integers(0, 2, (batch_size, length))
        places = np.arange(length)
        since = places - np.maximum.accumulate(np.where(tokens == 0, places, 0), axis=1)
        return Batch(tokens, since % 2, np.ones(tokens.shape, np.float32))


@pytest.mark.parametrize(
    ("task", "share"),
    [
        (Documents(), 1),  # counted from the last beginning
        (make_task("parity"), 1 / 2),
        (ReplLanguage(3, predict="values"), 1 / 3),
    ],
    ids=["documents", "parity", "sessions"],
)
def test_the_number_of_tokens_alone_is_measured_for_every_task(task: Task, share: float) -> None:
    result = shortcut_audit(task, 128, last=64, windows=[1], sequences=500)
    assert result.position_only == pytest.approx(share, abs=0.08)


def test_a_task_with_one_answer_is_known_without_a_token_and_some_window_is_asked() -> None:
    result = shortcut_audit(WordProblem([[0]], 0, "a", ["q"]), 5, windows=[0, 3])
    assert [entry.accuracy for entry in result.windows] == [1, 1]
    with pytest.raises(InputError, match="windows"):
        shortcut_audit(make_task("parity"), 8, windows=[])


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], ["task", "--help"]),
        (["parity", "--length", "0"], ["length is 0"]),
        (["parity", "--length", "long"], ["--length", "'long'"]),
        (["parity", "--last", "0"], ["last is 0"]),
        (["parity", "--windows", "-1"], ["windows holds -1"]),
        (["parity", "--sequences", "0"], ["sequences is 0"]),
        (["parity", "--seed", "-1"], ["seed is -1"]),
        (["parity", "--hard-fraction", "2"], ["hard_fraction is 2.0"]),
        (["parity", "--lenght", "9"], ["--lenght"]),
        (["file:no.json"], ["no.json"]),
        (["repl-3-reveals", "--length", "5"], ["asks nothing"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    argv: list[str], words: list[str], refuses: Refuses, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = refuses(command, argv)
    assert all(word in sentence for word in words), sentence
    assert main(argv) == 2
    assert capsys.readouterr().err == sentence


@pytest.mark.parametrize(("task", "told"), [("regex:a(a|b)*b", True), ("dyck-4", False), ("parity", False)])
def test_states_that_sequences_never_enter_are_told(
    task: str, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    command([task, "--length", "4"])
    assert ("never enter 1 of 4 states (q2), by default those" in capsys.readouterr().out) == told
