"""Sessions of Python's interactive interpreter that swap variables and print one of them at the end."""

from collections.abc import Iterator

import numpy as np

from automata.repl import SessionFormat, sample_traces
from implicit.language.harness.documents import TrackingDocument

FORM = SessionFormat(variables=5, spacing="end")
"""Nothing is printed on the way, so that nothing but the swaps tells what the variables hold."""


def repl_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield sessions up to the values that they print, answered with the first of these.

    All variables are printed, the others in a random order, so that the number of tokens does not tell which
    one comes first. There are ``length`` swaps of two of five variables.

    Example:
        >>> document = next(repl_documents(1, 1, np.random.default_rng(1)))
        >>> document.text.splitlines()[-3:], document.choices[document.answer]
        (['>>> b, c = c, b', ">>> print('now', d, c, a, b, e, sep=' ')", 'now'], '4')
    """
    names = FORM.variable_names
    values = tuple(str(number) for number in range(1, len(names) + 1))
    for trace in sample_traces(FORM, count, rng, commands=length):
        ((start, end),) = trace.reveal_spans
        variable = names.index(trace.text[:start].rstrip()[-1])
        others = rng.permutation([name for name in names if name != names[variable]])
        order = ", ".join([names[variable], *others])
        print_all = f"print('now', {order}, sep=' ')"
        text = "\n".join([*(f">>> {command}" for command in (*trace.commands[:-1], print_all)), "now"])
        first = trace.states[len(names) - 1][variable]
        answer = values.index(trace.text[start:end])
        yield TrackingDocument(text, values, answer, first - 1, " ".join(trace.commands[-2:]))
