"""Permutation composition as sessions of Python's interactive interpreter (REPL traces)."""

from automata.repl.commands import (
    ASSIGNMENTS,
    HIDDEN,
    REVEALS,
    Assignment,
    Command,
    HiddenAction,
    RevealFormat,
)
from automata.repl.export import hugging_face_dataset, record, sample_traces, write_jsonl, write_text
from automata.repl.grammar import NONE
from automata.repl.last_reveal import last_reveal_accuracy
from automata.repl.sampling import Sessions, sample_repl_trace, sample_sessions
from automata.repl.session_format import SessionFormat, action_permutations
from automata.repl.token_tables import ReplTokenizer
from automata.repl.traces import ReplTrace, repl_trace, trace_of_commands
from automata.repl.verification import Difference, check_with_interpreter

__all__ = [
    "ASSIGNMENTS",
    "HIDDEN",
    "NONE",
    "REVEALS",
    "Assignment",
    "Command",
    "Difference",
    "HiddenAction",
    "ReplTokenizer",
    "ReplTrace",
    "RevealFormat",
    "SessionFormat",
    "Sessions",
    "action_permutations",
    "check_with_interpreter",
    "hugging_face_dataset",
    "last_reveal_accuracy",
    "record",
    "repl_trace",
    "sample_repl_trace",
    "sample_sessions",
    "sample_traces",
    "trace_of_commands",
    "write_jsonl",
    "write_text",
]
