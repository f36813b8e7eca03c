"""The tasks by the names that `lm-eval` knows them by, and the documents of those of state tracking.

A document is a question about a hidden state that was moved step by step, with all answers.

Word problems in plain words: a lamp that is switched, a cat that walks in a circle, friends who line up.

| task   | token                        | sentence                                                    |
|--------|------------------------------|-------------------------------------------------------------|
| parity | 1, 0                         | the switch is pressed but not ignored, or the reverse       |
| ring   | right, left, stay            | the cat visits one house of the following, preceding and    |
|        |                              | current one, and not the other two                          |
| line   | a permutation σ of 1 … n     | new order: σ(1)th, σ(2)th, …: who was σ(i)th is i-th now    |

A permutation is read as ``state_t[i] = state_{t-1}[σ_t[i]]``, so that the line of friends is the product in
S_n. The question comes last, and is about one place drawn uniformly.

The number of tokens tells nothing of the lamp and the cat under any tokenizer that splits text at spaces: all
documents of as many steps have the same words, in an order that is drawn. All new orders have one length
under the tokenizers of GPT-2 and GPT-NeoX. The lamp and the cat begin in a state drawn uniformly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from automata.checks import check_integer
from automata.errors import InputError, unknown_name
from automata.programs import BallPuzzle, ProgramGrammar, sample_swaps
from automata.programs.grammar import OUTPUT
from automata.repl import SessionFormat, sample_traces
from automata.tasks.registry import make_task
from automata.tasks.word_problem import WordProblem
from implicit.language.harness.local_sets import LOCAL_SETS

FRIENDS = ("Anna", "Carl", "Emma", "Fred", "Jane")
HOUSES = ("gold", "blue", "gray", "pink", "navy")
"""Four letters each, one token of GPT-2 and of GPT-NeoX after a space: no choice is longer than another."""
_ORDINALS = ("1st", "2nd", "3rd", "4th", "5th")
_ORDERS = "Each new order tells who of the line so far comes first, who second, and so on."
_LAMPS = ("out", "lit")
_VISITED = {"stay": "current", "left": "preceding", "right": "following"}
BALLS = 5
PROGRAMS = ProgramGrammar(variables=3, modulus=10, reversible=True)
"""Programs that forget nothing, so that every printed value is uniform and depends on the whole program."""
SESSIONS = SessionFormat(variables=5, spacing="end")
"""Nothing is printed on the way, so that nothing but the swaps tells what the variables hold."""
_SITUATION = (
    f"Balls 1 to {BALLS} lie at places 1 to {BALLS}, each at the place of its number. "
    "To swap two balls is to let them change places, wherever they lie."
)


@dataclass(frozen=True)
class TrackingDocument:
    """A text that ends where the answer is to stand, and what it may be.

    A model answers with the choice that it gives the highest log-likelihood after the text and a space.

    Attributes:
        text: what is read, the question included; it does not end with a space.
        choices: the answers to choose from.
        answer: which of them is right.
        at_first: which of them would be right if nothing had been moved.
        asked: what was asked.
        steps: what was done, one after the other.
        at_last: what would be right if only the last step had been done that moves what was asked; as
            ``at_first`` if there is none, and for programs.
    """

    text: str
    choices: tuple[str, ...]
    answer: int
    at_first: int
    asked: str
    steps: tuple[str, ...]
    at_last: int

    def row(self) -> dict[str, Any]:
        """Return the document as a row of a data set: what a task of `lm-eval` reads."""
        return {"text": self.text, "choices": list(self.choices), "answer": self.answer}


def parity_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield lamps that are switched, by sentences that may move something, answered with "out" or "lit"."""
    for steps, state in _words("parity", length, count, rng):
        first = int(rng.integers(2))
        done = [_but_not("pressed", "ignored", rng, swapped=step == "0") for step in steps]
        sentences = [f"The switch is {words} now." for words in done]
        begin = f"The lamp is {_but_not('lit', 'out', rng, swapped=first == 0)} at first."
        text = "\n".join([begin, *sentences, "Is the lamp lit or out?", "Answer:"])
        at_last = (first + ("1" in steps)) % 2
        yield TrackingDocument(text, _LAMPS, (first + state) % 2, first, "", tuple(steps), at_last)


def _but_not(true: str, false: str, rng: np.random.Generator, *, swapped: bool) -> str:
    """Say that one holds and not the other, in a random order; the other way round if swapped."""
    if swapped:
        true, false = false, true
    return f"{true} but not {false}" if rng.integers(2) else f"not {false} but {true}"


