"""Tasks: training data from exact objects, and the tasks that have names."""

from automata.tasks.allowed_traces import allowed_traces
from automata.tasks.interface import Batch, Ceiling, Part, Specification, Task, with_specification
from automata.tasks.registry import TASKS, TaskEntry, describe_tasks, make_task, task_names
from automata.tasks.repl_traces import ReplTrace, repl_trace, sample_repl_trace
from automata.tasks.word_problem import WordProblem

__all__ = [
    "TASKS",
    "Batch",
    "Ceiling",
    "Part",
    "ReplTrace",
    "Specification",
    "Task",
    "TaskEntry",
    "WordProblem",
    "allowed_traces",
    "describe_tasks",
    "make_task",
    "repl_trace",
    "sample_repl_trace",
    "task_names",
    "with_specification",
]
