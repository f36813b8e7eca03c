"""The accuracy that shortcuts reach in a task of state tracking, without tracking a state."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

from implicit.language.harness.catalogue import LENGTHS, TRACKING_TASKS, TrackingDocument, tracking_documents

DRAWN = 2000
"""Documents that a shortcut is measured on; as many others are there to learn from."""


@dataclass(frozen=True)
class Shortcuts:
    """The accuracy of answers that track nothing.

    Attributes:
        chance: one in the number of choices.
        majority: of the answer that was most frequent in other documents.
        last_mentioned: of the choice that is mentioned last in the text, the question included.
        at_first: of what would be right if nothing had been moved.
        at_last: of what would be right if only the last step that moves what is asked had been done.
        last_step: of the most frequent answer in other documents with the same last step and question.
        any_order: of the most frequent answer in other documents with the same steps, in whichever order, the
            same question, and the same answer at first.
        length_alone: of the most frequent answer in other documents with the same number of tokens.

    Example:
        >>> found = measured_shortcuts("parity", 4, documents=500)
        >>> found.chance, 0.4 < found.majority < 0.6
        (0.5, True)
    """

    chance: float
    majority: float
    last_mentioned: float
    at_first: float
    at_last: float
    last_step: float
    any_order: float
    length_alone: float


def last_mentioned(document: TrackingDocument) -> int | None:
    """Return the number of the choice that the text mentions last as a word; None if it mentions none."""
    words = re.findall(r"\w+", document.text)
    for word in reversed(words):
        if word in document.choices:
            return document.choices.index(word)
    return None


def _bytes(text: str) -> int:
    return len(text.encode())


def measured_shortcuts(
    name: str, length: int, documents: int = DRAWN, seed: int = 0, tokens: Callable[[str], int] = _bytes
) -> Shortcuts:
    """Measure what shortcuts reach in a task; the standard error of each is at most 0.5/√documents.

    As many documents are there to learn from, drawn with the seed; those measured on have the next.
    InputError as for `tracking_documents`.
    """
    learned, tested = (tracking_documents(name, length, documents, at) for at in (seed, seed + 1))
    most_frequent = Counter(document.answer for document in learned).most_common(1)[0][0]

    def best_on(key: Callable[[TrackingDocument], object]) -> float:
        after: dict[object, Counter[int]] = defaultdict(Counter)
        for document in learned:
            after[key(document)][document.answer] += 1
        known = [after.get(key(document)) for document in tested]
        answers = [most_frequent if found is None else found.most_common(1)[0][0] for found in known]
        return _accuracy(tested, answers)

    return Shortcuts(
        1 / TRACKING_TASKS[name].choices,
        _accuracy(tested, [most_frequent] * documents),
        _accuracy(tested, [last_mentioned(document) for document in tested]),
        _accuracy(tested, [document.at_first for document in tested]),
        _accuracy(tested, [document.at_last for document in tested]),
        best_on(lambda document: (document.steps[-1], document.asked)),
        best_on(lambda document: (*sorted(document.steps), document.asked, document.at_first)),
        best_on(lambda document: tokens(document.text)),
    )


def _accuracy(documents: Sequence[TrackingDocument], answers: Sequence[int | None]) -> float:
    right = sum(document.answer == answer for document, answer in zip(documents, answers, strict=True))
    return right / len(documents)


def shortcut_table(documents: int = DRAWN, seed: int = 0, tokens: Callable[[str], int] = _bytes) -> str:
    """Return the shortcuts of all tasks and lengths as a table in Markdown.

    Arguments are those of `measured_shortcuts`.
    """
    lines = [
        "| task | length | chance | majority | last mentioned | at first | at last | last step | any order | "
        "length alone |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in TRACKING_TASKS:
        for length in LENGTHS:
            found = measured_shortcuts(name, length, documents, seed, tokens)
            cells = " | ".join(f"{share:.2f}" for share in astuple(found))
            lines.append(f"| tracking_{name} | {length} | {cells} |")
    return "\n".join(lines)
