"""Word problems in plain words: a lamp that is switched, a cat that walks in a circle, friends who line up.

| task   | token                        | sentence                                                    |
|--------|------------------------------|-------------------------------------------------------------|
| parity | 1, 0                         | the switch is pressed, the switch is left alone             |
| ring   | right, left, stay            | the cat goes on clockwise, counterclockwise, stays          |
| line   | a permutation σ of 1 … n     | new order: σ(1)th, σ(2)th, …: who was σ(i)th is i-th now    |

A permutation is read as everywhere in this toolkit, ``state_t[i] = state_{t-1}[σ_t[i]]``, so that the line of
friends is the product in S_n. All n! arrangements have to be told apart, since any two differ in the place
that may be asked; the question comes last, and is about one place drawn uniformly.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np

from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.language.harness.documents import TrackingDocument

FRIENDS = ("Anna", "Carl", "Emma", "Fred", "Jane")
HOUSES = ("gold", "blue", "gray", "pink", "navy")
"""Four letters each, one token of GPT-2 and of GPT-NeoX after a space: no choice is longer than another."""
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")
_ORDERS = "Each new order tells who of the line so far comes first, who second, and so on."
_LAMP = {"0": "The switch is left alone.", "1": "The switch is pressed."}
_CAT = {
    "stay": "The cat stays.",
    "left": "The cat goes to the next house counterclockwise.",
    "right": "The cat goes to the next house clockwise.",
}


def parity_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield lamps that are switched: parity, answered with "off" or "on".

    Args:
        length: sentences that may move something.
        count: documents.
        rng: the source of randomness.

    Example:
        >>> document = next(parity_documents(2, 1, np.random.default_rng(0)))
        >>> print(document.text, document.choices[document.answer])
        The lamp is off.
        The switch is pressed.
        The switch is pressed.
        Is the lamp on or off?
        Answer: off
    """
    for steps, state in _words("parity", length, count, rng):
        sentences = [_LAMP[step] for step in steps]
        text = "\n".join(["The lamp is off.", *sentences, "Is the lamp on or off?", "Answer:"])
        yield TrackingDocument(text, ("off", "on"), int(state), 0, sentences[-1])


def ring_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield walks in a circle of five houses: sums modulo 5, answered with the colour of a house.

    Arguments are those of `parity_documents`.

    Example:
        >>> document = next(ring_documents(2, 1, np.random.default_rng(0)))
        >>> print(document.text, document.choices[document.answer])
        Five houses stand in a circle, clockwise: gold, blue, gray, pink, navy. A cat is at the gold house.
        The cat goes to the next house clockwise.
        The cat goes to the next house counterclockwise.
        Which house is the cat at?
        Answer: gold
    """
    first = (
        f"Five houses stand in a circle, clockwise: {', '.join(HOUSES)}. A cat is at the {HOUSES[0]} house."
    )
    for steps, state in _words("cyclic-navigation", length, count, rng):
        sentences = [_CAT[step] for step in steps]
        text = "\n".join([first, *sentences, "Which house is the cat at?", "Answer:"])
        yield TrackingDocument(text, HOUSES, int(state), 0, sentences[-1])


def line_documents(
    group: str, length: int, count: int, rng: np.random.Generator
) -> Iterator[TrackingDocument]:
    """Yield lines of friends who line up anew: permutations, answered with the name of a friend.

    Args:
        group: a registered task of permutations of at most five, all of which are tokens, such as ``"S5"``.
        length: new orders, each drawn uniformly from the group.
        count: documents.
        rng: the source of randomness.

    Example:
        >>> document = next(line_documents("S3", 2, 1, np.random.default_rng(0)))
        >>> print(document.text, document.choices[document.answer])
        Anna, Carl and Emma stand in a line, in this order. Each new order tells who of the line so far ...
        New order: 3rd, 2nd, 1st.
        New order: 2nd, 3rd, 1st.
        Who is 2nd in the line?
        Answer: Anna
    """
    degree = len(_problem(group).state_names[0])
    friends = FRIENDS[:degree]
    first = f"{', '.join(friends[:-1])} and {friends[-1]} stand in a line, in this order. {_ORDERS}"
    for steps, state in _words(group, length, count, rng):
        orders = [f"New order: {', '.join(_ORDINALS[int(image) - 1] for image in step)}." for step in steps]
        place = int(rng.integers(degree))
        question = f"Who is {_ORDINALS[place]} in the line?"
        answer = int(_problem(group).state_names[state][place]) - 1
        text = "\n".join([first, *orders, question, "Answer:"])
        yield TrackingDocument(text, friends, answer, place, f"{orders[-1]} {question}")


def _words(task: str, length: int, count: int, rng: np.random.Generator) -> Iterator[tuple[list[str], int]]:
    """Random words of a word problem: the names of their tokens, and the number of the last state."""
    problem = _problem(task)
    tokens, states = problem.sample(count, length, rng)
    for row, state in zip(tokens.tolist(), states[:, -1].tolist(), strict=True):
        yield [problem.token_names[token] for token in row], state


@cache
def _problem(task: str) -> WordProblem:
    problem = make_task(task)
    assert isinstance(problem, WordProblem)
    return problem
