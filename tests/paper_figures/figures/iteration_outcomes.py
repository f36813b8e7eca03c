"""Made-up self-iterations of language models: runs whose values are all their own."""

from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures import wikitext2_iterations
from paper_figures.figures.figure import Results
from tests.paper_figures.figures.language_outcomes import failed, iterated

POINTS = wikitext2_iterations.EXPERIMENT.points
ALLOWED = [1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64]
BEST = (4, 6, 8, 12, 16, 24, 32, 64)
"""Self-iterations at which the run of each point is best."""
TOKENS = {"begins\na word": 3.0, "goes on\nin a word": 1.0, "number": 4.0, "punctu-\nation": 2.0}
"""Self-iterations by the label of the tick, above the number of the run."""
FIFTHS = (2.0, 1.0, 5.0, 4.0, 6.0)


def curve(number: int) -> dict[int, float]:
    """Best at one count, and worse by as many percent at the most as the number of the run tells."""
    least, last = 20.0 + number, 0 if BEST[number] == 64 else number
    from_three = {1: 300.0 - 7 * number, 2: 60.0 - number, 3: 40.0 - number / 2, BEST[number]: least}
    return {**from_three, 64: least * (1 + last / 100)}


def perplexities(number: int) -> list[float]:
    """The curve of a run at all counts: it stays as it is between those where it changes."""
    known = curve(number)
    values: list[float] = []
    for count in ALLOWED:
        values.append(known.get(count, values[-1] if values else 0.0))
    return values


def outcome(number: int) -> Outcome:
    """A run whose values are all its own; kinds of tokens are in another order than they are drawn."""
    named = {label.replace("-\n", "").replace("\n", " "): value for label, value in TOKENS.items()}
    kinds = {name: {"mean": number + value, "tokens": 10} for name, value in reversed(named.items())}
    return iterated(
        POINTS[number],
        curve(number),
        mean=10.5 + number,
        share_converged=0.9007 + number / 1000,
        kinds=kinds,
        fifths_of_surprise=[number + value for value in FIFTHS],
    )


def all_but_the_first() -> Results:
    """What is collected of all runs, the first of them failed."""
    return wikitext2_iterations.collect([failed(POINTS[0]), *(outcome(n) for n in range(1, len(POINTS)))])
