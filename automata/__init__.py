"""Exact finite objects and their data: monoids, automata, probabilistic automata, tasks.

The lowest layer: NumPy and NetworkX only (matplotlib is imported in ``drawing``, where it is used).

- Tasks: `make_task`, `task_names`, `task_from`; `Task`, `Batch`, `WordProblem`,
  `ObservedTask`, `PartiallyObserved`, `ReplLanguage`, `SwappingBalls`, `SmallPrograms`, `TextFile`,
  `Recognition`, `ModularArithmetic`, `SortedConnectivity`, `MatrixProducts`; what is no evidence of tracking:
  `shortcut_audit`, `ShortcutAudit`.
- Files of others: `SequenceFile`, `write_sequences`, `sequence_dataset`.
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

from implicit_ssm import __version__ as __version__

# isort: split
import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
