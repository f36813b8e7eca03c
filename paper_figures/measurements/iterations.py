"""Self-iterations at test: accuracy by their number, and which tokens take how many."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.arrays import FloatArray
from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.visited_states import sample_sequences
from analysis.length_generalization import LengthSettings
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel, ModelOutput
from implicit.modes import Mode, SequenceSolution, Solve
from implicit.runs.loading import Run
from paper_figures.measurements.lengths import accuracy

Counts = NDArray[np.int64]


def kinds_of(
    tokens: Counts, labels: Counts, answers: Counts, task: WordProblem, window: int
) -> dict[str, Counts]:
    """Number the groups that the tokens fall into, by what distinguishes them.

    ``labels`` are the right states after each token, ``answers`` those of the model, ``[sequences, length]``;
    ``window`` last tokens count as one kind.
    """
    before, believed = states_before(labels, task.start()), states_before(answers, task.start())
    return {
        "state changes or not": (before != labels).astype(np.int64),
        "token": tokens,
        f"last {window} tokens": last_tokens(tokens, window, task.vocabulary_size),
        "position": np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape),
        "state before": before,
        "state before and token": before * task.vocabulary_size + tokens,
        "state answered before and token": believed * task.vocabulary_size + tokens,
    }


def states_before(states: Counts, first: int) -> Counts:
    """Return the state before each token, from those after each."""
    return np.concatenate([np.full_like(states[:, :1], first), states[:, :-1]], axis=1)


def last_tokens(tokens: Counts, count: int, vocabulary: int) -> Counts:
    """Return a number for the last so many tokens at each, those that are not there yet as one more token."""
    numbers = np.zeros_like(tokens)
    for back in range(count - 1, -1, -1):
        there = np.full_like(tokens, vocabulary)
        there[:, back:] = tokens[:, : tokens.shape[1] - back]
        numbers = numbers * (vocabulary + 1) + there
    return numbers


def counted(iterations: Counts, thresholds: tuple[int, ...]) -> dict[str, Any]:
    """Tell how many tokens need how many self-iterations, and how many need more than each threshold.

    Returns:
        ``histogram``: tokens by number; ``more_than``: shares of the tokens; ``more_than_twice_the_median``;
        ``iterations_of_hardest_tenth``: the share of all self-iterations that the tenth of the tokens takes
        which takes most (0.1 if all take equally many).
    """
    numbers, tokens = np.unique(iterations, return_counts=True)
    hardest = np.sort(iterations, axis=None)[-max(1, iterations.size // 10) :]
    return {
        "histogram": dict(zip(map(str, numbers.tolist()), tokens.tolist(), strict=True)),
        "mean": float(iterations.mean()),
        "median": float(np.median(iterations)),
        "more_than": {str(limit): float((iterations > limit).mean()) for limit in thresholds},
        "more_than_twice_the_median": float((iterations > 2 * np.median(iterations)).mean()),
        "iterations_of_hardest_tenth": float(hardest.sum() / iterations.sum()),
    }


def compared(
    iterations: Counts, kinds: Mapping[str, Counts], labels: Counts, answers: Counts, first: int
) -> dict[str, Any]:
    """Compare the self-iterations of tokens by what distinguishes the tokens.

    ``kinds`` are as `kinds_of` numbers them, ``first`` is the state before the first token.

    Returns:
        ``explained``: the variance of the iterations that each kind explains of other sequences, and into how
        many groups it parts the tokens; ``means``: of the tokens that change the state or not, are answered
        rightly or not (None where there are none), and by position in powers of two.
    """
    before = states_before(labels, first)
    means: dict[str, float | None] = {
        "state changes": _mean(iterations, before != labels),
        "state stays": _mean(iterations, before == labels),
        "answered rightly": _mean(iterations, answers == labels),
        "answered wrongly": _mean(iterations, answers != labels),
    }
    length, place, end = iterations.shape[1], 0, 1
    while place < length:
        until = min(end, length)
        means[f"positions {place + 1} to {until}"] = float(iterations[:, place:until].mean())
        place, end = until, 2 * end
    return {"explained": explained_by(iterations, kinds), "means": means}


def explained_by(iterations: Counts, kinds: Mapping[str, Counts]) -> dict[str, dict[str, float | None]]:
    """Return the variance that each kind explains of other sequences, and its number of groups."""
    return {
        name: {"variance": explained_variance(iterations, kind), "groups": len(np.unique(kind))}
        for name, kind in kinds.items()
    }


def explained_variance(values: ArrayLike, groups: ArrayLike) -> float | None:
    """Return the share of the variance that the means of groups explain of sequences that they are not from.

    The means of the groups are taken over one half of the sequences and foretell the other, and the other way
    round; a group that the first half has not gets its overall mean. So many small groups, which fit the
    noise of their own tokens, gain nothing by it, and useless ones can fall below 0. The result is 1 −
    squared errors of the group means / squared errors of the overall mean; None if nothing varies.
    """
    numbers = np.asarray(values, np.float64)
    # Numbered anew: what there are of them counts, not how large they are, which words of tokens make them.
    kinds, numbered = np.unique(groups, return_inverse=True)
    places, half = numbered.reshape(numbers.shape), len(numbers) // 2
    left, total = 0.0, 0.0
    for fit, test in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        overall = numbers[fit].mean()
        means = group_means(numbers[fit], places[fit], len(kinds), otherwise=overall)
        left += float(((numbers[test] - means[places[test]]) ** 2).sum())
        total += float(((numbers[test] - overall) ** 2).sum())
    return 1 - left / total if total > 0 else None


def group_means(values: FloatArray, groups: NDArray[np.int64], count: int, *, otherwise: float) -> FloatArray:
    """Return the mean of every group."""
    occurrences = np.bincount(groups.ravel(), minlength=count)
    sums = np.bincount(groups.ravel(), weights=values.ravel(), minlength=count)
    means: FloatArray = np.where(occurrences > 0, sums / np.maximum(occurrences, 1), otherwise)
    return means


def beyond(
    iterations: Counts, kinds: Mapping[str, Counts], right: NDArray[np.bool_], thresholds: tuple[int, ...]
) -> dict[str, dict[str, float | int | None]]:
    """Describe the tokens that need more self-iterations than each threshold, or than twice the median.

    ``kinds`` are as `kinds_of` numbers them, ``right`` says which tokens are answered rightly. Returned are
    how many ``tokens`` they are, in how many ``pairs`` of state and token they lie, and the shares of them
    that are ``first`` in their sequence, ``change`` the state, are answered ``wrongly``.
    """
    limits = {str(limit): float(limit) for limit in thresholds}
    limits["twice the median"] = 2 * float(np.median(iterations))
    found = {}
    for name, limit in limits.items():
        chosen = iterations > limit
        shares = {
            "first": kinds["position"] == 0,
            "change": kinds["state changes or not"] == 1,
            "wrongly": ~right,
        }
        found[name] = {
            "tokens": int(chosen.sum()),
            "pairs": len(np.unique(kinds["state before and token"][chosen])),
            **{what: _mean(there, chosen) for what, there in shares.items()},
        }
    return found


def _mean(values: NDArray[Any], chosen: NDArray[np.bool_]) -> float | None:
    return float(values[chosen].mean()) if chosen.any() else None


MODES: tuple[Mode, ...] = ("sequential", "simultaneous")


class BudgetSettings(CheckedConfig):
    """The settings of the measurement."""

    # the most self-iterations per token
    budgets: tuple[PositiveInt, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    length: PositiveInt = 128  # tokens per sequence
    sequences: PositiveInt = 64  # sequences
    rtol: PositiveFloat = 1e-3  # relative tolerance at which a token stops early
    seed: NonNegativeInt = 0  # seed of the sequences


def budgets(run: Run, settings: BudgetSettings) -> dict[str, Any]:
    """Measure accuracy and share of converged tokens of a run with every budget, in both modes."""
    found: dict[str, Any] = {}
    common = settings.model_dump(include={"sequences", "rtol", "seed"})
    for mode in MODES:
        by_budget = {
            str(budget): accuracy(
                run, LengthSettings(lengths=(settings.length,), mode=mode, max_iterations=budget, **common)
            )
            for budget in settings.budgets
        }
        found["chance"] = by_budget[str(settings.budgets[-1])]["chance"]
        found[mode] = {
            name: {budget: numbers[name][settings.length] for budget, numbers in by_budget.items()}
            for name in ("accuracy", "share_converged")
        }
    return found


class TokenSettings(CheckedConfig):
    """The settings of the measurement."""

    tolerances: tuple[PositiveFloat, ...] = (1e-2, 1e-4)  # relative tolerances, from loose to tight
    # tokens per sequence, rising; shorter ones are prefixes
    lengths: tuple[PositiveInt, ...] = (32, 64, 128, 256, 512)
    sequences: PositiveInt = 128  # sequences in sequential mode
    swept_sequences: PositiveInt = 8  # the first of these, in simultaneous mode
    max_iterations: PositiveInt = 1000  # the most self-iterations of a token
    max_sweeps: PositiveInt = 4096  # the most sweeps over the sequences
    thresholds: tuple[PositiveInt, ...] = (4, 8, 16, 32)  # numbers of self-iterations that tokens may exceed
    window: PositiveInt = 4  # last tokens, which the convolution of a model sees
    seed: NonNegativeInt = 0  # seed of the sequences


@torch.no_grad()
def token_iterations(run: Run, settings: TokenSettings) -> dict[str, Any]:
    """Count self-iterations in both modes, at every tolerance, and those of training from its metrics."""
    model, task, tokens, labels = _drawn(run, settings)
    return {
        "tolerances": {
            f"{rtol:g}": _at_tolerance(model, task, tokens, labels, rtol, settings)
            for rtol in settings.tolerances
        },
        "training": training_course(run),
    }


@torch.no_grad()
def hardest_tokens(run: Run, settings: TokenSettings) -> dict[str, Any]:
    """Tell who the tokens are that need most self-iterations in sequential mode, at every tolerance.

    Returns:
        ``hardest``, by tolerance: ``beyond``, see `beyond`; ``explained``: as of `compared`, without the
        first token of a sequence, which meets the empty state.
    """
    model, task, tokens, labels = _drawn(run, settings)
    found = {}
    for rtol in settings.tolerances:
        stopping = Stopping(rtol=rtol, max_iterations=settings.max_iterations)
        output, solution = _solve(model, tokens, "sequential", stopping)
        iterations, answers = solution.iterations.cpu().numpy(), output.answers.cpu().numpy()
        kinds = kinds_of(tokens.numpy(), labels.numpy(), answers, task, settings.window)
        found[f"{rtol:g}"] = {
            "beyond": beyond(iterations, kinds, answers == labels.numpy(), settings.thresholds),
            "explained": explained_by(iterations[:, 1:], {name: kind[:, 1:] for name, kind in kinds.items()}),
        }
    return {"hardest": found}


def asking_its_state(run: Run) -> WordProblem:
    """Return the task of a run as a word problem that asks for its state."""
    task = word_problem_of(run)
    if task.output_size != task.state_count:
        raise InputError(f"task {task.name} does not ask for its state; give a run of one that does")
    return task


def _drawn(run: Run, settings: TokenSettings) -> tuple[FixedPointModel, WordProblem, Tensor, Tensor]:
    """The model and the task of a run, tokens, and the state after each."""
    model, task = as_implicit(run), asking_its_state(run)
    tokens, labels = sample_sequences(task, settings.sequences, settings.lengths[-1], settings.seed)
    return model, task, tokens, labels


def _at_tolerance(
    model: FixedPointModel,
    task: WordProblem,
    tokens: Tensor,
    labels: Tensor,
    rtol: float,
    settings: TokenSettings,
) -> dict[str, Any]:
    few = tokens[: settings.swept_sequences]
    stopping = Stopping(rtol=rtol, max_iterations=settings.max_iterations)
    sweeping = Stopping(rtol=rtol, max_iterations=settings.max_sweeps)
    output, sequential = _solve(model, tokens, "sequential", stopping)
    _, simultaneous = _solve(model, few, "simultaneous", sweeping)
    answers = output.answers.cpu()
    iterations = sequential.iterations.cpu().numpy()
    kinds = kinds_of(tokens.numpy(), labels.numpy(), answers.numpy(), task, settings.window)
    return {
        "sequential": {
            "iterations": {str(length): float(iterations[:, :length].mean()) for length in settings.lengths},
            "share_converged": _converged(sequential, settings),
        },
        "simultaneous": {
            "sweeps": {
                # A token is done when all before it are, so the last one of a prefix is its last to be.
                str(length): simultaneous.iterations[:, length - 1].tolist()
                for length in settings.lengths
            },
            "share_converged": _converged(simultaneous, settings),
        },
        "auto": {
            str(len(batch)): _solve(model, batch[:, : settings.lengths[0]], "auto", stopping)[1].mode
            for batch in (few, tokens)
        },
        "tokens": {
            "accuracy": float((answers == labels).double().mean()),
            **counted(iterations, settings.thresholds),
            **compared(iterations, kinds, labels.numpy(), answers.numpy(), task.start()),
        },
    }


def _solve(
    model: FixedPointModel, tokens: Tensor, mode: Mode, stopping: Stopping
) -> tuple[ModelOutput, SequenceSolution]:
    output = model.run(tokens.to(model.device), solve=Solve(mode, stopping=stopping))
    assert output.solution is not None
    return output, output.solution


def _converged(solution: SequenceSolution, settings: TokenSettings) -> dict[str, float]:
    return {str(length): float(solution.converged[:, :length].double().mean()) for length in settings.lengths}


def training_course(run: Run) -> list[dict[str, float]]:
    """Return the mean self-iterations per token of training and validation, as the free phase recorded them.

    Those of the bounded phase are of a number that is set, whatever the tolerance.
    """
    return [
        {
            "step": entry["step"],
            "length": entry["length"],
            "iterations": entry["mean_iterations"],
            "share_converged": entry["share_converged"],
            "validation_iterations": entry["validation"][str(run.config.length)]["mean_iterations"],
        }
        for entry in run.metrics
        if entry.get("phase") == "free" and "mean_iterations" in entry
    ]
