"""Exact finite objects and their data: monoids, automata, probabilistic automata, tasks.

The lowest layer: NumPy and NetworkX only (matplotlib is imported in ``drawing``, where it is used).

- Tasks: `make_task`, `task_names`, `describe_tasks`, `task_from`; `Task`, `Batch`, `WordProblem`,
  `ObservedTask`, `PartiallyObserved`, `ReplLanguage`, `SwappingBalls`, `SmallPrograms`, `TextFile`; what
  is no evidence of tracking: `shortcut_audit`, `ShortcutAudit`.
- Automata: `DFA`, `MealyMachine`, `regular_expression_dfa`, `parity_dfa`, `modular_counter_dfa`,
  `flip_flop_dfa`, `cyclic_navigation_dfa`, `dyck_dfa`, `monoid_dfa`, `product`.
- Questions about automata: `is_equivalent`, `distinguishing_word`, `minimise`, `count_words`, `word_of_rank`,
  `sample_words`, `transition_monoid`, `circuit_class`, `CircuitClass`.
- Groups and monoids: `Monoid`, `symmetric_group`, `alternating_group`, `cyclic_group`, `dihedral_group`,
  `quaternion_group`, `permutation_group`, `direct_product`, `transformation_closure`, `reset_monoid`,
  `find_isomorphism`.
- Probabilistic automata: `ProbabilisticAutomaton`, `noisy_parity`, `lazy_swaps`, `hidden_permutations`,
  `unknown_coin`, `NO_VALUE`; filters on marginals: `MarginalFilter`, `marginal_scope`.
- Sessions of Python: `SessionFormat`, `ReplTrace`, `ReplTokenizer`, `repl_trace`, `sample_repl_trace`.
- Puzzles and programs that are sure to end: `BallPuzzle`, `ProgramGrammar`, `Program`, `run_program`,
  `statement_bound`.
- Drawings: `draw_dfa`, `draw_cayley_graph`.
- Faults: `InputError`, `unknown_name`.
- Sub-packages: `monoids`, `machines`, `probabilistic`, `programs`, `repl`, `tasks`.

Example:
    >>> import numpy as np
    >>> from automata import circuit_class, make_task, symmetric_group
    >>> circuit_class(symmetric_group(5)).kind
    'non-solvable'
    >>> tokens, states = make_task("S5").sample(batch=2, length=8, rng=np.random.default_rng(0))
    >>> tokens.shape, states.shape
    ((2, 8), (2, 8))
"""

from automata.drawing import draw_cayley_graph, draw_dfa
from automata.errors import InputError, unknown_name
from automata.lazy_names import lazy_names
from automata.machines import (
    DFA,
    CircuitClass,
    MealyMachine,
    circuit_class,
    count_words,
    cyclic_navigation_dfa,
    distinguishing_word,
    dyck_dfa,
    flip_flop_dfa,
    is_equivalent,
    minimise,
    modular_counter_dfa,
    monoid_dfa,
    parity_dfa,
    product,
    regular_expression_dfa,
    sample_words,
    transition_monoid,
    word_of_rank,
)
from automata.monoids import (
    Monoid,
    alternating_group,
    cyclic_group,
    dihedral_group,
    direct_product,
    find_isomorphism,
    permutation_group,
    quaternion_group,
    reset_monoid,
    symmetric_group,
    transformation_closure,
)
from automata.probabilistic import (
    NO_VALUE,
    MarginalFilter,
    ProbabilisticAutomaton,
    hidden_permutations,
    lazy_swaps,
    marginal_scope,
    noisy_parity,
    unknown_coin,
)
from automata.programs import BallPuzzle, Program, ProgramGrammar, run_program, statement_bound
from automata.repl import ReplTokenizer, ReplTrace, SessionFormat, repl_trace, sample_repl_trace
from automata.tasks import (
    Batch,
    ObservedTask,
    PartiallyObserved,
    ReplLanguage,
    ShortcutAudit,
    SmallPrograms,
    SwappingBalls,
    Task,
    TextFile,
    WordProblem,
    describe_tasks,
    make_task,
    shortcut_audit,
    task_from,
    task_names,
)
from implicit_ssm import __version__ as __version__

__all__ = [
    "DFA",
    "NO_VALUE",
    "BallPuzzle",
    "Batch",
    "CircuitClass",
    "InputError",
    "MarginalFilter",
    "MealyMachine",
    "Monoid",
    "ObservedTask",
    "PartiallyObserved",
    "ProbabilisticAutomaton",
    "Program",
    "ProgramGrammar",
    "ReplLanguage",
    "ReplTokenizer",
    "ReplTrace",
    "SessionFormat",
    "ShortcutAudit",
    "SmallPrograms",
    "SwappingBalls",
    "Task",
    "TextFile",
    "WordProblem",
    "alternating_group",
    "circuit_class",
    "count_words",
    "cyclic_group",
    "cyclic_navigation_dfa",
    "describe_tasks",
    "dihedral_group",
    "direct_product",
    "distinguishing_word",
    "draw_cayley_graph",
    "draw_dfa",
    "dyck_dfa",
    "find_isomorphism",
    "flip_flop_dfa",
    "hidden_permutations",
    "is_equivalent",
    "lazy_swaps",
    "make_task",
    "marginal_scope",
    "minimise",
    "modular_counter_dfa",
    "monoid_dfa",
    "noisy_parity",
    "parity_dfa",
    "permutation_group",
    "product",
    "quaternion_group",
    "regular_expression_dfa",
    "repl_trace",
    "reset_monoid",
    "run_program",
    "sample_repl_trace",
    "sample_words",
    "shortcut_audit",
    "statement_bound",
    "symmetric_group",
    "task_from",
    "task_names",
    "transformation_closure",
    "transition_monoid",
    "unknown_coin",
    "unknown_name",
    "word_of_rank",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(__all__, ""),
    ("machines", "monoids", "probabilistic", "programs", "repl", "tasks"),
)
