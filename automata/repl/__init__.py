"""Permutation composition as sessions of Python's interactive interpreter (REPL traces)."""

from automata.repl.last_reveal import last_reveal_accuracy as last_reveal_accuracy
from automata.repl.sampling import (
    Sessions as Sessions,
    record as record,
    sample_repl_trace as sample_repl_trace,
    sample_sessions as sample_sessions,
    sample_traces as sample_traces,
    write_jsonl as write_jsonl,
    write_text as write_text,
)
from automata.repl.session_format import (
    SessionFormat as SessionFormat,
    action_permutations as action_permutations,
)
from automata.repl.text import (
    ASSIGNMENTS as ASSIGNMENTS,
    Assignment as Assignment,
    Command as Command,
    HIDDEN as HIDDEN,
    HiddenAction as HiddenAction,
    REVEALS as REVEALS,
    ReplTrace as ReplTrace,
    RevealFormat as RevealFormat,
    repl_trace as repl_trace,
    trace_of_commands as trace_of_commands,
)
from automata.repl.tokens import NONE as NONE, ReplTokenizer as ReplTokenizer
from automata.repl.verification import (
    Difference as Difference,
    check_with_interpreter as check_with_interpreter,
)
