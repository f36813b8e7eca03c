"""What is measured of models trained on few hard tokens: accuracy by limit, and what tokens take."""

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.visited_states import sample_sequences
from automata.tasks.specification import task_from
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS

MODES: tuple[Mode, ...] = ("sequential", "simultaneous")
NO_LIMIT = "none"
"""The limit that is one of the settings, so large that it is none."""


class HardTrainingSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> HardTrainingSettings().hard_fractions
        (0.1, 0.5)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    hard_fractions: tuple[float, ...] = Field(
        default=(0.1, 0.5), description="probabilities of a hard token at test"
    )
    limits: tuple[PositiveInt, ...] = Field(default=(2, 4, 8, 16), description="the most self-iterations")
    no_limit: PositiveInt = Field(default=2048, description="the most self-iterations where none is set")
    length: PositiveInt = Field(default=256, description="tokens per sequence")
    shorter: tuple[PositiveInt, ...] = Field(
        default=(16, 32, 64, 128), description="lengths of their beginnings, measured without a limit"
    )
    sequences: PositiveInt = Field(default=256, description="sequences, sequential mode")
    swept_sequences: PositiveInt = Field(
        default=64, description="how many of them, the first ones, in simultaneous mode"
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance at which a token stops early")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


def measure(run: Run, settings: HardTrainingSettings) -> dict[str, Any]:
    """Measure accuracy with every limit, in both modes, and what the tokens take without one.

    Returns:
        By the probability of a hard token: the accuracy by mode and limit; for the sequential mode without a
        limit the mean self-iterations of all, of easy and of hard tokens, the share of tokens that took more
        than each limit, the share that converged, and the accuracy at shorter lengths.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = HardTrainingSettings(
        ...     hard_fractions=(1.0,), limits=(64,), length=4, shorter=(), sequences=2, swept_sequences=1
        ... )
        >>> found = measure(load_run("parity"), small)["1.0"]
        >>> found["sequential"], found["simultaneous"]["none"], found["share_above"]
        ({'64': 1.0, 'none': 1.0}, 1.0, {'64': 0.0})
    """
    model, task = as_implicit(run), word_problem_of(run)
    limits = {**{str(limit): limit for limit in settings.limits}, NO_LIMIT: settings.no_limit}
    measured: dict[str, Any] = {}
    for fraction in settings.hard_fractions:
        drawn = sample_sequences(
            task_from(task, fraction), settings.sequences, settings.length, settings.seed
        )
        tokens, labels = (part.to(run.model.device) for part in drawn)
        found: dict[str, Any] = {}
        for mode in MODES:
            some = slice(settings.swept_sequences if mode == "simultaneous" else None)
            found[mode] = {}
            for name, limit in limits.items():
                solve = Solve(mode, stopping=Stopping(rtol=settings.rtol, max_iterations=limit))
                with torch.no_grad():
                    output = model.run(tokens[some], solve=solve)
                right = (output.logits.argmax(dim=-1) == labels[some]).double()
                found[mode][name] = right[:, -REPORTED_TOKENS:].mean().item()
                if mode == "sequential" and name == NO_LIMIT:
                    assert output.solution is not None
                    easy = torch.isin(tokens, tokens.new_tensor(task.easy_tokens))
                    found |= effort(output.solution.iterations, easy, settings.limits)
                    found["share_converged"] = output.solution.share_converged
                    found["by_length"] = {
                        str(length): right[:, max(0, length - REPORTED_TOKENS) : length].mean().item()
                        for length in (*settings.shorter, settings.length)
                    }
        measured[str(fraction)] = found
    return measured


def effort(iterations: Tensor, easy: Tensor, limits: Sequence[int]) -> dict[str, Any]:
    """Return the mean self-iterations of all, of easy and of hard tokens, and the share above every limit.

    Hard is here what moves the group; of the tokens that are drawn as hard ones some leave it where it is.

    Args:
        iterations: of every token, ``[sequences, length]``.
        easy: which tokens are easy, bool ``[sequences, length]``.
        limits: of self-iterations.

    Example:
        >>> effort(torch.tensor([[3, 9]]), torch.tensor([[True, False]]), [4])
        {'iterations': {'all': 6.0, 'easy': 3.0, 'hard': 9.0}, 'share_above': {'4': 0.5}}
    """
    among = {"all": torch.ones_like(easy), "easy": easy, "hard": ~easy}
    return {
        "iterations": {
            name: iterations[those].double().mean().item() if those.any() else None
            for name, those in among.items()
        },
        "share_above": {str(limit): (iterations > limit).double().mean().item() for limit in limits},
    }
