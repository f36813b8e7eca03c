"""Self-iterations at test: against a loop over the self-map, counts by hand, and the analysis by budget."""

import json
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import torch

from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.visited_states import in_double_precision, sample_sequences
from analysis.length_generalization import analyse
from automata.errors import InputError
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit import Solve, Stopping, load_run
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Point
from paper_figures.measurements.hard_tokens import HardTokenSettings, hard_pairs
from paper_figures.measurements.iterations import (
    MODES,
    BudgetSettings,
    TokenSettings,
    beyond,
    budgets,
    compared,
    counted,
    explained_variance,
    hardest_tokens,
    kinds_of,
    last_tokens,
    states_before,
    token_iterations,
    training_course,
)
from paper_figures.registry import figure_named

SMALL = TokenSettings(tolerances=(1e-2, 1e-4), lengths=(3, 6, 12), sequences=4, swept_sequences=2)


@pytest.fixture(scope="module")
def run() -> Run:
    """S3, in float64, so that a count does not hang on a rounding."""
    stored = load_run("s3")
    return Run(stored.path, stored.config, in_double_precision(stored.model), stored.task, stored.metrics)


@torch.no_grad()
def iterations_by_hand(run: Run, sequence: torch.Tensor, rtol: float) -> list[int]:
    """Damped Picard iteration of the self-map that theory is given, token after token."""
    model = as_implicit(run)
    state = {name: part[0] for name, part in model.init_state(1).items()}
    counts = []
    for token in sequence:
        of_token = model.transition(int(token))
        latent, count = torch.zeros(model.latent_size, dtype=torch.float64), 0
        while True:
            image, count = of_token.self_map(latent, state), count + 1
            if (image - latent).norm() <= rtol * latent.norm():
                break
            latent = (1 - of_token.damping) * latent + of_token.damping * image
        state = of_token.state_update(latent, state)
        counts.append(count)
    return counts


def test_counts_are_those_of_a_loop_over_the_self_map(run: Run) -> None:
    tokens, _ = sample_sequences(word_problem_of(run), 4, 12, 0)
    found = token_iterations(run, SMALL)["tolerances"]
    for rtol in SMALL.tolerances:
        counts = np.array([iterations_by_hand(run, sequence, rtol) for sequence in tokens])
        at = found[f"{rtol:g}"]
        assert at["tokens"]["histogram"] == {
            str(number): int((counts == number).sum()) for number in np.unique(counts)
        }
        for length in SMALL.lengths:
            assert at["sequential"]["iterations"][str(length)] == counts[:, :length].mean()
        assert set(at["sequential"]["share_converged"].values()) == {1.0}
    assert found["0.0001"]["tokens"]["mean"] > found["0.01"]["tokens"]["mean"]


def test_sweeps_of_a_prefix_are_those_of_a_shorter_sequence(run: Run) -> None:
    tokens, _ = sample_sequences(word_problem_of(run), 4, 12, 0)
    found = token_iterations(run, SMALL)["tolerances"]["0.01"]["simultaneous"]
    for length in SMALL.lengths:
        how = Solve("simultaneous", stopping=Stopping(rtol=1e-2, max_iterations=4096))
        with torch.no_grad():
            solution = as_implicit(run).run(tokens[:2, :length], solve=how).solution
        assert solution is not None
        assert found["sweeps"][str(length)] == solution.iterations.amax(dim=1).tolist()


def test_what_does_not_converge_is_told(run: Run) -> None:
    few = SMALL.model_copy(update={"max_iterations": 2, "max_sweeps": 2})
    at = token_iterations(run, few)["tolerances"]["0.0001"]
    assert at["sequential"]["share_converged"] == dict.fromkeys(("3", "6", "12"), 0.0)
    assert at["simultaneous"]["share_converged"]["12"] == 0.0
    assert at["tokens"]["histogram"] == {"2": 48}


