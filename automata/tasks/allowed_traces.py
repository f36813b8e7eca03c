"""The traces of a machine whose tokens a task can draw."""

from collections.abc import Iterable

from automata.machines.dfa import DFA
from automata.machines.mealy import SINK, answer_symbol, read_symbol
from automata.tasks.interface import Task
from automata.tasks.word_problem import WordProblem


def allowed_traces(task: Task, answers: Iterable[int]) -> DFA | None:
    """Return the automaton of the traces whose tokens the task can draw; None if it draws every word.

    Args:
        task: a word problem may avoid some of its states.
        answers: the alphabet of answers.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> allowed_traces(make_task("parity"), [0, 1]) is None
        True
        >>> allowed = allowed_traces(make_task("dyck-4"), [0])
        >>> allowed.accepts(["read 0", "answer 0", "read 1"]), allowed.accepts(["read 1"])
        (True, False)
    """
    if not (isinstance(task, WordProblem) and task.avoid):
        return None
    replies = [answer_symbol(answer) for answer in sorted(set(answers))]
    tokens = [read_symbol(token) for token in range(task.vocabulary_size)]
    transitions: dict[object, dict[str, object]] = {
        SINK: dict.fromkeys([*tokens, *replies], SINK),
        **{
            state: {
                **dict.fromkeys(replies, state),
                **{
                    symbol: SINK if target in task.avoid else int(target)
                    for symbol, target in zip(tokens, row, strict=True)
                },
            }
            for state, row in enumerate(task.table)
        },
    }
    return DFA(transitions, [*tokens, *replies], transitions, task.initial_state, range(task.state_count))
