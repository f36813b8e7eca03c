"""What a trained model does to an error in what it holds: is it corrected by what the model reads?"""

from typing import Any

import numpy as np
import torch
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.error_control import Pairs, follow_errors
from analysis.error_control.pairs import COMMON_TOKENS
from analysis.framework.visited_states import in_double_precision
from automata.checks import check_type
from automata.errors import InputError
from automata.tasks.partially_observed import PartiallyObserved
from implicit.checked_config import CheckedConfig
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Measurement


class ErrorSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> ErrorSettings().size
        0.001
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    pairs: PositiveInt = Field(default=32, description="pairs of sequences")
    length: int = Field(default=64, ge=COMMON_TOKENS + 2, description="tokens before the error")
    follow: PositiveInt = Field(default=64, description="tokens after it")
    size: PositiveFloat = Field(
        default=1e-3, le=1, description="the error over the distance of the two states of a pair"
    )
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


def pairs_of(task: PartiallyObserved, settings: ErrorSettings) -> Pairs:
    """Return pairs of sequences that differ up to a few tokens before their end, and go on alike.

    The last tokens are those of the first sequence, and begin where an event does in both, so that no
    answer stands behind another question.

    Raises:
        InputError: too few such pairs were found.

    Example:
        >>> from automata.tasks.registry import registered_task
        >>> pairs = pairs_of(registered_task("likely-swaps-3-reveals"), ErrorSettings(pairs=2))
        >>> pairs.first.shape, bool((pairs.first[:, -4:] == pairs.second[:, -4:]).all())
        ((2, 64), True)
    """
    length, count = settings.length, 10 * settings.pairs
    drawn = draw_batch(task, 2 * count, length + settings.follow, settings.seed, Stream.TEST, 0)
    tokens = drawn.tokens.numpy()
    first, second = tokens[:count], tokens[count:]
    here = length - COMMON_TOKENS
    actions, reveals = len(task.automaton.actions), len(task.automaton.reveals)
    asks = [
        (part[:, here - 1] >= actions) & (part[:, here - 1] < actions + reveals) for part in (first, second)
    ]
    chosen = np.flatnonzero(~asks[0] & ~asks[1])[: settings.pairs]
    if len(chosen) < settings.pairs:
        raise InputError(f"pairs is {settings.pairs}, and {len(chosen)} were found; give fewer")
    first, second = first[chosen], second[chosen, :length].copy()
    second[:, here:] = first[:, here:length]
    return Pairs(
        first[:, :length],
        second,
        first[:, length:],
        np.ones((len(chosen), settings.follow + 1), dtype=bool),
        tuple(np.empty(0, dtype=np.int64) for _ in chosen),
    )


@torch.no_grad()
def measure(run: Run, settings: ErrorSettings) -> dict[str, Any]:
    """Measure what is left of an error, over the distance of the two runs between which it lies.

    The error leads a small part of the way from the state after one sequence to that after another. A
    layer that is affine in the state keeps it as large a part of the way, whatever is read; a model that
    corrects errors brings it to 0.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("lazy-swaps-gated-deltanet")
        >>> found = measure(run, ErrorSettings(pairs=2, follow=8))
        >>> sorted(found)
        ['left', 'quarters', 'share_converged']
    """
    check_type("task", run.task, PartiallyObserved, "give a run on a probabilistic automaton")
    assert isinstance(run.task, PartiallyObserved)
    model = in_double_precision(run.model)
    found = follow_errors(
        model, pairs_of(run.task, settings), (settings.size,), settings.max_iterations, settings.seed
    )
    last = found.shares[settings.size][:, -1] / settings.size
    print(np.quantile(found.kept[:,-1]*last,(.25,.5,.75)),np.quantile(found.kept[:,-1],(.25,.5,.75)))
    return {
        "left": float(np.median(last)),
        "quarters": np.quantile(last, (0.25, 0.75)).tolist(),
        "share_converged": found.share_converged,
    }


SETTINGS = ErrorSettings()
ERRORS = Measurement("belief_errors", measure, SETTINGS)