def test_auto_is_the_mode_that_a_plain_call_takes(run: Run) -> None:
    found = token_iterations(run, SMALL)["tolerances"]["0.01"]["auto"]
    tokens, _ = sample_sequences(word_problem_of(run), 4, 3, 0)
    with torch.no_grad():
        solutions = {str(count): run.model.run(tokens[:count]).solution for count in (2, 4)}
    assert found == {count: solution.mode for count, solution in solutions.items() if solution is not None}


def test_shares_are_counts_of_tokens() -> None:
    iterations = np.random.default_rng(0).integers(1, 40, size=(7, 30))
    found = counted(iterations, (4, 8, 16, 32))
    listed = sorted(iterations.ravel().tolist())
    for limit, share in found["more_than"].items():
        assert share == float(Fraction(sum(number > int(limit) for number in listed), len(listed)))
    assert found["median"] == (listed[104] + listed[105]) / 2
    assert found["more_than_twice_the_median"] == sum(n > 2 * found["median"] for n in listed) / 210
    assert found["iterations_of_hardest_tenth"] == sum(listed[-21:]) / sum(listed)
    assert sum(found["histogram"].values()) == 210


def test_last_tokens_have_one_number_if_and_only_if_they_are_the_same() -> None:
    tokens = np.random.default_rng(0).integers(3, size=(5, 20))
    numbers = last_tokens(tokens, 3, 3)
    words: dict[tuple[int, ...], set[int]] = {}
    for row, sequence in enumerate(tokens.tolist()):
        for place in range(20):
            words.setdefault(tuple(sequence[max(0, place - 2) : place + 1]), set()).add(
                int(numbers[row, place])
            )
    assert all(len(found) == 1 for found in words.values())
    assert len(set.union(*words.values())) == len(words)


def test_means_of_groups_are_taken_from_the_other_half_of_the_sequences() -> None:
    """Words of seven tokens of S5: a place for all 121 ** 7 numbers would take petabytes."""
    rng = np.random.default_rng(2)
    words = rng.integers(3, size=(8, 30)) * 121**6 + rng.integers(4, size=(8, 30))
    words[0, :2] = 121**7  # which the other half has not
    words[1, 0] = words[6, 0] = -1  # once in each
    values = (words % 7) + rng.normal(size=words.shape)
    left = total = 0.0
    for fit, test in ((slice(4), slice(4, 8)), (slice(4, 8), slice(4))):
        overall = values[fit].mean()
        for word, value in zip(words[test].flat, values[test].flat, strict=True):
            known = values[fit][words[fit] == word]
            left += (value - (known.mean() if known.size else overall)) ** 2
            total += (value - overall) ** 2
    # Sums of 240 numbers below 100 in another order.
    assert explained_variance(values, words) == pytest.approx(1 - left / total, abs=1e-12)
    assert explained_variance(np.full((4, 3), 5), np.zeros((4, 3), int)) is None  # nothing varies


def test_state_and_token_explain_what_they_decide_and_the_token_does_not() -> None:
    """On S3, iterations that the state before decides: by hand, at more iterations after a right answer."""
    task = make_task("S3")
    tokens, labels = task.sample(batch=40, length=50, rng=np.random.default_rng(0))
    before = states_before(labels, task.start())
    iterations = 5 + 3 * ((before + tokens) % 2)
    answers = labels.copy()
    answers[:, 10:] = (labels[:, 10:] + 1) % 6
    kinds = kinds_of(tokens, labels, answers, task, 4)
    found = compared(iterations, kinds, labels, answers, task.start())
    explained = {kind: share["variance"] for kind, share in found["explained"].items()}
    assert explained["state before and token"] == 1.0
    assert explained["state answered before and token"] is not None
    assert explained["state answered before and token"] < 0.99  # the answers are others than the states
    for kind in ("token", "position", "state before", "state changes or not"):
        assert explained[kind] is not None
        assert abs(explained[kind]) < 0.1  # 50 positions foretell noise from 20 sequences: -5%
    assert found["explained"]["state before and token"]["groups"] == 36
    means = found["means"]
    assert means["answered wrongly"] == iterations[:, 10:].mean()
    assert means["answered rightly"] == iterations[:, :10].mean()
    assert means["positions 1 to 1"] == iterations[:, 0].mean()
    assert means["positions 33 to 50"] == iterations[:, 32:].mean()
    assert means["state stays"] == iterations[labels == before].mean()


