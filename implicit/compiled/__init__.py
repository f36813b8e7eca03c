"""Automata as the weights of the published implicit Mamba-2 block: computed from a table, not trained."""

from implicit.compiled.bounds import Bounds, bounds_of
from implicit.compiled.compile import AnyMachine, compile_automaton
from implicit.compiled.gains import Gains
from implicit.compiled.run import compile_run
from implicit.compiled.wiring import Wiring

__all__ = ["AnyMachine", "Bounds", "Gains", "Wiring", "bounds_of", "compile_automaton", "compile_run"]
