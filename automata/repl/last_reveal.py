"""Prediction of the next reveal from the last one alone: the shortcut of sessions.

A classifier knows what the last reveal showed, which variable is asked, and nothing of the actions since.
Actions are drawn independently and uniformly, so that arrangements are a random walk, and all that counts are
pairs: Q takes a pair of variables to the pair whose contents they hold after one action. With T the same
for one variable, c the number of actions before the last reveal and m the number since then,

    Pr(i held x, j holds y) = Σ_u T^m[j, u] · Q^c[(i, u), (x, y)]

where x and y are first values, named by their variables. These are matrices of n² rows for n variables.

The accuracy is exact for given numbers of actions that say nothing of which actions these were. So it is
where all actions have the same number of tokens; otherwise where a reveal stands in a row tells of the
actions, and a classifier that knows that place, such as one on a window of tokens, may be right more often.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_integer, check_type, shown
from automata.errors import InputError
from automata.repl.session_format import SessionFormat

_FloatArray = NDArray[np.float64]
_MOST_REPEATED = 6  # n^n assignments of first values are enumerated


def last_reveal_accuracy(form: SessionFormat, counts: Iterable[tuple[int | None, int]]) -> float:
    """Return how often the best answer to a reveal is right, given the reveal before it alone.

    The classifier knows what was revealed (one variable and its value, or all of them), and which variable is
    asked, but neither the place in the session nor anything of the actions; the answer is the best for all of
    the given places together. InputError if there is no place, one is no pair of whole numbers, a number is
    below 0, a reveal shows some variables only, or all of more than six that may begin alike.

    Args:
        form: the format of the sessions. A reveal of it shows one variable or all.
        counts: for each place the number of actions before the last reveal, and the number since then; None
            and the number of all actions where no reveal came before.

    Example:
        One swap of three variables leaves every value as likely.

        >>> round(last_reveal_accuracy(SessionFormat(3), [(9, 1)]), 4)
        0.3333
    """
    check_type("form", form, SessionFormat, "give a SessionFormat")
    check_type("counts", counts, Iterable, "give pairs of numbers of actions, such as [(8, 4)]")
    places = []
    for pair in counts:
        if not isinstance(pair, tuple | list | np.ndarray) or len(pair) != 2:
            raise InputError(f"counts holds {shown(pair)}; give pairs of numbers of actions, such as (8, 4)")
        before, since = pair
        places.append(
            (
                None if before is None else check_integer("counts", before, 0),
                check_integer("counts", since, 0),
            )
        )
    if not places:
        raise InputError("counts is empty; give at least one place")
    revealed = {
        sum(isinstance(piece, int) for piece in reveal.typed + reveal.output) for reveal in form.reveals
    }
    if revealed not in ({1}, {form.variables}):
        raise InputError(f"reveal is {form.reveal!r}, which shows some; give one that shows one or all")
    walk = _Walk(form)
    first = Counter(since for before, since in places if before is None)
    seen = Counter((before, since) for before, since in places if before is not None)
    right = first.total() * walk.without_reveal(first) if first else 0.0
    if seen:
        right += seen.total() * (walk.after_one(seen) if revealed == {1} else walk.after_all(seen))
    return right / len(places)


class _Walk:
    """The random walk of one and of two variables under the actions of a format."""

    def __init__(self, form: SessionFormat) -> None:
        self.form = form
        size = form.variables
        images = np.array(form.permutations) - 1
        hidden = form.hidden_action
        happens = 1.0 if hidden is None else 1 - form.hidden_fraction * (1 - hidden.probability)
        moves = np.eye(size)[images]  # [actions, variable, whose contents it takes]
        self.single = happens * moves.mean(axis=0) + (1 - happens) * np.eye(size)
        both = np.einsum("aix,ajy->ijxy", moves, moves).reshape(size**2, size**2) / len(images)
        self.pair = happens * both + (1 - happens) * np.eye(size**2)

    def since(self, counts: Mapping[int, int]) -> _FloatArray:
        """Return the mean of T^m, ``[j, u]``: the probability that j now holds what u held."""
        powers = [count * np.linalg.matrix_power(self.single, actions) for actions, count in counts.items()]
        return np.sum(powers, axis=0) / sum(counts.values())

    def without_reveal(self, counts: Mapping[int, int]) -> float:
        """Return the accuracy of the best answer to the asked variable alone."""
        if self.form.initial != "ordered":
            return 1 / self.form.variables
        return float(self.since(counts).max(axis=1).mean())

    def after_one(self, counts: Counter[tuple[int, int]]) -> float:
        """Return the accuracy after a reveal of one variable, drawn uniformly, as the asked one is."""
        size = self.form.variables
        if self.form.initial == "ordered":
            joint = np.zeros((size,) * 4)  # [i, j, x, y]
            for (before, since), count in counts.items():
                pairs = np.linalg.matrix_power(self.pair, before).reshape((size,) * 4)
                joint += count / counts.total() * np.einsum("ju,iuxy->ijxy", self.since({since: 1}), pairs)
            return float(joint.max(axis=3).sum() / size**2)
        same = self.since(_since(counts))  # that j holds what i held
        if self.form.initial == "shuffled":
            return float(np.maximum(same, (1 - same) / (size - 1)).mean())
        return float((same + (1 - same) / size).mean())

    def after_all(self, counts: Counter[tuple[int, int]]) -> float:
        """Return the accuracy after a reveal of all variables."""
        size = self.form.variables
        since = self.since(_since(counts))
        if self.form.initial != "repeated":
            return float(since.max(axis=1).mean())
        if size > _MOST_REPEATED:
            raise InputError(
                f"variables is {size}, too many to enumerate what they hold; give at most {_MOST_REPEATED}, "
                "or other first values"
            )
        held = np.array(list(product(range(size), repeat=size)))  # every arrangement is as likely
        shares = np.einsum("ju,auv->ajv", since, np.eye(size)[held])
        return float(shares.max(axis=2).mean())


def _since(counts: Counter[tuple[int, int]]) -> Counter[int]:
    """Count the numbers of actions since the last reveal alone."""
    found: Counter[int] = Counter()
    for (_, since), count in counts.items():
        found[since] += count
    return found