def ring_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield walks in a circle of five houses: sums modulo 5, answered with the colour of a house.

    Arguments are those of `parity_documents`.
    """
    for steps, state in _words("cyclic-navigation", length, count, rng):
        order = rng.permutation(len(HOUSES)).tolist()
        sentences = [_visit(step, rng) for step in steps]
        houses = ", ".join(HOUSES[house] for house in order)
        begin = f"Five houses stand in a circle: {houses}, and so on. A cat visits the first of these."
        text = "\n".join([begin, *sentences, "Which house is the cat at?", "Answer:"])
        moves = [1 if step == "right" else -1 for step in steps if step != "stay"]
        at_last = order[sum(moves[-1:]) % len(order)]
        yield TrackingDocument(text, HOUSES, order[state], order[0], "", tuple(steps), at_last)


def _visit(step: str, rng: np.random.Generator) -> str:
    one, other = rng.permutation([house for name, house in _VISITED.items() if name != step])
    return f"The cat visits the {_VISITED[step]} and not the {one} or {other} house."


def line_documents(
    group: str, length: int, count: int, rng: np.random.Generator
) -> Iterator[TrackingDocument]:
    """Yield lines of friends who line up anew: permutations, answered with the name of a friend.

    The group is a registered task of permutations of at most five, all of which are tokens, such as ``"S5"``;
    new orders are drawn uniformly from it.

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
        came_from = (int(step[place]) - 1 for step in reversed(steps))
        at_last = next((other for other in came_from if other != place), place)
        yield TrackingDocument(text, friends, answer, place, question, tuple(steps), at_last)


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


def ball_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield puzzles of five balls that are swapped, answered with the place of the ball that is named first.

    The question names all balls, so that its number of tokens does not tell which one is asked for. There are
    ``length`` swaps, each of two balls drawn uniformly.
    """
    numbers = tuple(str(number) for number in range(1, BALLS + 1))
    pairs = sample_swaps(BALLS, (count, length), rng).tolist()
    for row, asked in zip(pairs, rng.integers(1, BALLS + 1, size=count).tolist(), strict=True):
        swaps = tuple((first, second) for first, second in row)
        puzzle = BallPuzzle(BALLS, swaps, asked)
        others = rng.permutation([number for number in numbers if number != str(asked)])
        order = ", ".join([str(asked), *others])
        steps = puzzle.question.rpartition("Where")[0]
        text = f"{_SITUATION}\n{steps}Where do balls {order}, end up, in this order?"
        at_last = _partner(asked, swaps) - 1
        done = tuple(map(str, swaps))
        yield TrackingDocument(text, numbers, puzzle.answer - 1, asked - 1, str(asked), done, at_last)


def _partner(asked: int, swaps: Sequence[tuple[int, int]]) -> int:
    """The other one in the last swap that names it; itself if none does."""
    return next((sum(swap) - asked for swap in reversed(swaps) if asked in swap), asked)


def program_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield small reversible programs with what they print up to a value, answered with its digit.

    Values that are printed earlier are shown; they tell nothing of the answer. The length counts statements
    beside the first values and the prints; loops and conditions count as one each.
    """
    digits = tuple(map(str, range(PROGRAMS.modulus)))
    for _ in range(count):
        program = PROGRAMS.sample(length, rng)
        asked = int(rng.integers(PROGRAMS.variables))
        printed = program.output.splitlines()
        line, _, value = printed[asked].rpartition(" ")
        text = program.source + "\n".join([*printed[:asked], line])
        statements = program.source.splitlines()
        done = tuple(map(str.strip, statements[PROGRAMS.variables : -PROGRAMS.variables]))
        first = statements[asked].rpartition(" ")[2]
        assert line.startswith(OUTPUT)
        yield TrackingDocument(text, digits, int(value), int(first), line, done, int(first))


