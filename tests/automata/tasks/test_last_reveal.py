"""The accuracy from the last reveal alone: all courses, the audit, a table that is really made."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from automata.repl import SessionFormat
from automata.repl.last_reveal import last_reveal_accuracy
from automata.tasks import ReplLanguage, shortcut_audit
from automata.tasks.audit import last_reveal_audit
from tests.refusals import refusals


def counted(form: SessionFormat, places: list[tuple[int | None, int]]) -> float:
    """The accuracy by the weight of every course of a session, for every reveal and every variable asked."""
    points = range(form.variables)
    chance = Fraction(form.probability) if form.hidden else Fraction(1)
    steps = [(images, chance / len(form.permutations)) for images in form.permutations]
    steps.append((tuple(point + 1 for point in points), 1 - chance))
    firsts = {
        "ordered": [tuple(points)],
        "shuffled": list(permutations(points)),
        "repeated": list(product(points, repeat=form.variables)),
    }[form.initial]
    right = Fraction(0)
    for kind in (None, "seen"):
        tables: dict[object, Counter[int]] = {}
        for before, since in places:
            if (before is None) != (kind is None):
                continue
            for first in firsts:
                for course in product(steps, repeat=(before or 0) + since):
                    weight = Fraction(1, len(firsts) * len(places))
                    held, last = first, first
                    for step, (images, share) in enumerate(course):
                        weight *= share
                        held = tuple(held[image - 1] for image in images)
                        last = held if step + 1 == before else last
                    reveals: list[object] = [None] if kind is None else [(i, last[i]) for i in points]
                    if form.reveal == "full" and kind:
                        reveals = [last]
                    for reveal, asked in product(reveals, points):
                        table = tables.setdefault((reveal, asked), Counter())
                        table[held[asked]] += weight / (len(reveals) * form.variables)  # type: ignore[assignment]
        right += sum(max(table.values()) for table in tables.values())
    return float(right)


@pytest.mark.parametrize("initial", ["ordered", "shuffled", "repeated"])
@pytest.mark.parametrize("reveal", ["partial", "assert", "full"])
@pytest.mark.parametrize(
    ("actions", "hidden", "probability"),
    [("swaps", None, 0.5), ("A3", "if", 0.25), (["231", "213"], None, 0.5), (["213", "132"], "choice", 0.5)],
)
def test_the_accuracy_is_that_of_all_courses(
    initial: str, reveal: str, actions: object, hidden: str | None, probability: float
) -> None:
    form = SessionFormat(
        3,
        actions,  # type: ignore[arg-type]
        initial=initial,  # type: ignore[arg-type]
        reveal=reveal,
        hidden=hidden,
        probability=probability,
    )
    chosen: list[list[tuple[int | None, int]]] = [[(1, 1)], [(1, 2)], [(None, 2), (0, 1), (2, 1)]]
    for places in chosen:
        # sums and products of some hundred rounded numbers below 1
        assert last_reveal_accuracy(form, places) == pytest.approx(counted(form, places), abs=1e-12)


def test_a_share_of_hidden_actions_is_one_smaller_probability_of_nothing() -> None:
    shared = SessionFormat(4, hidden="if", probability=0.2, hidden_fraction=0.5)
    alike = SessionFormat(4, hidden="if", probability=0.6)  # half of them always, half with 0.2
    for places in ([(3, 1)], [(2, 4)]):
        assert last_reveal_accuracy(shared, places) == pytest.approx(last_reveal_accuracy(alike, places))


test_bad_input_is_refused = refusals(
    (lambda: last_reveal_accuracy(SessionFormat(3), []), "counts is empty"),
    (lambda: last_reveal_accuracy(SessionFormat(3), [(-1, 2)]), "counts is -1"),
    (
        lambda: last_reveal_accuracy(SessionFormat(7, reveal="full", initial="repeated"), [(2, 2)]),
        "variables is 7",
    ),
)


def test_a_table_on_the_last_reveal_reaches_the_accuracy() -> None:
    task = ReplLanguage(4, 2, predict="values", spacing="random")
    found = last_reveal_audit(task, 100, 100, 1000, np.random.default_rng(0))
    assert found is not None
    assert not found.is_exact
    frequent: defaultdict[object, Counter[str]] = defaultdict(Counter)
    right = []
    for part in range(2):  # made from one half, measured on the other
        sessions = task.sessions(1000, np.random.default_rng(part + 1), 100)
        for number in range(1000):
            trace = sessions.trace(number)
            text = trace.text
            last: object = None
            for begin, end in trace.reveal_spans:  # of one value each
                if len(task.tokenizer.encode(text[:begin])) > 100:
                    break
                name, value = text[text.rfind("\n", 0, begin) + 1], text[begin:end]
                if part == 0:
                    frequent[last, name][value] += 1
                else:
                    right.append(frequent[last, name].most_common(1)[0][0] == value)
                last = name, value
    measured = float(np.mean(right))
    # a table of one half is a little worse than the best: some 3,000 answers, three deviations of 0.008
    assert found.accuracy - 0.03 < measured < found.accuracy + 0.025


def test_fixed_reveals_are_at_known_places() -> None:
    task = ReplLanguage(5, 4, predict="values")
    found = last_reveal_audit(task, 256, 64, 64, np.random.default_rng(0))
    assert found is not None
    assert found.is_exact
    # a round of four swaps and a reveal has 47 tokens, after 25 of the first values; the value is the tenth
    asked = [25 + 47 * number + 36 + 8 for number in range(5)]
    places = [(4 * number, 4) for number, place in enumerate(asked) if 192 <= place < 256]
    assert len(places) == 1
    assert found.accuracy == pytest.approx(last_reveal_accuracy(task.form, places), rel=1e-12)


def test_what_is_not_known_is_left_out() -> None:
    task = ReplLanguage(7, predict="values", reveal="full", initial="repeated")
    assert last_reveal_audit(task, 256, 256, 8, np.random.default_rng(0)) is None
    assert last_reveal_audit(ReplLanguage(3), 20, 10, 8, np.random.default_rng(0)) is None


def test_where_reveals_stand_tells_of_actions_that_differ_in_tokens() -> None:
    """A window on two tokens tells a = a from a rotation, which the numbers of actions do not."""
    task = ReplLanguage(3, 4, predict="values", actions=["123", "231"])
    audit = shortcut_audit(task, 128, last=8, windows=[2], sequences=1000)
    # m of four actions are rotations with C(4, m) / 16: they turn the value by 0, 1, 2 with 5, 5, 6 of 16
    assert audit.windows[0].accuracy > 6 / 16 + 10 * audit.windows[0].standard_error
    assert audit.last_reveal is None
    mixed = ReplLanguage(3, predict="values", hidden="if", hidden_fraction=0.5)
    whole = ReplLanguage(3, predict="values", actions=["123", "231"], assignment="whole")
    assert last_reveal_audit(mixed, 256, 64, 16, np.random.default_rng(0)) is None
    assert last_reveal_audit(whole, 256, 64, 16, np.random.default_rng(0)) is not None


def test_sessions_that_are_counted_whole_tell_nothing_by_their_places() -> None:
    task = ReplLanguage(3, 2, commands=4, predict="values", actions=["123", "231"])
    length = task.longest_session
    rng = np.random.default_rng(0)
    found = last_reveal_audit(task, length, length, 64, rng)
    assert found is not None
    # of the first reveal 1/4, 1/2, 1/4 from the first values; of the second the same from the first reveal
    assert found.accuracy == pytest.approx(0.5, rel=1e-12)
    assert last_reveal_audit(task, length, length - 1, 64, rng) is None
    assert last_reveal_audit(task, length - 1, length - 1, 64, rng) is None
