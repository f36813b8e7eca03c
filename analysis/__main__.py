"""List the questions, ``python -m analysis``, or ask one: ``python -m analysis jacobian RUN``."""

import sys
from collections.abc import Sequence
from importlib import import_module

import implicit_ssm
from automata.errors import InputError, unknown_name
from implicit.command_line import CommandParser, run_command

LISTED = {
    "length_generalization RUN…": "How does accuracy change with length?",
    "jacobian RUN": "Is the state transition non-linear and non-diagonal? Theorem 1, blocks, spectrum.",
    "agreement RUN": "Do both modes of evaluation reach the same fixed points? Which others exist?",
    "convergence RUN": "How does the search for the fixed points go, and what does it cost?",
    "modes RUN…": "Does model(tokens) answer as the sequential mode does, also at 4,096 tokens? How fast?",
    "front_speed RUN…": "How fast do right answers advance in the simultaneous mode, and can that be "
    "predicted?",
    "extraction RUN…": "Which automaton did the model learn, and which shortest word tells it from its task?",
    "error_control RUN…": "Are errors between the states of an automaton corrected, or do they add up with "
    "length?",
    "belief RUN…": "Does the model hold the exact belief about a hidden state, and for how long?",
    "mechanism RUN…": "By which mechanism do models track an automaton, and is it the same one?",
    "certify RUN --claim executed": "Is a compiled model right when floats execute it? "
    "A proof, with a certificate.",
    "certify RUN --claim lengths": "Is a small model right on words of every length? "
    "A proof, with a certificate.",
    "certify RUN --claim starts": "Does the simultaneous mode tend to the right answers too? "
    "A proof, with a certificate.",
    "certify RUN --claim theorem1": "What of Theorem 1 can be proved at visited states? A certificate.",
    "certify RUN --claim words": "Is a small model right on every word up to a length? "
    "A proof, with a certificate.",
}
"""The questions, as they are listed without their imports, which take seconds. The report has this order."""

OTHERS = {
    "check_certificate": ("CERTIFICATE RUN", "Does a certificate hold? Verified by other means."),
    "report": ("RUN…", "All that the report has a section for, for one run or several."),
    "demo": ("", "Trains three models on parity and reports."),
}
"""Commands that are not one question about runs."""

OLD_NAMES = ("all_words", "all_lengths", "executed")
"""Commands that `certify` has taken the place of."""


def _command(argv: Sequence[str] | None) -> int | None:
    given = list(sys.argv[1:] if argv is None else argv)
    listed = {**LISTED, **{f"{name} {takes}".rstrip(): says for name, (takes, says) in OTHERS.items()}}
    if given and not given[0].startswith("-"):
        names = [*dict.fromkeys(row.split()[0] for row in listed), *OLD_NAMES]
        if given[0] not in names and given[1:2] and given[1] in names:
            raise InputError(f"question is {given[0]!r}; give the question first, {given[1]} {given[0]}")
        if given[0] not in names:
            raise unknown_name("question", given[0], set(names) - {*OLD_NAMES})
        code: int = import_module(f"analysis.{given[0]}").main(given[1:])
        return code
    CommandParser("python -m analysis", "List the questions that can be asked of trained models.").parse_args(
        given
    )
    heading = f"{implicit_ssm.typed or 'python -m analysis.'}…"
    width = max(map(len, (*listed, heading)))
    for row, question in {heading: "question", **listed}.items():
        print(f"{row:<{width}}  {question}")
    print("RUN: a run folder or the name of a stored run. --help after a command shows its settings.")
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_command, argv)


if __name__ == "__main__":
    sys.exit(main())
