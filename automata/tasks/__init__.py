"""Tasks: training data from exact objects, and the tasks that have names."""

from automata.tasks.audit import (
    ShortcutAudit as ShortcutAudit,
    WindowAccuracy as WindowAccuracy,
    shortcut_audit as shortcut_audit,
)
from automata.tasks.final_answers import (
    ModularArithmetic as ModularArithmetic,
    Recognition as Recognition,
    SortedConnectivity as SortedConnectivity,
)
from automata.tasks.interface import (
    Batch as Batch,
    Ceiling as Ceiling,
    Part as Part,
    Specification as Specification,
    Task as Task,
    with_specification as with_specification,
)
from automata.tasks.matrix_products import MatrixProducts as MatrixProducts
from automata.tasks.observed import ObservedTask as ObservedTask
from automata.tasks.partially_observed import PartiallyObserved as PartiallyObserved
from automata.tasks.puzzles import SmallPrograms as SmallPrograms, SwappingBalls as SwappingBalls
from automata.tasks.registry import (
    TASKS as TASKS,
    TaskEntry as TaskEntry,
    make_task as make_task,
    registered_task as registered_task,
    task_names as task_names,
)
from automata.tasks.repl_language import ReplLanguage as ReplLanguage
from automata.tasks.sequence_file import (
    SequenceFile as SequenceFile,
    sequence_dataset as sequence_dataset,
    write_sequences as write_sequences,
)
from automata.tasks.specification import (
    TaskSource as TaskSource,
    specification_from_text as specification_from_text,
    task_from as task_from,
)
from automata.tasks.text_file import TextFile as TextFile
from automata.tasks.word_problem import WordProblem as WordProblem, allowed_traces as allowed_traces
