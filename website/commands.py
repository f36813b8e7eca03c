"""The page of all commands, each with what ``--help`` shows."""

import ast
import io
import os
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from analysis.__main__ import OTHERS
from analysis.questions import QUESTIONS
from implicit.runs.loading import STORED_RUNS

ROOT = Path(__file__).parents[1]
WIDTH = 90
"""Characters in a line of help."""

GROUPS: dict[str, dict[str, str]] = {
    "Train": {
        "implicit.train": "Train a model on a task.",
        "implicit.language.pretrain": "Train a language model on text, on one device or many.",
        "implicit.language.cost": "What would training a language model take, by formula?",
        "implicit.compile": "Write the automaton of a task into the weights of a model, without training.",
        "automata.audit": "What accuracy on this task is no evidence of tracking?",
        "automata.babi": "Count the stories, questions and tokens of bAbI as catbAbI has them.",
        "automata.programs": "Does Python give the answers that puzzles and small programs say?",
        "automata.tasks": "Write the words of a task, with their answers, as a CSV file.",
        "automata.repl": "Write Python sessions for other people's models; check that each is true.",
    },
    "Ask a trained model": {
        "implicit.answer": "What does a model answer to a word?",
        "implicit.language.harness": "How good is a language model at benchmarks and state tracking?",
        "analysis": "Which questions are there?",
        **{f"analysis.{question.name}": question.question for question in QUESTIONS},
        **{f"analysis.{name}": sentence for name, (_, sentence) in OTHERS.items()},
    },
    "Figures and benchmarks": {
        "paper_figures": "Draw the figures of the paper from stored results, or make them from nothing.",
        "theory.belief": "How fast does a linear filter lose its mass, and what is worst for it?",
        "benchmarks": "Check and time what the toolkit does most.",
        "benchmarks.certificate_mutations": "Change certificates as a forger would; count what is refused.",
        "benchmarks.imports": "Count the imports between files within packages.",
        "benchmarks.mutation": "Make small faults in the code, and count those that the tests notice.",
        "benchmarks.gpu": "Test and time every kernel on a GPU, in one go.",
    },
    "Kernels, one by one": {
        "benchmarks.triton_compilation": "Compile every kernel for GPUs that need not be here.",
        "benchmarks.gpu_ssd": "The SSD scan on a GPU: checked, then timed beside others.",
        "benchmarks.gpu_sequential_solve": "The sequential mode on a GPU: the fused kernel and the loop.",
        "benchmarks.gpu_elementwise": "Gated norm and short convolution on a GPU.",
    },
}
"""A sentence for each module that is a command, by heading."""

APART = frozenset(GROUPS["Kernels, one by one"])
"""Modules that settle how Triton works for their whole process, so that they are read and not imported."""


def commands_page() -> str:
    """Return the page."""
    stored = ", ".join(f"`{folder.name}`" for folder in sorted(STORED_RUNS.iterdir()) if folder.is_dir())
    lines = [
        "# Commands",
        "",
        f"`RUN` is a run folder, or a stored run: {stored}. Faults are one sentence, with exit code 2.",
        "",
        "| command | what for |",
        "|---|---|",
    ]
    for commands in GROUPS.values():
        lines += [f"| [`{name}`](#{anchor(name)}) | {sentence} |" for name, sentence in commands.items()]
    for commands in GROUPS.values():
        for name, sentence in commands.items():
            lines += ["", f"## python -m {name} {{ #{anchor(name)} }}", "", sentence, ""]
            lines += ["```text", help_of(name).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def anchor(command: str) -> str:
    """Return where the page speaks of a command.

    Example:
        >>> anchor("analysis.all_words")
        'analysis-all_words'
    """
    return command.replace(".", "-")


def help_of(command: str) -> str:
    """Return what ``python -m <command> --help`` prints, or, of a command apart, what its file says first."""
    if command in APART:
        source = Path(command.replace(".", "/")).with_suffix(".py")
        return ast.get_docstring(ast.parse((ROOT / source).read_text(encoding="utf-8"))) or ""
    module: Any = import_module(command)
    if not hasattr(module, "main"):
        module = import_module(f"{command}.__main__")
    printed, width = io.StringIO(), {"COLUMNS": str(WIDTH)}  # the same wherever the site is built
    with redirect_stdout(printed), suppress(SystemExit), mock.patch.dict(os.environ, width):
        module.main(["--help"])
    return printed.getvalue()
