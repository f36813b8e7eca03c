"""Puzzles whose answers running a program gives: swapped balls, and small programs that are sure to end."""

from automata.phrases import PhraseTokenizer as PhraseTokenizer
from automata.programs.balls import (
    BallPuzzle as BallPuzzle,
    Swapped as Swapped,
    ball_tokenizer as ball_tokenizer,
    sample_swaps as sample_swaps,
)
from automata.programs.grammar import Program as Program, ProgramGrammar as ProgramGrammar
from automata.programs.running import run_program as run_program, statement_bound as statement_bound
from automata.programs.verification import (
    Verification as Verification,
    verify_balls as verify_balls,
    verify_programs as verify_programs,
)
