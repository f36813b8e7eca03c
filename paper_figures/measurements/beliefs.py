"""Beliefs about hidden swaps: distance from the posterior, errors, worst sequences, constructed filters."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.belief import BeliefSettings, measure_belief, worst_rounds
from analysis.belief.exact import ExactSequences
from analysis.belief.prediction import divergence
from analysis.belief.probe import total_variation
from analysis.belief.statistics import binned, doubling_edges
from analysis.error_control import Pairs, follow_errors
from analysis.error_control.following import COMMON_TOKENS
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.visited_states import in_double_precision
from analysis.jacobian import JacobianSettings
from analysis.jacobian import analyse as analyse_jacobians
from automata.checks import check_type
from automata.errors import InputError
from automata.tasks.partially_observed import PartiallyObserved
from implicit.checked_config import CheckedConfig
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from theory.belief.filters import BayesFilter

_BINS = ("from", "to", "mean", "low", "high")


class HiddenSettings(BeliefSettings):
    """The settings of the measurement."""

    # that the next event is a reveal, and not an action
    reveal_probabilities: tuple[float, ...] = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)


def belief(run: Run, settings: HiddenSettings) -> dict[str, Any]:
    """Measure the divergence from the exact posterior, the belief in the state, and the state's norm."""
    numbers = measure_belief(run, settings).numbers()
    predictions, probe, norms = numbers["predictions"], numbers["probe"], numbers["norms"]
    return {
        "by_length": {
            str(length): {name: found[name] for name in ("kl", "accuracy", "bayes_accuracy")}
            for length, found in predictions["by_length"].items()
        },
        "by_position": [{name: place[name] for name in _BINS} for place in predictions["kl_by_position"]],
        "by_reveal_probability": {
            str(probability): _with_reveals(run, settings, probability)
            for probability in settings.reveal_probabilities
        },
        "belief": {
            str(length): {name: found[name] for name in ("distance", "inconsistency", "constant")}
            for length, found in probe.get("by_length", {}).items()
        },
        "linear": bool(norms and norms["linear_in_state"]),
        "norms": []
        if norms is None
        else [
            {
                "tokens": [int(token) for token in norms["tokens"]],
                "median": [float(value) for value in layer["norm"]["0.5"]],
                "rate_per_token": layer["rate_per_token"],
            }
            for layer in norms["layers"]
        ],
        "exact_rate": numbers["exact_filter"]["mean"],
    }


def _with_reveals(run: Run, settings: BeliefSettings, probability: float) -> dict[str, float]:
    """Return the divergence at the training length where reveals are as frequent as this."""
    task = run.task
    assert isinstance(task, PartiallyObserved)
    other = PartiallyObserved(task.automaton, task.target, probability, name=task.name)
    found = measure_belief(
        replace(run, task=other), settings.model_copy(update={"probe": False, "multiples": (1,)})
    )
    estimate = found.kl(run.reading_length)
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}


class AdversarySettings(CheckedConfig):
    """The settings of the search."""

    rounds: PositiveInt = 12  # reveals of a sequence
    actions: PositiveInt = 3  # swaps before each reveal
    beam: PositiveInt = 8  # candidates that are kept after each round
    likely: float = Field(default=0.2, gt=0, le=1)  # least probability of a likely value
    sequences: PositiveInt = 256  # sequences of random rounds
    seed: NonNegativeInt = 0  # seed of these


def worst_found(run: Run, settings: AdversarySettings) -> dict[str, Any]:
    """Measure the mean divergence over random rounds, the worst of likely values, and the worst of all."""
    chosen = {"beam": settings.beam, "sequences": settings.sequences, "seed": settings.seed}
    worst = worst_rounds(run, settings.rounds, settings.actions, **chosen)
    likely = worst_rounds(run, settings.rounds, settings.actions, least_probability=settings.likely, **chosen)
    return {
        "random": worst.random_mean,
        "likely": likely.mean,
        "any": max(worst.mean, likely.mean),  # a sequence of likely values is one of any values, too
        "by_round": {
            "random": worst.random.mean(axis=0).tolist(),
            "likely": likely.errors.tolist(),
            "any": worst.errors.tolist(),
        },
    }


class BridgeSettings(BeliefSettings):
    """The settings of the measurement."""

    multiples: tuple[PositiveInt, ...] = (1, 2, 4, 8, 16, 32)
    sequences: int = 32
    probe: bool = False
    states: PositiveInt = 16  # states at which Theorem 1 is checked


