"""The puzzle of the swapped balls: "swap ball 1 and 3, swap ball 3 and 5. Where does ball 5 end up?".

Balls 1 … n lie at the places 1 … n, ball i at place i. Two readings of a swap differ, and the words tell them
apart:

- ``"ball"``, as the puzzle is usually put: "swap ball 1 and 3" exchanges the *balls* with the numbers 1 and
  3, wherever they lie. With p the place of every ball it is ``p[1], p[3] = p[3], p[1]``: the balls are the
  variables of a session of Python, and the places their values.
- ``"place"``: "swap place 1 and 3" exchanges whatever balls lie at the *places* 1 and 3. With c the ball at
  every place it is ``c[1], c[3] = c[3], c[1]``.

In both the answer is a place, that of the ball asked for. With τ_t the t-th swap as a permutation of the
numbers, ball b ends up at τ_1(τ_2(… τ_k(b))) in the first reading and at τ_k(… τ_2(τ_1(b))) in the second:
the one is the other with the swaps in reverse order. Either way the question comes last, so that who reads
from the left has to tell n! arrangements apart: any two differ in the place of some ball, which may be asked.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal, get_args

import numpy as np

from automata.checks import check_integer, check_memory, check_type, checked, shown
from automata.errors import InputError, unknown_name
from automata.monoids.cayley import IntArray
from automata.phrases import PhraseTokenizer

Swapped = Literal["ball", "place"]
"""The things that the numbers of a swap name."""

MOST_BALLS = 99


@dataclass(frozen=True)
class BallPuzzle:
    """A puzzle: what is swapped, and which ball is asked for.

    InputError if a number is out of its range, or a pair holds one number twice.

    Attributes:
        balls: their number n.
        swaps: pairs of different numbers in 1 … n, in the order of the text.
        asked: the ball whose place is asked for.
        swapped: whether the pairs name balls or places.

    Example:
        >>> puzzle = BallPuzzle(5, ((1, 3), (3, 5), (4, 2)), asked=5)
        >>> puzzle.text
        'swap ball 1 and 3, swap ball 3 and 5, swap ball 4 and 2. Where does ball 5 end up? 1'
    """

    balls: int
    swaps: tuple[tuple[int, int], ...]
    asked: int
    swapped: Swapped = "ball"

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_balls(self.balls)
        check_swapped(self.swapped)
        check_integer("asked", self.asked, 1, self.balls)
        check_type("swaps", self.swaps, (tuple, list), "give pairs such as ((1, 3), (3, 5))")
        for pair in self.swaps:
            numbers = [check_integer("swaps", n) for n in pair] if isinstance(pair, tuple | list) else []
            if len(set(numbers)) != 2 or len(numbers) != 2 or not set(numbers) <= set(self.numbers):
                raise InputError(
                    f"swaps holds {shown(pair)}; give pairs of different numbers in 1 … {self.balls}"
                )

    @property
    def numbers(self) -> range:
        """The numbers of the balls, and of the places."""
        return range(1, self.balls + 1)

    @property
    def question(self) -> str:
        """The text up to where the answer stands."""
        swaps = ", ".join(f"swap {self.swapped} {first} and {second}" for first, second in self.swaps)
        return f"{swaps + '. ' if swaps else ''}Where does ball {self.asked} end up? "

    @property
    def text(self) -> str:
        """The question with its answer."""
        return f"{self.question}{self.answer}"

    @property
    def answer(self) -> int:
        """The place where the ball asked for ends up."""
        pairs = np.array([self.swaps], dtype=np.int64).reshape(1, -1, 2)
        lengths = np.array([len(self.swaps)])
        return int(final_places(pairs, lengths, np.array([self.asked]), self.swapped)[0])

    @property
    def source(self) -> str:
        """The puzzle as a Python program that prints the answer."""
        lies = ", ".join(f"{number}: {number}" for number in self.numbers)
        table = "place" if self.swapped == "ball" else "ball"
        lines = [f"{table} = {{{lies}}}"]
        lines += [f"{table}[{i}], {table}[{j}] = {table}[{j}], {table}[{i}]" for i, j in self.swaps]
        if self.swapped == "ball":
            lines.append(f"print(place[{self.asked}])")
        else:
            lines.append(f"print(next(place for place in ball if ball[place] == {self.asked}))")
        return "\n".join(lines)


def check_balls(balls: int) -> None:
    """Raise InputError unless the number is in 2 … 99."""
    check_integer("balls", balls, 2, MOST_BALLS)


@checked
def check_swapped(swapped: str) -> None:
    """Raise InputError unless it is ``"ball"`` or ``"place"``."""
    if swapped not in get_args(Swapped):
        raise unknown_name("swapped", str(swapped), get_args(Swapped))


def ball_tokenizer(balls: int, swapped: Swapped = "ball") -> PhraseTokenizer:
    """Return the tokens of the puzzles: five phrases, then the numbers.

    A swap is five tokens ("swap ball ", a number, " and ", a number, and ", " or what begins the question),
    and the rest three: the ball, " end up? " and the answer. InputError if the number of balls is not in 2 …
    99, or ``swapped`` is unknown.

    Example:
        >>> ball_tokenizer(3).names
        ('<end>', 'swap ball ', ' and ', ', ', '. Where does ball ', ' end up? ', '1', '2', '3')
    """
    check_balls(balls)
    check_swapped(swapped)
    phrases = [f"swap {swapped} ", " and ", ", ", ". Where does ball ", " end up? "]
    return PhraseTokenizer([*phrases, *map(str, range(1, balls + 1))])


def sample_swaps(balls: int, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    """Draw swaps, each uniform among all ordered pairs of different numbers, int64 ``[*shape, 2]``.

    InputError if the number of balls is not in 2 … 99, the shape holds what is no number of things or does
    not fit into memory, or ``rng`` is no generator.

    Example:
        >>> sample_swaps(5, (3,), np.random.default_rng(0)).tolist()
        [[5, 2], [4, 1], [3, 4]]
    """
    check_balls(balls)
    check_type("rng", rng, np.random.Generator, "give a generator, such as numpy.random.default_rng(0)")
    sizes = [check_integer("shape", size, 0) for size in shape] if isinstance(shape, tuple | list) else None
    if sizes is None:
        raise InputError(f"shape is {shown(shape)}; give a tuple such as (3,)")
    check_memory(f"swaps of shape {shown(shape)}", 16 * prod(sizes), "give a smaller shape")
    pairs = np.empty((*shape, 2), dtype=np.int64)
    pairs[..., 0] = rng.integers(0, balls, size=shape)
    pairs[..., 1] = (pairs[..., 0] + rng.integers(1, balls, size=shape)) % balls
    pairs += 1
    return pairs


def final_places(pairs: IntArray, lengths: IntArray, asked: IntArray, swapped: Swapped) -> IntArray:
    """Return the places where the balls asked for end up, ``[puzzles]``; pairs ``[puzzles, most swaps, 2]``.

    A ball is followed through swaps of balls from the last to the first, and of places from the first to the
    last.
    """
    steps = range(pairs.shape[1])
    places = asked.copy()
    for step in reversed(steps) if swapped == "ball" else steps:
        first, second = pairs[:, step, 0], pairs[:, step, 1]
        counts = step < lengths
        at_first, at_second = counts & (places == first), counts & (places == second)
        places = np.where(at_first, second, np.where(at_second, first, places))
    return places
