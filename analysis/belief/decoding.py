"""The belief decoded from the state of a model, against the exact one and against its own update.

Two models can predict the same and still hold different things: at the last tokens of every length are
measured

- the distance of the belief decoded from the state s_t from the exact belief b_t;
- the distance of the belief decoded from s_{t+1} from what Bayes' rule makes of the one decoded from s_t with
  token t + 1: *one-step consistency*, 0 where the state is updated as the belief that it holds should be.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.belief.exact import ExactSequences, exact_sequences
from analysis.belief.probe import Features, Probe, belief_divergence, fit_probe, total_variation
from analysis.belief.reading import Block, read_in_blocks
from analysis.belief.settings import BeliefSettings
from analysis.belief.statistics import Estimate, estimate
from analysis.framework.arrays import FloatArray, IntArray
from automata.tasks.observed import NOTHING, ObservedTask
from implicit.models.interface import SequenceModel
from implicit.training.streams import Stream

MOST_SAMPLES = 8192  # states to which a probe is fitted at the most, evenly spread over the positions


def window_positions(length: int, window: int) -> IntArray:
    """Return the positions of the last tokens of a length, and the one before them.

    Example:
        >>> window_positions(64, 3).tolist(), window_positions(2, 32).tolist()
        ([60, 61, 62, 63], [0, 1])
    """
    return np.arange(max(0, length - 1 - window), length)


@dataclass(frozen=True, eq=False)
class ProbeSequences:
    """Sequences to which probes are fitted, and others on which the regularisation is chosen."""

    fitted: ExactSequences
    validation: ExactSequences

    @classmethod
    def of(cls, task: ObservedTask, length: int, settings: BeliefSettings) -> "ProbeSequences":
        """Draw both, of the training length, with the seed of the probe."""
        count = max(1, min(length, MOST_SAMPLES // settings.probe_sequences))
        positions = np.unique(np.linspace(0, length - 1, count).round().astype(np.int64))
        parts = ((settings.probe_sequences, Stream.TRAIN), (settings.probe_validation, Stream.VALIDATION))
        fitted, validation = (
            exact_sequences(task, sequences, length, settings.probe_seed, positions, stream)
            for sequences, stream in parts
        )
        return cls(fitted, validation)


def fitted_probe(
    model: SequenceModel, features: Features, drawn: ProbeSequences, settings: BeliefSettings
) -> Probe:
    """Fit the probe of a model's state."""

    def samples(exact: ExactSequences) -> tuple[NDArray[np.floating], FloatArray]:
        read = FeatureSamples.empty(features, exact)
        label = f"probe, {len(exact.tokens)} sequences"
        for block in read_in_blocks(model, exact.tokens, settings, with_states=True, label=label):
            read.add(block)
        real = ~np.isnan(exact.beliefs).any(axis=-1)
        return read.found[real], exact.beliefs[real]

    return fit_probe(*samples(drawn.fitted), *samples(drawn.validation))


@dataclass(frozen=True, eq=False)
class FeatureSamples:
    """The features of states at the kept positions, ``[sequences, kept, features]``."""

    features: Features
    exact: ExactSequences
    found: NDArray[np.floating]

    @classmethod
    def empty(cls, features: Features, exact: ExactSequences) -> "FeatureSamples":
        """Return samples of which none is known yet."""
        shape = (len(exact.tokens), len(exact.kept), features.size)
        return cls(features, exact, np.full(shape, np.nan, dtype=features.dtype))

    def add(self, block: Block) -> None:
        """Enter the states of a block."""
        assert block.states is not None
        kept = self.exact.kept
        here = np.flatnonzero((kept >= block.first) & (kept < block.after))
        if here.size:
            after = kept[here] - block.first + 1  # the states of a block begin before its first token
            states = {name: part[:, after] for name, part in block.states.items()}
            self.found[block.rows, here] = self.features.read(states)


@dataclass(frozen=True)
class Decoded:
    """How far decoded beliefs are from the exact ones, at the last tokens of one length."""

    distance: Estimate  # total variation from the exact belief
    divergence: Estimate  # KL(exact ‖ decoded), in nats
    constant: Estimate  # total variation of the mean belief, which needs no state, from the exact one
    # total variation between the decoded belief and the Bayes update of the one decoded before, at tokens
    # that move or show something; 1 where that update is impossible
    inconsistency: Estimate
    impossible: float  # share of these tokens at which it is: the decoded belief rules out what is seen

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        estimates = {name: vars(found) for name, found in vars(self).items() if isinstance(found, Estimate)}
        return {**estimates, "impossible": self.impossible}


def decoded_at(
    samples: FeatureSamples, probe: Probe, length: int, window: int, confidence: float = 0.95
) -> Decoded:
    """Decode the beliefs at the last tokens of a length, and compare.

    ``samples`` are those of the test sequences at the positions of `window_positions`, and others.
    """
    exact = samples.exact
    positions = window_positions(length, window)
    places = np.searchsorted(exact.kept, positions)
    beliefs = exact.beliefs[:, places]
    decoded = probe.decode(samples.found[:, places])
    in_window = np.arange(len(positions)) >= len(positions) - window  # not the one before it
    looked_at = ~np.isnan(beliefs).any(axis=-1) & in_window
    rows = np.nonzero(looked_at)[0]
    here, right = decoded[looked_at], beliefs[looked_at]
    gap, impossible, gap_rows = [], [], []
    for chosen, real in exact.by_length:
        inside = np.flatnonzero(positions[1:] < real)
        if not inside.size:
            continue
        tokens, after = exact.tokens[chosen, :real], positions[1:][inside]
        told = exact.task.observations(tokens)[:, after] != NOTHING
        images = exact.task.updated(decoded[chosen][:, inside], tokens, after)
        ruled_out = images.sum(axis=-1) == 0
        distance = total_variation(images, decoded[chosen][:, inside + 1])
        gap.append(np.where(ruled_out, 1.0, distance)[told])
        impossible.append(ruled_out[told])
        gap_rows.append(np.broadcast_to(chosen[:, None], told.shape)[told])
    gaps = np.concatenate([np.zeros(0), *gap])
    return Decoded(
        distance=estimate(total_variation(right, here), rows, confidence),
        divergence=estimate(belief_divergence(right, here), rows, confidence),
        constant=estimate(total_variation(right, probe.offset), rows, confidence),
        inconsistency=estimate(gaps, np.concatenate([np.zeros(0, np.int64), *gap_rows]), confidence),
        impossible=float(np.concatenate(impossible).mean()) if gaps.size else float("nan"),
    )
