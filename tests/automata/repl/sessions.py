"""Formats that tests go through: every way to write, hide, reveal, begin and space, with small numbers.

Steps of 5 meet every value of every axis, for no axis has a period that 5 divides.
"""

from itertools import product

from automata.repl import SessionFormat

EVERY_KIND = tuple(
    SessionFormat(
        variables,
        actions,
        assignment,
        initial,  # type: ignore[arg-type]
        reveal,
        spacing,  # type: ignore[arg-type]
        reveal_every=2 + number % 2,
        reveal_first=number % 3 == 0,
        hidden=hidden,
        hidden_fraction=0.5 if hidden and number % 2 else 1.0,
    )
    for number, (assignment, initial, reveal, spacing, hidden) in enumerate(
        product(
            ("moved", "whole"),
            ("ordered", "shuffled", "repeated"),
            ("partial", "full", "assert"),
            ("fixed", "random", "end"),
            (None, "if", "choice"),
        )
    )
    for variables, actions in ((2 + number % 4, ("swaps", f"S{2 + number % 4}")[number // 7 % 2]),)
)


def kind_name(form: SessionFormat) -> str:
    """A readable name of a test."""
    first = "first" if form.reveal_first else "later"
    parts = (form.variables, form.actions, form.assignment, form.initial, form.reveal, form.spacing, first)
    return "-".join(map(str, (*parts, form.hidden, form.hidden_fraction)))
