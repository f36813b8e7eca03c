"""What a trained model does to an error in what it holds: is it corrected by what the model reads?"""

import itertools
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.belief.probe import total_variation
from analysis.error_control import Pairs, follow_errors
from analysis.error_control.pairs import COMMON_TOKENS
from analysis.framework.visited_states import in_double_precision
from automata.checks import check_type
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.tasks.partially_observed import PartiallyObserved
from implicit.checked_config import CheckedConfig
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch

FloatArray = NDArray[np.float64]


class ErrorSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> ErrorSettings().size
        0.001
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pairs: PositiveInt = Field(default=32, description="pairs of sequences")
    length: int = Field(default=64, ge=COMMON_TOKENS + 2, description="tokens before the error")
    follow: tuple[PositiveInt, ...] = Field(
        default=(64, 256), min_length=1, description="tokens after it, at which what is left is measured"
    )
    size: PositiveFloat = Field(
        default=1e-3, le=1, description="the error over the distance of the two states of a pair"
    )
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


def pairs_of(task: PartiallyObserved, settings: ErrorSettings) -> Pairs:
    """Return pairs of sequences that differ up to a few tokens before their end, and go on alike.

    The last tokens are those of the first sequence. Pairs after which the exact filter has the same belief
    are left out, as are those whose second sequence cannot occur.

    Raises:
        InputError: too few such pairs were found.

    Example:
        >>> from automata.tasks.registry import registered_task
        >>> pairs = pairs_of(registered_task("likely-swaps-3-reveals"), ErrorSettings(pairs=2))
        >>> pairs.first.shape, bool((pairs.first[:, -4:] == pairs.second[:, -4:]).all())
        ((2, 64), True)
    """
    length, count = settings.length, 10 * settings.pairs
    drawn = draw_batch(task, 2 * count, length + max(settings.follow), settings.seed, Stream.TEST, 0)
    first, second = np.split(drawn.tokens.numpy().copy(), 2)
    here = length - COMMON_TOKENS
    second[:, here:] = first[:, here:]
    apart = (row for row in range(count) if _part(task, first[row, :length], second[row, :length]))
    chosen = list(itertools.islice(apart, settings.pairs))
    if len(chosen) < settings.pairs:
        raise InputError(f"pairs is {settings.pairs}, and {len(chosen)} were found; give fewer")
    return Pairs(
        first[chosen, :length],
        second[chosen, :length],
        first[chosen, length:],
        np.ones((len(chosen), max(settings.follow) + 1), dtype=bool),
        tuple(np.empty(0, dtype=np.int64) for _ in chosen),
    )


def _part(task: PartiallyObserved, here: IntArray, there: IntArray) -> bool:
    """Whether both can occur and leave different beliefs."""
    try:
        one, other = (task.beliefs(tokens[None])[:, -1] for tokens in (here, there))
    except InputError:
        return False
    return bool(total_variation(one, other) > 0)


@torch.no_grad()
def belief_errors(run: Run, settings: ErrorSettings) -> dict[str, Any]:
    """Measure what is left of an error in the state, and of one in the belief of the exact filter.

    The error leads a small part of the way from the state after one sequence to that after another; what is
    left is its norm over that at first. In place of it the exact filter has the whole of the way: what is
    left of the total variation between the two beliefs. An error that stays is one that nothing the model
    reads corrects; whether it changes predictions is not measured.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("lazy-swaps-gated-deltanet")
        >>> found = belief_errors(run, ErrorSettings(pairs=2, follow=(8,)))
        >>> sorted(found), list(found["left"])
        (['exact', 'left', 'share_converged'], [8])
    """
    check_type("task", run.task, PartiallyObserved, "give a run on a probabilistic automaton")
    assert isinstance(run.task, PartiallyObserved)
    pairs = pairs_of(run.task, settings)
    model = in_double_precision(run.model)
    found = follow_errors(model, pairs, (settings.size,), settings.max_iterations, settings.seed)
    errors = found.shares[settings.size] / settings.size * found.distances
    words = [np.concatenate([part, pairs.after], axis=1) for part in (pairs.first, pairs.second)]
    apart = total_variation(*(run.task.beliefs(word)[:, settings.length - 1 :] for word in words))
    return {
        "left": {after: _quarters(errors[:, after]) for after in settings.follow},
        "exact": {after: _quarters(apart[:, after] / apart[:, 0]) for after in settings.follow},
        "share_converged": found.share_converged,
    }


def _quarters(values: FloatArray) -> list[float]:
    """The lower quartile, the median and the upper quartile of those that are numbers."""
    return [float(value) for value in np.nanquantile(values, (0.25, 0.5, 0.75))]
