"""What the last reveal alone tells, against counting all sequences of actions and outcomes."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import pytest

from automata.repl import SessionFormat
from automata.repl.last_reveal import last_reveal_accuracy
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
    chosen: list[list[tuple[int | None, int]]] = [
        [(1, 1)],
        [(1, 2)],
        [(None, 2), (0, 1), (2, 1)],
    ]
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
