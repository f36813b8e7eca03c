"""Hard tokens: accuracy where only some tokens get many self-iterations, and by the limit for all."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.visited_states import sample_sequences
from automata.tasks.specification import task_from
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.measurements.iterations import MODES, asking_its_state, group_means

NO_LIMIT = "none"  # the limit that is one of the settings, so large that it is none


class HardTrainingSettings(CheckedConfig):
    """The settings of the measurement."""

    hard_fractions: tuple[float, ...] = (0.1, 0.5)  # probabilities of a hard token at test
    limits: tuple[PositiveInt, ...] = (2, 4, 8, 16)  # the most self-iterations
    no_limit: PositiveInt = 2048  # the most self-iterations where none is set
    length: PositiveInt = 256  # tokens per sequence
    # lengths of their beginnings, measured without a limit
    shorter: tuple[PositiveInt, ...] = (16, 32, 64, 128)
    sequences: PositiveInt = 256  # sequences, sequential mode
    swept_sequences: PositiveInt = 64  # how many of them, the first ones, in simultaneous mode
    rtol: PositiveFloat = 1e-3  # relative tolerance at which a token stops early
    seed: NonNegativeInt = 0  # seed of the sequences


def accuracy_by_limit(run: Run, settings: HardTrainingSettings) -> dict[str, Any]:
    """Measure accuracy with every limit, in both modes, and what the tokens take without one.

    Returned is ``tested``, by the probability of a hard token; without a limit the sequential mode tells
    of iterations, convergence and shorter lengths, too.
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
                right = (output.answers == labels[some]).double()
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
    return {"tested": measured}


def effort(iterations: Tensor, easy: Tensor, limits: Sequence[int]) -> dict[str, Any]:
    """Return the mean self-iterations of all, of easy and of hard tokens, and the share above every limit.

    Hard is here what moves the group; of the tokens that are drawn as hard ones some leave it where it is.
    """
    among = {"all": torch.ones_like(easy), "easy": easy, "hard": ~easy}
    return {
        "iterations": {
            name: iterations[those].double().mean().item() if those.any() else None
            for name, those in among.items()
        },
        "share_above": {str(limit): (iterations > limit).double().mean().item() for limit in limits},
    }


class HardTokenSettings(CheckedConfig):
    """The settings of the measurement."""

    budgets: tuple[PositiveInt, ...] = (4, 6, 8)  # the most self-iterations of an easy token
    full_budget: PositiveInt = 64  # the most self-iterations of a hard token
    shares: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)  # shares of the pairs that count as hard
    length: PositiveInt = 96  # tokens per sequence
    sequences: PositiveInt = 128  # sequences that say what is hard, and as many others that are answered
    rtol: PositiveFloat = 1e-3  # relative tolerance at which a token stops early
    seed: NonNegativeInt = 0  # seed of the sequences and of the random order


def hard_pairs(run: Run, settings: HardTokenSettings) -> dict[str, Any]:
    """Measure accuracy with every budget of the easy tokens and every share of hard ones, in both orders."""
    model, task = as_implicit(run), asking_its_state(run)
    tokens, labels = sample_sequences(task, 2 * settings.sequences, settings.length, settings.seed)
    first = torch.full_like(labels[:, :1], task.start())
    pairs = torch.cat([first, labels[:, :-1]], dim=1) * task.vocabulary_size + tokens
    seen, asked = slice(0, settings.sequences), slice(settings.sequences, None)
    hardness = mean_iterations(
        model, tokens[seen], pairs[seen], task.state_count * task.vocabulary_size, settings
    )
    order = {
        "hardest": np.argsort(-hardness, kind="stable"),
        "random": np.random.default_rng(settings.seed).permutation(len(hardness)),
    }
    answer = partial(_answer, model, tokens[asked], labels[asked], settings)
    return {
        name: {
            str(budget): [answer(_among(pairs[asked], ranks, share), budget) for share in settings.shares]
            for budget in settings.budgets
        }
        for name, ranks in order.items()
    }


@torch.no_grad()
def mean_iterations(
    model: FixedPointModel, tokens: Tensor, pairs: Tensor, count: int, settings: HardTokenSettings
) -> NDArray[np.float64]:
    """Return the mean self-iterations of every pair of state and token; 0 for one that does not occur.

    ``pairs`` holds the number of the pair at each token, ``[sequences, length]``, of ``count``.
    """
    solution = model.run(tokens, solve=_solve(settings.full_budget, settings)).solution
    assert solution is not None
    numbers, iterations = pairs.flatten().numpy(), solution.iterations.flatten().double().numpy()
    return group_means(iterations, numbers, count, otherwise=0.0)


def _among(pairs: Tensor, order: NDArray[np.int64], share: float) -> Tensor:
    """Return whether the pair at each token is among the first so many of an order."""
    chosen = torch.zeros(len(order), dtype=torch.bool)
    chosen[torch.from_numpy(order[: round(share * len(order))].copy())] = True
    return chosen[pairs]


def _solve(budget: int, settings: HardTokenSettings) -> Solve:
    return Solve("sequential", stopping=Stopping(rtol=settings.rtol, max_iterations=budget))


@torch.no_grad()
def _answer(
    model: FixedPointModel,
    tokens: Tensor,
    labels: Tensor,
    settings: HardTokenSettings,
    hard: Tensor,
    budget: int,
) -> dict[str, float]:
    """Answer token after token, the hard ones with the full budget and the others with a smaller one."""
    state = model.init_state(len(tokens))
    right = torch.zeros(labels.shape, dtype=torch.bool)
    spent, converged = 0, 0
    for place in range(tokens.shape[1]):
        following = {name: part.clone() for name, part in state.items()}
        for rows, limit in ((hard[:, place], settings.full_budget), (~hard[:, place], budget)):
            if not rows.any():
                continue
            before = {name: part[rows] for name, part in state.items()}
            output = model.run(tokens[rows, place : place + 1], before, solve=_solve(limit, settings))
            assert output.solution is not None
            for name, part in output.state.items():
                following[name][rows] = part
            right[rows, place] = output.answers[:, 0] == labels[rows, place]
            spent += int(output.solution.iterations.sum())
            converged += int(output.solution.converged.sum())
        state = following
    return {
        "accuracy": right[:, -REPORTED_TOKENS:].double().mean().item(),
        "hard_tokens": hard.double().mean().item(),
        "iterations": spent / tokens.numel(),
        "share_converged": converged / tokens.numel(),
    }