def repl_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield sessions that swap variables up to the values that they print, answered with the first of these.

    All variables are printed, in a random order. There are ``length`` swaps of two of five variables.
    """
    names = SESSIONS.variable_names
    values = tuple(str(number) for number in range(1, len(names) + 1))
    for trace in sample_traces(SESSIONS, count, rng, commands=length):
        ((start, end),) = trace.reveal_spans
        variable = names.index(trace.text[:start].rstrip()[-1])
        others = rng.permutation([name for name in names if name != names[variable]])
        order = ", ".join([names[variable], *others])
        print_all = f"print('now', {order}, sep=' ')"
        text = "\n".join([*(f">>> {command}" for command in (*trace.commands[:-1], print_all)), "now"])
        begin = trace.states[len(names) - 1]
        answer = values.index(trace.text[start:end])
        done = trace.commands[len(names) : -1]
        pairs = (map(names.index, command.partition(" = ")[0].split(", ")) for command in done)
        last = begin[_partner(variable, [(one, other) for one, other in pairs])]
        yield TrackingDocument(
            text, values, answer, begin[variable] - 1, names[variable], tuple(done), last - 1
        )


LENGTHS = (4, 8, 16, 32)
"""Steps of the tasks whose accuracy is told by length."""
LENGTH, DOCUMENTS = 16, 200
"""Steps of a document and number of documents, unless others are asked for."""


@dataclass(frozen=True)
class TrackingTask:
    """A kind of documents.

    Attributes:
        sentence: what is tracked, and what makes it easy or hard.
        choices: the number of answers to choose from; chance is one in so many.
        draw: yields documents of a length, so many of them, from a generator.
    """

    sentence: str
    choices: int
    draw: Callable[[int, int, np.random.Generator], Iterator[TrackingDocument]]


TRACKING_TASKS = {
    "parity": TrackingTask("a lamp that is switched or not: parity; solvable", 2, parity_documents),
    "ring": TrackingTask("a cat that walks in a circle of five houses: abelian", 5, ring_documents),
    "s3": TrackingTask(
        "three friends who line up anew, all of S3: solvable", 3, partial(line_documents, "S3")
    ),
    "a5": TrackingTask(
        "five friends who line up anew, all of A5: non-solvable", 5, partial(line_documents, "A5")
    ),
    "s5": TrackingTask(
        "five friends who line up anew, all of S5: non-solvable", 5, partial(line_documents, "S5")
    ),
    "balls": TrackingTask("five balls, two of which are swapped each time: S5", 5, ball_documents),
    "programs": TrackingTask("small programs of three variables that forget nothing", 10, program_documents),
    "repl": TrackingTask("Python sessions that swap two of five variables each time: S5", 5, repl_documents),
}
"""By name, without the ``tracking_`` that the harness puts before it."""


def tracking_documents(
    name: str, length: int = LENGTH, documents: int = DOCUMENTS, seed: int = 0
) -> list[TrackingDocument]:
    """Draw documents of a task, whose states move in so many steps; the same seed draws the same ones.

    InputError if the name is unknown, or a number is out of its range.
    """
    if name not in TRACKING_TASKS:
        raise unknown_name("tracking task", name, TRACKING_TASKS)
    check_integer("length", length, 1)
    check_integer("documents", documents, 1)
    rng = np.random.default_rng([check_integer("seed", seed, 0), length, *name.encode()])
    return list(TRACKING_TASKS[name].draw(length, documents, rng))


TASK_FILES = Path(__file__).parent / "tasks"
"""The folder for ``lm_eval --include_path``."""


@dataclass(frozen=True)
class HarnessTask:
    """The task behind a name.

    Attributes:
        sentence: in one line.
        sets: the sets of a folder that it reads.
        tracks: the tasks of state tracking that it draws.
        has_length: whether the length of its documents can be chosen.
    """

    sentence: str
    sets: tuple[str, ...] = ()
    tracks: tuple[str, ...] = ()
    has_length: bool = False


def _all_tasks() -> dict[str, HarnessTask]:
    lengths = ", ".join(map(str, LENGTHS))
    tasks = {f"local_{name}": HarnessTask(found.sentence, sets=(name,)) for name, found in LOCAL_SETS.items()}
    tasks["local_sets"] = HarnessTask("the seven above", sets=tuple(LOCAL_SETS))
    for name, found in TRACKING_TASKS.items():
        tasks[f"tracking_{name}"] = HarnessTask(
            f"{found.sentence}; chance 1/{found.choices}", tracks=(name,), has_length=True
        )
    for name in TRACKING_TASKS:
        tasks[f"tracking_{name}_by_length"] = HarnessTask(
            f"tracking_{name} of lengths {lengths}, and their mean", tracks=(name,)
        )
    tasks["state_tracking"] = HarnessTask("the groups by length above", tracks=tuple(TRACKING_TASKS))
    return tasks


HARNESS_TASKS = _all_tasks()
"""All tasks, groups and tags of the task files, by name."""


def check_tasks(names: list[str], length: int | None = None) -> list[HarnessTask]:
    """Return what the names of tasks, groups or tags stand for; ``length`` is another than the usual one."""
    if not names:
        raise InputError("tasks is missing; give names with --tasks, which --list shows")
    for name in names:
        if name not in HARNESS_TASKS:
            raise unknown_name("task", name, HARNESS_TASKS)
        if length is not None and not HARNESS_TASKS[name].has_length:
            raise InputError(
                f"length is {length}, and the length of {name} is not to be chosen; leave it out, or take "
                "one of " + ", ".join(f"tracking_{track}" for track in TRACKING_TASKS)
            )
    for name in names:
        for other in names:
            shared = _leaves(name) & _leaves(other)
            if (names.count(name) > 1 or name != other) and shared:
                raise InputError(f"tasks holds {name} and {other}, which share tasks; give one of the two")
    return [HARNESS_TASKS[name] for name in names]


def _leaves(name: str) -> set[str]:
    """The tasks that a name stands for, which `lm-eval` takes only once."""
    task = HARNESS_TASKS[name]
    lengths = ("",) if task.has_length else tuple(map(str, LENGTHS))
    return {*task.sets, *(f"{track} {length}" for track in task.tracks for length in lengths)}
