"""Training data from exact objects: word problems, REPL traces, and the tasks that have names."""

from automata.tasks.registry import TASKS, TaskEntry, describe_tasks, make_task, task_names
from automata.tasks.repl_traces import ReplTrace, repl_trace, sample_repl_trace
from automata.tasks.word_problem import WordProblem

__all__ = [
    "TASKS",
    "ReplTrace",
    "TaskEntry",
    "WordProblem",
    "describe_tasks",
    "make_task",
    "repl_trace",
    "sample_repl_trace",
    "task_names",
]
