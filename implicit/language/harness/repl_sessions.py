"""Sessions of Python's interactive interpreter that swap variables and print one of them at the end."""

from collections.abc import Iterator

import numpy as np

from automata.repl import SessionFormat, sample_traces
from implicit.language.harness.documents import TrackingDocument

FORM = SessionFormat(variables=5, spacing="end")
"""Nothing is printed on the way, so that nothing but the swaps tells what the variables hold."""


def repl_documents(length: int, count: int, rng: np.random.Generator) -> Iterator[TrackingDocument]:
    """Yield sessions up to the value that they print, answered with that value.

    Args:
        length: swaps of two of five variables.
        count: documents.
        rng: the source of randomness.

    Example:
        >>> document = next(repl_documents(1, 1, np.random.default_rng(1)))
        >>> document.text.splitlines()[-3:], document.choices[document.answer]
        (['>>> b, c = c, b', ">>> print('d', d)", 'd'], '4')
    """
    names = FORM.variable_names
    values = tuple(str(number) for number in range(1, len(names) + 1))
    for trace in sample_traces(FORM, count, rng, commands=length):
        ((start, end),) = trace.reveal_spans
        text = trace.text[:start].rstrip()
        variable = names.index(text[-1])
        first = trace.states[len(names) - 1][variable]
        answer = values.index(trace.text[start:end])
        yield TrackingDocument(text, values, answer, first - 1, " ".join(trace.commands[-2:]))
