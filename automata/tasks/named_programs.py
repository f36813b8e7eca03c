"""Python sessions, puzzles and programs that have names."""

from collections.abc import Callable
from typing import Any

from automata.tasks.entry import TaskEntry, refuse_hard_fraction
from automata.tasks.repl_language import Predict, ReplLanguage
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.swapping_balls import Asked, SwappingBalls


def _repl(variables: int, predict: Predict, **fields: Any) -> Callable[[str, str, float], ReplLanguage]:
    def build(name: str, description: str, hard_fraction: float) -> ReplLanguage:
        refuse_hard_fraction(name, hard_fraction)
        return ReplLanguage(variables, predict=predict, name=name, description=description, **fields)

    return build


def _balls(balls: int, predict: Asked) -> Callable[[str, str, float], SwappingBalls]:
    def build(name: str, description: str, hard_fraction: float) -> SwappingBalls:
        refuse_hard_fraction(name, hard_fraction)
        return SwappingBalls(balls, predict=predict, name=name, description=description)

    return build


def _programs(predict: Asked, reversible: bool = False) -> Callable[[str, str, float], SmallPrograms]:
    def build(name: str, description: str, hard_fraction: float) -> SmallPrograms:
        refuse_hard_fraction(name, hard_fraction)
        return SmallPrograms(predict=predict, reversible=reversible, name=name, description=description)

    return build


PROGRAMS = (
    TaskEntry(
        "repl-3",
        "Python sessions that swap three variables and print one after every 4 swaps; every next token",
        _repl(3, "all"),
    ),
    TaskEntry(
        "repl-3-reveals",
        "Python sessions that swap three variables and print one after every 4 swaps; the printed lines",
        _repl(3, "reveals"),
    ),
    TaskEntry(
        "repl-3-values",
        "Python sessions that swap three variables and print one after every 4 swaps; the printed values",
        _repl(3, "values"),
    ),
    TaskEntry(
        "repl-3-values-1",
        "Python sessions that swap three variables and print one after every swap; the printed values",
        _repl(3, "values", reveal_every=1),
    ),
    TaskEntry(
        "repl-3-values-8",
        "Python sessions that swap three variables and print one after every 8 swaps; the printed values",
        _repl(3, "values", reveal_every=8),
    ),
    TaskEntry(
        "repl-3-random",
        "Python sessions that swap three variables and print one after one swap in 4; every next token",
        _repl(3, "all", spacing="random"),
    ),
    TaskEntry(
        "repl-3-values-random",
        "Python sessions that swap three variables and print one after one swap in 4; the printed values",
        _repl(3, "values", spacing="random"),
    ),
    TaskEntry(
        "repl-3-hidden",
        "Python sessions that swap three variables or not, unseen, and print one each time; its value",
        _repl(3, "values", reveal_every=1, hidden="if"),
    ),
    TaskEntry(
        "repl-5-reveals",
        "Python sessions that swap five variables and print one after every 4 swaps; the printed lines",
        _repl(5, "reveals"),
    ),
    TaskEntry(
        "repl-5-values",
        "Python sessions that swap five variables and print one after every 4 swaps; the printed values",
        _repl(5, "values"),
    ),
    TaskEntry(
        "repl-5-random",
        "Python sessions that swap five variables and print one after one swap in 4; every next token",
        _repl(5, "all", spacing="random"),
    ),
    TaskEntry(
        "repl-5-values-random",
        "Python sessions that swap five variables and print one after one swap in 4; the printed values",
        _repl(5, "values", spacing="random"),
    ),
    TaskEntry(
        "repl-5-end",
        "Python sessions that swap five variables and print one of them at the end; its value",
        _repl(5, "values", spacing="end"),
    ),
    TaskEntry(
        "swap-balls-3",
        '"swap ball 1 and 3, …. Where does ball 2 end up?" with three balls; the answer',
        _balls(3, "values"),
    ),
    TaskEntry(
        "swap-balls-5",
        '"swap ball 1 and 3, …. Where does ball 5 end up?" with five balls; the answer',
        _balls(5, "values"),
    ),
    TaskEntry(
        "swap-balls-5-all",
        '"swap ball 1 and 3, …. Where does ball 5 end up?" with five balls; every next token',
        _balls(5, "all"),
    ),
    TaskEntry(
        "small-programs",
        "Python programs of assignments, loops and conditions on three variables; what they print",
        _programs("values"),
    ),
    TaskEntry(
        "reversible-programs",
        "Python programs of swaps, sums, loops and conditions that forget nothing; what they print",
        _programs("values", reversible=True),
    ),
    TaskEntry(
        "small-programs-all",
        "Python programs of assignments, loops and conditions on three variables; every next token",
        _programs("all"),
    ),
)
"""Sessions, then puzzles, then programs."""
