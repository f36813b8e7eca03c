"""The public names and where they are defined, for type checkers and for importing them late."""

from . import machines as machines
from . import monoids as monoids
from . import probabilistic as probabilistic
from . import programs as programs
from . import repl as repl
from . import tasks as tasks
from .drawing import draw_cayley_graph as draw_cayley_graph, draw_dfa as draw_dfa
from .errors import InputError as InputError, unknown_name as unknown_name
from .machines import (
    CircuitClass as CircuitClass,
    DFA as DFA,
    MealyMachine as MealyMachine,
    circuit_class as circuit_class,
    count_words as count_words,
    cyclic_navigation_dfa as cyclic_navigation_dfa,
    distinguishing_word as distinguishing_word,
    dyck_dfa as dyck_dfa,
    flip_flop_dfa as flip_flop_dfa,
    is_equivalent as is_equivalent,
    minimise as minimise,
    modular_counter_dfa as modular_counter_dfa,
    monoid_dfa as monoid_dfa,
    parity_dfa as parity_dfa,
    product as product,
    regular_expression_dfa as regular_expression_dfa,
    sample_words as sample_words,
    transition_monoid as transition_monoid,
    word_of_rank as word_of_rank,
)
from .monoids import (
    Monoid as Monoid,
    alternating_group as alternating_group,
    cyclic_group as cyclic_group,
    dihedral_group as dihedral_group,
    direct_product as direct_product,
    find_isomorphism as find_isomorphism,
    permutation_group as permutation_group,
    quaternion_group as quaternion_group,
    reset_monoid as reset_monoid,
    symmetric_group as symmetric_group,
    transformation_closure as transformation_closure,
)
from .probabilistic import (
    MarginalFilter as MarginalFilter,
    NO_VALUE as NO_VALUE,
    ProbabilisticAutomaton as ProbabilisticAutomaton,
    hidden_permutations as hidden_permutations,
    lazy_swaps as lazy_swaps,
    marginal_scope as marginal_scope,
    noisy_parity as noisy_parity,
    unknown_coin as unknown_coin,
)
from .programs import (
    BallPuzzle as BallPuzzle,
    Program as Program,
    ProgramGrammar as ProgramGrammar,
    run_program as run_program,
    statement_bound as statement_bound,
)
from .repl import (
    ReplTokenizer as ReplTokenizer,
    ReplTrace as ReplTrace,
    SessionFormat as SessionFormat,
    repl_trace as repl_trace,
    sample_repl_trace as sample_repl_trace,
)
from .tasks import (
    Batch as Batch,
    MatrixProducts as MatrixProducts,
    ModularArithmetic as ModularArithmetic,
    ObservedTask as ObservedTask,
    PartiallyObserved as PartiallyObserved,
    Recognition as Recognition,
    ReplLanguage as ReplLanguage,
    SequenceFile as SequenceFile,
    ShortcutAudit as ShortcutAudit,
    SmallPrograms as SmallPrograms,
    SortedConnectivity as SortedConnectivity,
    SwappingBalls as SwappingBalls,
    Task as Task,
    TextFile as TextFile,
    WordProblem as WordProblem,
    make_task as make_task,
    sequence_dataset as sequence_dataset,
    shortcut_audit as shortcut_audit,
    task_from as task_from,
    task_names as task_names,
    write_sequences as write_sequences,
)

__version__: str
