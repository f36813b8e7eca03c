"""Puzzles whose answers running a program gives: swapped balls, and small programs that are sure to end."""

from automata.phrases import PhraseTokenizer
from automata.programs.balls import BallPuzzle, Swapped, ball_tokenizer, question_accuracy, sample_swaps
from automata.programs.grammar import Program, ProgramGrammar
from automata.programs.running import run_program, statement_bound
from automata.programs.verification import Verification, verify_balls, verify_programs

__all__ = [
    "BallPuzzle",
    "PhraseTokenizer",
    "Program",
    "ProgramGrammar",
    "Swapped",
    "Verification",
    "ball_tokenizer",
    "question_accuracy",
    "run_program",
    "sample_swaps",
    "statement_bound",
    "verify_balls",
    "verify_programs",
]