def bridge(run: Run, settings: BridgeSettings) -> dict[str, Any]:
    """Measure the divergence of a run by position, and Theorem 1 for implicit models.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = BridgeSettings(sequences=4, multiples=(1,))
        >>> found = bridge(load_run("lazy-swaps-gated-deltanet"), small)
        >>> sorted(found), found["theorem1"]
        (['by_position', 'theorem1', 'unconverged'], None)
    """
    found = measure_belief(run, settings)
    places = found.numbers()["predictions"]["kl_by_position"]
    theorem1 = None
    if run.model.implicit is not None:
        checked = analyse_jacobians(run, JacobianSettings(states=settings.states, seed=settings.seed))
        theorem1 = checked.theorem1()
    return {
        "by_position": [{name: place[name] for name in ("from", "to", "mean")} for place in places],
        "unconverged": found.unconverged,
        "theorem1": theorem1,
    }


def filter_divergences(task: PartiallyObserved, exact: ExactSequences) -> dict[str, Any]:
    """Return the divergence by position of filters whose weights are those of the automaton.

    ``implicit`` is the Bayes filter as an implicit SSM in float64; ``linear float32`` and ``linear bfloat16``
    are the linear filter without the division, in these formats, read as probabilities after a division, and
    as the uniform belief where nothing is left of its mass.
    """
    automaton = task.automaton
    belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    numbers, events = _events(task, exact.tokens, belief)
    beliefs = {"implicit": belief.ssm().run(numbers)}
    for name, dtype in (("linear float32", torch.float32), ("linear bfloat16", torch.bfloat16)):
        beliefs[name] = _linear(belief, numbers, dtype)
    questions = task.questions(exact.tokens)
    found = {}
    for name, after in beliefs.items():
        held = after.double().clamp(min=0).numpy()
        mass = held.sum(axis=-1, keepdims=True)
        held = np.divide(held, mass, out=np.full_like(held, 1 / held.shape[-1]), where=mass > 0)
        # the belief before a question is that after the last event before it; b₀ before any
        last = events[exact.rows, exact.columns] - 1
        here = np.where(
            (last >= 0)[:, None], held[exact.rows, np.maximum(last, 0)], np.array(automaton.initial)
        )
        predicted = task.predicted(here, questions[exact.rows, exact.columns])
        with np.errstate(divide="ignore"):
            errors = divergence(exact.answers, np.log(predicted))
        edges = doubling_edges(exact.tokens.shape[1], 2)
        bins = binned(errors, exact.rows, exact.columns + 1, edges)
        places = zip(bins.low.tolist(), bins.high.tolist(), bins.means.tolist(), strict=True)
        found[name] = [
            {"from": low, "to": high, "mean": mean}
            for low, high, mean in places
            if mean == mean  # no NaN
        ]
    return found


def _events(task: PartiallyObserved, tokens: IntArray, belief: BayesFilter) -> tuple[Tensor, IntArray]:
    """Return the observations of each sequence without gaps, and how many came up to each token."""
    automaton = task.automaton
    actions, reveals = len(automaton.actions), len(automaton.reveals)
    number = {}
    for reveal, name in enumerate(automaton.reveals):
        for place, value in enumerate(automaton.value_names[name]):
            number[reveal, task.value_names.index(value)] = int(belief.offsets[reveal]) + place
    is_event = (tokens < actions) | (tokens >= actions + reveals)
    counts = is_event.cumsum(axis=1)
    numbers = np.zeros((len(tokens), int(counts.max())), dtype=np.int64)
    for row, sequence in enumerate(tokens.tolist()):
        found = [
            token if token < actions else number[sequence[place - 1] - actions, token - actions - reveals]
            for place, token in enumerate(sequence)
            if is_event[row, place]
        ]
        numbers[row, : len(found)] = found
    return torch.from_numpy(numbers), counts


def _linear(belief: BayesFilter, numbers: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what the linear filter holds after every event in a floating-point format."""
    operators = belief.operators.to(dtype)
    current, states = belief.initial.to(dtype).expand(len(numbers), -1), []
    for position in range(numbers.shape[1]):
        current = (operators[numbers[:, position]] @ current[..., None])[..., 0]
        states.append(current)
    return torch.stack(states, dim=1)


class ErrorSettings(CheckedConfig):
    """The settings of the measurement."""

    pairs: PositiveInt = 32  # pairs of sequences
    length: int = Field(default=64, ge=COMMON_TOKENS + 2)  # tokens before the error
    # tokens after it, at which what is left is measured
    follow: tuple[PositiveInt, ...] = Field(default=(64, 256), min_length=1)
    size: PositiveFloat = Field(default=1e-3, le=1)  # the error over the distance of the two states of a pair
    max_iterations: PositiveInt = 1000  # the most self-iterations per token
    seed: NonNegativeInt = 0  # seed of the sequences


def pairs_of(task: PartiallyObserved, settings: ErrorSettings) -> Pairs:
    """Return pairs of sequences that differ up to a few tokens before their end, and go on alike.

    The last tokens are those of the first sequence. Pairs after which the exact filter has the same belief
    are left out, as are those whose second sequence cannot occur.
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
    """Return whether both can occur and leave different beliefs."""
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
