"""Automata as the weights of the published implicit Mamba-2 block: computed from a table, not trained."""

from implicit.compiled.compile import AnyMachine, compile_automaton
from implicit.compiled.gains import Gains
from implicit.compiled.run import compile_run
from implicit.compiled.wiring import Wiring

__all__ = ["AnyMachine", "Gains", "Wiring", "compile_automaton", "compile_run"]
