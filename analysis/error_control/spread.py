"""How far the states of one class lie apart, against how far the classes do: q along words of a task.

A *visit* is the state h that a model has after the beginning of a word and a few more tokens, which are the
same for all visits, so that what these leave in a state is the same in all of them. The *class* of a visit is
the automaton state. For every visit

    q = ‖P(h − m°)‖ / min ‖m − m'‖

with m° the mean of the other visits of its class, m that of all of them, m' that of another class, and P the
projection onto the span of the differences of these means. While q < 1/2, the nearest of the means is that of
the visit's own class. The visits of one block of positions are taken together.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from analysis.error_control.following import common_ending
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.needs import word_problem_of
from analysis.framework.visited_states import entries, finite
from automata.errors import InputError
from implicit.runs.loading import Run

LIMIT = 0.5  # the q below which the nearest mean is certainly the right one
SHARE_BELOW = 0.9
"""The share of the visits that has to be below the limit, and of the answers that has to be right."""
FITTED = 4  # the fewest blocks to which a straight line is fitted
FARTHEST = 100
"""A failure is predicted for words of at most so many times the length that was read. The q of rounding
alone, 10⁻⁵, once grew so little that a failure after 10¹³ tokens was foretold; there was none to come."""
ROUNDING = 1e-10  # a direction of the span that is so much smaller than the largest is rounding


def visit_ratios(states: FloatArray, classes: IntArray) -> FloatArray:
    """Return q of every visit; NaN where its class has no other visit, or where there is no other class.

    States h are ``[visits, n]``; a visit of a class below 0 is left out.

    Example:
        Two classes at −1 and 1 with visits 0.1 away, on both sides; the second direction tells none apart.

        >>> states = np.array([[-1.1, 7.0], [-0.9, 5.0], [0.9, 6.0], [1.1, 6.0]])
        >>> visit_ratios(states, np.array([0, 0, 1, 1])).round(6).tolist()
        [0.1, 0.1, 0.1, 0.1]
    """
    ratios = np.full(len(states), np.nan)
    labels, counts = np.unique(classes, return_counts=True)
    several = labels[(counts >= 2) & (labels >= 0)]
    if len(several) < 2:
        return ratios
    means = np.stack([states[classes == label].mean(axis=0) for label in several])
    origin = means.mean(axis=0)
    _, sizes, directions = np.linalg.svd(means - origin, full_matrices=False)
    directions = directions[sizes > sizes[0] * ROUNDING]
    points, centers = (states - origin) @ directions.T, (means - origin) @ directions.T
    apart = np.linalg.norm(centers[:, None] - centers[None], axis=-1)
    np.fill_diagonal(apart, np.inf)
    for center, nearest, label in zip(centers, apart.min(axis=1), several, strict=True):
        own = classes == label
        # h minus the mean of the others is n/(n − 1) times h minus the mean of all
        distance = own.sum() / (own.sum() - 1) * np.linalg.norm(points[own] - center, axis=-1)
        ratios[own] = distance / nearest if nearest > 0 else np.inf
    return ratios


@dataclass(frozen=True)
class Horizon:
    """The length at which q says that a model fails."""

    length: float | None  # in tokens; None if nothing says that it does
    # whether q was seen at its limit or its growth was extrapolated; whether it did not grow, grew too slowly
    # to say anything of words that long, or there was too little to tell
    how: Literal["reached", "extrapolated", "too far", "none", "too short"]

    @property
    def sentence(self) -> str:
        """The prediction, in words."""
        if self.how == "reached":
            return f"It reached the limit after {self.length:.0f} tokens"
        if self.how == "extrapolated":
            return f"q² extrapolated along a straight line reaches the limit after {self.length:.0f} tokens"
        if self.how == "too far":
            return (
                f"It grows, but a straight line reaches the limit only beyond {FARTHEST} times the words "
                "that were read, too far to predict a failure from them"
            )
        if self.how == "too short":
            return f"Fewer than {FITTED} blocks beyond the training length do not tell whether it grows"
        return "Beyond the training length it does not grow measurably, so no failure is predicted"


@dataclass(frozen=True, eq=False)
class Spread:
    """q and accuracy along the words, block by block.

    Example:
        >>> tokens = np.arange(1, 9.0)
        >>> ratios = np.sqrt(0.01 * tokens)[:, None].repeat(4, axis=1)  # q² = t/100 reaches 1/4 at t = 25
        >>> grown = Spread(tokens, ratios, np.ones(8), np.ones(8), training_length=2)
        >>> grown.horizon.how, round(grown.horizon.length, 6), grown.limit, grown.failure
        ('extrapolated', 25.0, 0.5, None)
    """

    tokens: FloatArray  # the number of tokens that are read in the middle of every block, ``[blocks]``
    ratios: FloatArray  # quantiles of q over the visits: 5%, 50%, 90%, 95%, ``[blocks, 4]``
    known: FloatArray  # the share of the visits that have a q, ``[blocks]``
    accuracy: FloatArray  # the share of right answers, ``[blocks]``
    training_length: int  # in tokens
    share_converged: float = 1.0  # of the fixed points that the model sought; 1 for an explicit model

    @property
    def upper(self) -> FloatArray:
        """The q that 90% of the visits stay below, ``[blocks]``."""
        return self.ratios[:, 2]

    @property
    def limit(self) -> float:
        """1/2, or the largest q at which 90% of the answers were right within the training length.

        Decoders that are trained may read more than the nearest mean.
        """
        read = (
            (self.tokens <= self.training_length) & (self.accuracy >= SHARE_BELOW) & np.isfinite(self.upper)
        )
        return max([LIMIT, *self.upper[read].tolist()])

    @property
    def failure(self) -> float | None:
        """The middle of the first block with an accuracy below 90%; None if there is none."""
        failed = np.flatnonzero(self.accuracy < SHARE_BELOW)
        return float(self.tokens[failed[0]]) if failed.size else None

    @property
    def horizon(self) -> Horizon:
        """When 90% of the visits are no longer below the limit.

        Beyond the training length that counts only if q grows there: if the slope of a straight line through
        q² is more than two standard errors above 0. The line is also what is extrapolated, as for errors that
        add up independently.
        """
        reached = np.flatnonzero(self.upper > self.limit)
        if reached.size and self.tokens[reached[0]] <= self.training_length:
            return Horizon(float(self.tokens[reached[0]]), "reached")
        fitted = np.isfinite(self.upper) & (self.tokens > self.training_length)
        if fitted.sum() < FITTED:
            return Horizon(None, "too short")
        from scipy.stats import linregress  # here: it takes half a second to import, and every command would

        line = linregress(self.tokens[fitted], self.upper[fitted] ** 2)
        if not line.slope > 2 * line.stderr:
            return Horizon(None, "none")
        if reached.size:
            return Horizon(float(self.tokens[reached[0]]), "reached")
        length = float((self.limit**2 - line.intercept) / line.slope)
        if length > FARTHEST * self.tokens[-1]:
            return Horizon(None, "too far")
        return Horizon(length, "extrapolated")

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        names = ("0.05", "0.5", "0.9", "0.95")
        return {
            "tokens": self.tokens,
            "q": dict(zip(names, self.ratios.T, strict=True)),
            "share_of_visits_with_q": self.known,
            "accuracy": self.accuracy,
            "limit": self.limit,
            "share_converged": self.share_converged,
        }


@torch.no_grad()
def measure_spread(run: Run, tokens: Tensor, labels: Tensor, block: int, every: int) -> Spread:
    """Read words token by token, as the model runs, and measure q of the visits of every block.

    Looked at are the parts of the state that Theorem 1 speaks of: a window holds the last tokens only. Words
    and ``labels``, the automaton states after each token, are ``[words, length]``. There is a visit after
    every ``every`` tokens, and ``block`` positions are taken together. Two classes of some block must have
    two visits each.
    """
    model, task, length = run.model, word_problem_of(run), tokens.shape[1]
    layers = model.transitions(tokens[:1, :1]).layer_states
    names = [name for layer in layers for name in layer]
    common, leads = common_ending(task)
    ending = torch.from_numpy(common).to(tokens.device).expand(len(tokens), -1)
    state = model.init_state(len(tokens))
    middles, ratios, known, accuracy, converged = [], [], [], [], []
    for first in range(0, length, block):
        last = min(first + block, length)
        visited, classes, right = [], [], []
        for position in range(first, last):
            output = model.run(tokens[:, position, None], state)
            state = output.state
            if output.solution is not None:
                converged.append(output.solution.share_converged)
            right.append(output.answers[:, 0] == labels[:, position])
            if (position + 1) % every == 0 or position == last - 1:
                branch = model.run(ending, state).state
                visited.append(finite(entries(branch, names)).cpu())
                classes.append(leads[labels[:, position].cpu().numpy()])
        found = visit_ratios(torch.cat(visited).double().numpy(), np.concatenate(classes))
        is_known = ~np.isnan(found)
        middles.append((first + 1 + last) / 2)
        known.append(is_known.mean())
        accuracy.append(torch.cat(right).double().mean().item())
        levels = (0.05, 0.5, 0.9, 0.95)
        ratios.append(np.quantile(found[is_known], levels) if is_known.any() else [np.nan] * len(levels))
    if not any(known):
        raise InputError(
            f"sequences is {len(tokens)}, too few for two visits of two states of {task.name}; "
            "give more sequences, or a larger block"
        )
    return Spread(
        np.array(middles),
        np.array(ratios),
        np.array(known),
        np.array(accuracy),
        run.config.length,
        float(np.mean(converged)) if converged else 1.0,
    )
