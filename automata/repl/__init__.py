"""Permutation composition as sessions of Python's interactive interpreter (REPL traces)."""

from automata.repl.commands import ASSIGNMENTS, HIDDEN, Assignment, Command, HiddenAction
from automata.repl.permutations import action_permutations
from automata.repl.reveals import REVEALS, RevealFormat
from automata.repl.sampling import Sessions, sample_repl_trace, sample_sessions
from automata.repl.session_format import SessionFormat
from automata.repl.tokenizer import ReplTokenizer
from automata.repl.traces import ReplTrace, repl_trace, trace_of_commands

__all__ = [
    "ASSIGNMENTS",
    "HIDDEN",
    "REVEALS",
    "Assignment",
    "Command",
    "HiddenAction",
    "ReplTokenizer",
    "ReplTrace",
    "RevealFormat",
    "SessionFormat",
    "Sessions",
    "action_permutations",
    "repl_trace",
    "sample_repl_trace",
    "sample_sessions",
    "trace_of_commands",
]
