"""Automata as the weights of the published implicit Mamba-2 block: computed from a table, not trained.

- Compile: `compile_automaton`, `compile_run`, `AnyMachine`, `Gains`.
- The Bayes filter of a probabilistic automaton: `compile_bayes_filter`, `latent_beliefs`.
- What is proved of the model: `bounds_of`, `Bounds`, `Wiring`; as floats execute it: `executed_bounds_of`.
"""

from implicit.compiled.bayes_filter import (
    compile_bayes_filter as compile_bayes_filter,
    latent_beliefs as latent_beliefs,
)
from implicit.compiled.bounds import Bounds as Bounds, bounds_of as bounds_of
from implicit.compiled.compile import (
    AnyMachine as AnyMachine,
    compile_automaton as compile_automaton,
    compile_run as compile_run,
)
from implicit.compiled.executed import (
    ExecutedBounds as ExecutedBounds,
    executed_bounds_of as executed_bounds_of,
)
from implicit.compiled.weights import Gains as Gains, Wiring as Wiring
