"""Tasks: training data from exact objects, and the tasks that have names."""

from automata.tasks.audit import ShortcutAudit, WindowAccuracy, shortcut_audit
from automata.tasks.connectivity import SortedConnectivity
from automata.tasks.final_answers import ModularArithmetic, Recognition
from automata.tasks.interface import Batch, Ceiling, Part, Specification, Task, with_specification
from automata.tasks.matrix_products import MatrixProducts
from automata.tasks.observed import ObservedTask
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.registry import TASKS, TaskEntry, describe_tasks, make_task, registered_task, task_names
from automata.tasks.repl_language import ReplLanguage
from automata.tasks.sequence_file import SequenceFile, sequence_dataset, write_sequences
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.specification import TaskSource, specification_from_text, task_from
from automata.tasks.swapping_balls import SwappingBalls
from automata.tasks.text_file import TextFile
from automata.tasks.word_problem import WordProblem, allowed_traces

__all__ = [
    "TASKS",
    "Batch",
    "Ceiling",
    "MatrixProducts",
    "ModularArithmetic",
    "ObservedTask",
    "Part",
    "PartiallyObserved",
    "Recognition",
    "ReplLanguage",
    "SequenceFile",
    "ShortcutAudit",
    "SmallPrograms",
    "SortedConnectivity",
    "Specification",
    "SwappingBalls",
    "Task",
    "TaskEntry",
    "TaskSource",
    "TextFile",
    "WindowAccuracy",
    "WordProblem",
    "allowed_traces",
    "describe_tasks",
    "make_task",
    "registered_task",
    "sequence_dataset",
    "shortcut_audit",
    "specification_from_text",
    "task_from",
    "task_names",
    "with_specification",
    "write_sequences",
]
