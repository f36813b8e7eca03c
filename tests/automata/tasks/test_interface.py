"""The contract of every task, on registered ones of each kind and on one of each other kind."""

import numpy as np
import pytest

from automata.errors import InputError
from automata.tasks.interface import Batch, Task
from automata.tasks.specification import TaskSource, task_from
from automata.tasks.text_file import TextFile
from tests.refusals import refused_changes

SOURCES: dict[str, TaskSource] = {
    "regex": {"regex": "(ab|ba)*"},
    "hard S5": {"name": "S5", "hard_fraction": 0.25},
    "repl of three swaps": {"repl": {"commands": 3, "reveal_every": 2}},
    "three swaps of places": {"balls": {"balls": 12, "swaps": 3, "swapped": "place", "predict": "all"}},
    "programs": {"program": {"statements": 2, "variables": 2, "modulus": 3, "reversible": True}},
    "recognition": {"recognition": "(ab)*|c", "name": "short"},
    "arithmetic": {"arithmetic": {"modulus": 3, "depth": 1}},
}
KINDS = [
    *("S3", "A5-generatorsxM", "dyck-4", "connectivity", "matrices-3-mod-5", "dyck-4-recognition"),
    *("modular-arithmetic-brackets", "likely-swaps-3-reveals", "lazy-swaps-3-states"),
    *("repl-3-random", "repl-3-hidden", "repl-5-end", "swap-balls-3", "swap-balls-5-all"),
    *("reversible-programs", "small-programs-all"),
    *(*SOURCES, "text"),
]
TEXTS = [
    *("repl-3-random", "repl of three swaps", "swap-balls-5-all", "three swaps of places"),
    *("small-programs-all", "text"),
]
"""Those that ask for every next token."""


