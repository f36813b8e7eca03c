"""Shortcuts are found where there are some, and the documentation tells those of every task."""

from collections.abc import Callable, Iterator
from dataclasses import astuple
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from implicit.language.harness import (
    TRACKING_TASKS,
    TrackingDocument,
    TrackingTask,
    measured_shortcuts,
    shortcuts,
    tracking_documents,
)

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "evaluation.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["parity", "s3", "a5", "s5", "balls", "repl"])
def test_after_one_step_that_step_tells_the_answer(name: str) -> None:
    found = measured_shortcuts(name, 1, documents=400)
    assert found.at_last == 1
    if name == "s3":  # few enough to be learned from as many
        assert found.last_step == found.any_order == 1


@cache
def pairs_of_the_pages(size: int) -> Callable[[str], int]:
    """The number of tokens of a text under a byte-pair encoding of this documentation."""
    from implicit.language.pretrain.config import Source
    from implicit.language.pretrain.tokens import tokenizer_of

    tokenizer = tokenizer_of(size, Source(files=tuple(map(str, sorted(DOCS.glob("*.md"))))))
    return cache(lambda text: len(tokenizer.encode(text)))


@cache
def pairs_over_spaces(size: int) -> Callable[[str], int]:
    """The number of tokens under an encoding of the tasks' own texts that merges words across spaces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    texts = [found.text for name in TRACKING_TASKS for found in tracking_documents(name, 8, 100, seed=5)]
    tokenizer.train_from_iterator(texts, trainer)
    return cache(lambda text: len(tokenizer.encode(text).ids))


TOLD = {"parity": (900, 400), "ring": (280, 400)}
"""Sizes of both encodings that told once."""
SIZES = zip(TRACKING_TASKS, cycle((280, 900)), cycle((280, 1000, 600)))


# Every task with those that told, else with the sizes of each encoding in turn.
@pytest.mark.parametrize(
    ("name", "pages", "spaces"), [(name, *TOLD.get(name, sizes)) for name, *sizes in SIZES]
)
def test_the_number_of_byte_pairs_tells_nothing(
    name: str, pages: int, spaces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shortcuts, "tracking_documents", cache(tracking_documents))  # drawn once for all
    for encoding in (pairs_of_the_pages(pages), pairs_over_spaces(spaces)):
        found = measured_shortcuts(name, 4, documents=1000, tokens=encoding)
        deviation = (found.chance * (1 - found.chance) / 1000) ** 0.5
        assert abs(found.length_alone - found.chance) < 3.5 * deviation


def test_a_length_that_tells_the_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
        for answer in rng.integers(2, size=count).tolist():
            yield TrackingDocument("word " * (length + answer) + "?", ("no", "yes"), answer, 0, "", ("",), 0)

    monkeypatch.setitem(TRACKING_TASKS, "mine", TrackingTask("told by its length", 2, draw))
    assert measured_shortcuts("mine", 8, documents=100).length_alone == 1


def test_a_ball_stays_where_it_is_in_two_cases_of_five() -> None:
    """Each of two swaps of five balls moves it with 2/5, to each of four places alike: 0.36 + 4 (0.1)²."""
    found = measured_shortcuts("balls", 2, documents=2000)
    assert abs(found.at_first - 0.4) < 0.045  # four standard errors
    assert found.at_first > 0.3


@pytest.mark.parametrize("name", ["balls", "repl"])
def test_the_last_swap_of_two_tells_most_answers(name: str) -> None:
    """It does not name what is asked (3/5), or names a partner that did not move before (2/5 · 3/5)."""
    assert abs(measured_shortcuts(name, 2, documents=2000).at_last - 0.84) < 0.033  # four standard errors


def test_long_documents_have_no_shortcut() -> None:
    for name in ("a5", "s5"):
        found = measured_shortcuts(name, 16, documents=1000)
        for accuracy in (found.majority, found.last_mentioned, found.at_first, found.last_step):
            assert abs(accuracy - found.chance) < 0.051  # four standard errors


@pytest.mark.parametrize(("name", "length"), [("parity", 4), ("ring", 4), ("programs", 4), ("repl", 8)])
def test_the_page_has_what_is_measured(name: str, length: int) -> None:
    found = measured_shortcuts(name, length)
    shares = astuple(found)
    row = f"| tracking_{name} | {length} | {' | '.join(f'{share:.2f}' for share in shares)} |"
    assert row in PAGE