def test_the_hardest_are_described_token_by_token() -> None:
    task, rng = make_task("S3"), np.random.default_rng(1)
    tokens, labels = task.sample(batch=9, length=11, rng=rng)
    iterations, answers = rng.geometric(0.15, size=(9, 11)), rng.integers(6, size=(9, 11))
    found = beyond(iterations, kinds_of(tokens, labels, answers, task, 4), answers == labels, (8, 16, 64))
    assert list(found) == ["8", "16", "64", "twice the median"]
    for name, limit in (("8", 8), ("16", 16), ("twice the median", 2 * np.median(iterations))):
        listed = []
        for row in range(9):
            state = task.start()
            for place, token in enumerate(tokens[row]):
                following = int(labels[row, place])
                if iterations[row, place] > limit:
                    wrong = answers[row, place] != following
                    listed.append(((state, int(token)), place == 0, following != state, wrong))
                state = following
        assert found[name]["tokens"] == len(listed) > 0
        assert found[name]["pairs"] == len({pair for pair, *_ in listed})
        for what, column in (("first", 1), ("change", 2), ("wrongly", 3)):
            share = sum(bool(token[column]) for token in listed) / len(listed)
            assert found[name][what] == pytest.approx(share, abs=1e-15)
    assert found["64"] == {"tokens": 0, "pairs": 0, "first": None, "change": None, "wrongly": None}


def test_the_hardest_are_those_of_the_counts_and_the_first_token_is_left_out(run: Run) -> None:
    counts, hardest = token_iterations(run, SMALL)["tolerances"], hardest_tokens(run, SMALL)["hardest"]
    for tolerance, found in hardest.items():
        of_counts = counts[tolerance]["tokens"]
        for limit, share in of_counts["more_than"].items():
            assert found["beyond"][limit]["tokens"] == share * 48
        assert found["explained"]["position"]["groups"] == 11
        assert of_counts["explained"]["position"]["groups"] == 12


def test_only_the_free_phase_tells_what_a_tolerance_takes() -> None:
    """Plain JSON: 500 updates through four unrolled self-iterations, then 1,000 free; recorded every 100."""
    stored = load_run("parity-deltanet")
    lines = [json.loads(line) for line in (stored.path / "metrics.jsonl").read_text().splitlines()]
    recorded = {line["step"]: line["mean_iterations"] for line in lines}
    assert [recorded[step] for step in range(100, 501, 100)] == [4.0] * 5
    course = {entry["step"]: entry["iterations"] for entry in training_course(stored)}
    assert course == {step: recorded[step] for step in range(600, 1501, 100)}


def test_accuracy_by_budget_is_the_analysis_with_that_limit(untrained: Callable[[Point], Run]) -> None:
    settings = BudgetSettings(budgets=(1, 6), length=6, sequences=4)
    run = untrained(figure_named("iterations_at_test").experiment.points[0])
    found = budgets(run, settings)
    for mode in MODES:
        for budget in (1, 6):
            limit = analyse(run, lengths=(6,), sequences=4, mode=mode, rtol=1e-3, max_iterations=budget)
            (expected,) = limit.numbers().values()
            for name in ("accuracy", "share_converged"):
                assert found[mode][name][str(budget)] == expected[name][6]
    assert 0 < found["sequential"]["share_converged"]["6"] < 1


def test_a_task_that_does_not_ask_for_its_state_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WordProblem, "output_size", property(lambda self: 2))
    for measure in (lambda: token_iterations(run, SMALL), lambda: hard_pairs(run, HardTokenSettings())):
        with pytest.raises(InputError, match="does not ask for its state"):
            measure()