@pytest.fixture(params=KINDS, scope="module")
def task(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Task:
    if request.param == "text":
        file = tmp_path_factory.mktemp("text") / "text.txt"
        file.write_text("to be or not to be, that is the question: " * 30)
        return TextFile(file)
    return task_from(SOURCES.get(request.param, request.param))


def assert_same(one: Batch, other: Batch) -> None:
    for field in ("tokens", "targets", "weights"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


LENGTH = 100
"""Tokens; the first reveal of sessions with one after every 8 swaps is asked at the 97th."""


def test_batches_have_their_shapes_ranges_and_padding(task: Task) -> None:
    batch = task.batch(5, LENGTH, np.random.default_rng(0))
    assert batch.tokens.shape == batch.targets.shape == batch.weights.shape == (5, LENGTH)
    dtypes = [str(part.dtype) for part in (batch.tokens, batch.targets, batch.weights)]
    assert dtypes == ["int64", "int64", "float32"]
    assert 0 <= batch.tokens.min() <= batch.tokens.max() < task.vocabulary_size
    assert 0 <= batch.targets.min() <= batch.targets.max() < task.output_size
    assert batch.counted.any()
    assert (batch.weights >= 0).all()
    if batch.lengths is not None:
        padding = np.arange(LENGTH) >= batch.lengths[:, None]
        assert 1 <= batch.lengths.min() <= batch.lengths.max() <= LENGTH
        assert not any(part[padding].any() for part in (batch.tokens, batch.targets, batch.weights))


@pytest.mark.parametrize("task", TEXTS, indirect=True)
def test_targets_of_texts_are_the_next_tokens(task: Task) -> None:
    batch = task.batch(6, LENGTH, np.random.default_rng(0))
    lengths = np.full(6, LENGTH) if batch.lengths is None else batch.lengths
    np.testing.assert_array_equal(batch.counted, np.arange(LENGTH) < lengths[:, None])
    for tokens, targets, length in zip(batch.tokens, batch.targets, lengths, strict=True):
        np.testing.assert_array_equal(targets[: length - 1], tokens[1:length])
        assert length == LENGTH or targets[length - 1] == 0


def test_a_batch_is_determined_by_its_generator(task: Task) -> None:
    first, again, other = (task.batch(4, 60, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert_same(first, again)
    assert (first.tokens != other.tokens).any()


def test_sequences_go_on_or_say_that_they_do_not(task: Task) -> None:
    batch = task.batch(3, 20, np.random.default_rng(0))
    assert (batch.end is not None) == task.continues
    if batch.end is not None:
        assert batch.end.shape == (3,)
        task.batch(3, 9, np.random.default_rng(1), start=batch.end)
        plain = task.batch(3, 30, np.random.default_rng(5))
        begun = task.batch(3, 30, np.random.default_rng(5), start=[task.start()] * 3)
        assert_same(plain, begun)
        for wrong in ([0, 0], [-2, 0, 0], [0, 0, 10**9]):
            with pytest.raises(InputError, match="start holds"):
                task.batch(3, 9, np.random.default_rng(1), start=wrong)
    else:
        with pytest.raises(InputError, match="cannot go on"):
            task.batch(3, 9, np.random.default_rng(1), start=[0, 0, 0])
        with pytest.raises(InputError, match="cannot go on"):
            task.start()


def test_names_descriptions_and_the_machine_are_those_of_the_batches(task: Task) -> None:
    assert task.name
    assert task.description
    assert len(set(task.token_names)) == len(task.token_names) == task.vocabulary_size
    assert len(set(task.target_names)) == len(task.target_names) == task.output_size
    if (machine := task.machine()) is not None:
        batch = task.batch(8, 50, np.random.default_rng(0))
        asked = batch.counted  # what is not asked has the target 0
        np.testing.assert_array_equal(machine.read(batch.tokens)[asked], batch.targets[asked])


def test_the_specification_rebuilds_the_task(task: Task) -> None:
    again = task_from(task.specification())
    assert (again.name, again.description) == (task.name, task.description)
    assert (again.token_names, again.target_names) == (task.token_names, task.target_names)
    assert again.specification() == task.specification()
    assert_same(*(one.batch(3, 40, np.random.default_rng(2)) for one in (task, again)))


@pytest.mark.parametrize("last", [None, 7])
def test_the_shares_of_the_targets_are_those_of_a_sample(task: Task, last: int | None) -> None:
    length, sequences = 60, 2000 if task.machine() else 500
    batch = task.batch(sequences, length, np.random.default_rng(10))
    counted = batch.counted & (np.arange(length) >= (0 if last is None else length - last))
    counts = ((batch.targets[..., None] == np.arange(task.output_size)) & counted[..., None]).sum(axis=1)
    if not counted.any():
        with pytest.raises(InputError, match="asks nothing in 9 such sequences"):
            task.majority_baseline(length, last=last, sequences=9)
        return
    sampled = counts.sum(axis=0) / counts.sum()
    shares = task.target_shares(length, last)
    baseline = task.majority_baseline(length, last=last, sequences=sequences, rng=np.random.default_rng(9))
    # sequences are independent, their targets are not: the error of a ratio of sums over sequences
    residuals = counts - sampled * counts.sum(axis=1, keepdims=True)
    errors = np.sqrt((residuals**2).sum(axis=0)) / counts.sum()
    if shares is None:
        assert abs(baseline - sampled.max()) < 5 * np.sqrt(2) * errors.max()  # both are sampled
    else:
        assert shares.shape == (task.output_size,)
        assert shares.sum() == pytest.approx(1)
        assert baseline == shares.max()
        # five deviations, and rounding; a target met five times at most has a share of 20 sightings at most
        few = (counts.sum(axis=0) <= 5) * 20 / counts.sum()
        assert (np.abs(shares - sampled) <= 5 * errors + few + 1e-12).all()


def test_empty_batches_are_refused(task: Task) -> None:
    with pytest.raises(InputError, match="batch_size is 0"):
        task.batch(0, 5, np.random.default_rng(0))
    with pytest.raises(InputError, match="length is 0"):
        task.batch(5, 0, np.random.default_rng(0))
    with pytest.raises(InputError, match="last is 0"):
        task.majority_baseline(5, last=0)
    with pytest.raises(InputError, match="part 'tset' is unknown"):
        task.part("tset")  # type: ignore[arg-type]


test_batches_that_do_not_fit_together_are_refused = refused_changes(
    Batch,
    {name: np.zeros((2, 3), np.int64) for name in ("tokens", "targets", "weights")},
    ({"tokens": np.zeros(3, np.int64)}, "tokens has shape"),
    ({"targets": np.zeros((2, 4), np.int64)}, "targets has shape"),
    ({"weights": np.zeros((3, 3), np.float32)}, "weights has shape"),
    ({"lengths": np.zeros(3, np.int64)}, "lengths has shape"),
    ({"end": np.zeros((2, 1), np.int64)}, "end has shape"),
    ({"weights": np.full((2, 3), np.nan)}, "weights has entries that are negative or not finite"),
    ({"lengths": np.array([3, 4])}, "lengths has entries outside of 1 … 3"),
    ({"weights": np.ones((2, 3)), "lengths": np.array([3, 2])}, "weights has entries above 0 behind the end"),
)
