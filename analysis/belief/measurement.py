"""Does a model hold the belief? ``python -m analysis.belief RUN…``.

For tasks whose hidden state has an exact posterior. On freshly drawn test sequences, longer than those of
training, are measured: the divergence of the model's predictions from the exact posterior; the distance of
the belief that a linear probe decodes from the state, and whether the decoded belief is updated by Bayes'
rule; the norm of the state. One reading of the longest sequences tells about all shorter ones, for models are
causal; each length stands for the tokens from the length before it on.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from analysis.belief.exact import ExactSequences, exact_sequences
from analysis.belief.norms import MassRates, Norms, mass_rates, shown_positions
from analysis.belief.prediction import Predictions
from analysis.belief.probe import (
    Decoded,
    Features,
    FeatureSamples,
    Probe,
    decoded_at,
    fitted_probe,
    probe_sequences,
    window_positions,
)
from analysis.belief.reading import BeliefSettings, read_in_blocks
from analysis.belief.statistics import Estimate
from analysis.framework.finding import Answer, Finding, Rows
from analysis.framework.needs import observed_task_of
from analysis.framework.output import RunIdentity, loaded_runs
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number, percent
from automata.errors import InputError
from implicit.runs.loading import Run


@dataclass(frozen=True, eq=False)
class RunBelief:
    """The results of one run."""

    run: RunIdentity
    settings: BeliefSettings
    lengths: tuple[int, ...]  # in tokens, rising
    predictions: Predictions  # at every place where something is asked
    mass: MassRates  # the rates of the exact filter on the same sequences
    features: Features | None  # what the probe reads; None without a probe
    probe: Probe | None  # as it was fitted; None without one
    decoded: dict[int, Decoded]  # by length; empty without a probe
    norms: Norms | None  # of the recurrent state; None for a model whose state grows
    left_out: str  # why there is no probe; empty if there is one
    # share of the tokens without a converged fixed point; None for an explicit model
    unconverged: float | None

    def kl(self, length: int) -> Estimate:
        """Return KL(exact ‖ model) from the length before to this one, with its interval."""
        return self.predictions.estimate("kl", self.lengths, self.settings.confidence)[length]

    def excess(self, length: int) -> Estimate:
        """Return the log loss above Bayes from the length before to this one, with its interval."""
        return self.predictions.estimate("excess", self.lengths, self.settings.confidence)[length]

    @property
    def finding(self) -> Finding:
        """How far predictions and decoded beliefs are from the exact ones, and how fast norms fall."""
        last, settings = self.lengths[-1], self.settings
        first = 1 + self.lengths[-2] if len(self.lengths) > 1 else 1
        sentence = f"KL(exact ‖ model) is {self.kl(last).cell} nats at tokens {first} to {last}"
        if self.decoded:
            found = self.decoded[last]
            sentence += (
                f"; the decoded belief is {found.distance.cell} from the exact one in total variation, a "
                f"constant one {number(found.constant.mean)}"
            )
        else:
            sentence += f"; no belief was decoded: {self.left_out}"
        lost = (
            f"{percent(self.unconverged or 0, 2)} of the tokens have no converged fixed point, and later "
            "ones rest on them; raise max_iterations or loosen rtol"
        )
        return Finding(
            sentence,
            [self._prediction_rows, *self._probe_rows, self._rate_rows],
            limits=f"±: {settings.confidence:.0%} intervals over {settings.sequences} sequences (Student's, "
            "of a ratio). What no linear probe decodes may still be in the state.",
            warnings=[lost] if self.unconverged else [],
        )

    @property
    def _prediction_rows(self) -> Rows:
        names = ("kl", "right", "best", "excess")
        of = {name: self.predictions.estimate(name, self.lengths, self.settings.confidence) for name in names}
        shares = {n: [number(of[name][n].mean) for name in ("right", "best")] for n in self.lengths}
        rows = [[str(n), of["kl"][n].cell, *shares[n], of["excess"][n].cell] for n in self.lengths]
        return Rows(
            ["length", "KL", "accuracy", "Bayes", "excess"],
            rows,
            title="predictions, from the length before to this one",
            note="KL: KL(exact ‖ model) in nats. Bayes: accuracy of the exact filter. excess: log loss "
            "above it.",
        )

    @property
    def _probe_rows(self) -> list[Rows]:
        if self.probe is None or self.features is None:
            return []
        rows = []
        for length, found in self.decoded.items():
            nats, constant = number(found.divergence.mean), number(found.constant.mean)
            rows.append([str(length), found.distance.cell, nats, found.inconsistency.cell, constant])
        projected = "a random projection" if self.features.projected else "the state"
        return [
            Rows(
                ["length", "decoded", "KL", "one step", "mean"],
                rows,
                title="decoded beliefs: total variation from the exact one, and KL in nats",
                note="one step: from the Bayes update of the belief decoded a token before. mean: of a "
                "constant belief from the exact one.",
            ),
            Rows(
                ["of", "features", "λ"],
                [[projected, str(self.features.size), number(self.probe.regularisation)]],
                title="linear probes",
            ),
        ]

    @property
    def _rate_rows(self) -> Rows:
        rates: list[list[str]] = [["–", "no, it grows", "–", "–"]]
        if self.norms is not None:
            linear = "yes" if self.norms.linear else "no"
            found = zip(self.norms.rates(self.settings.confidence), self.norms.vanished(), strict=True)
            rates = [
                [str(layer), linear, rate.cell, "–" if end is None else str(end)]
                for layer, (rate, end) in enumerate(found)
            ]
        return Rows(
            ["layer", "linear", "log norm", "gone", "log mass"],
            [[*cells, self.mass.fitted.cell] for cells in rates],
            title="rates per token, in nats",
            note="log norm: of each layer's state; linear: in its own state; gone: tokens after which it "
            "is 0 or overflows. log mass: of the linear filter.",
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        confidence = self.settings.confidence
        positions = shown_positions(self.predictions.exact.tokens.shape[1])
        log_mass = np.nanmean(self.predictions.exact.log_evidence.cumsum(axis=1)[:, positions], axis=0)
        return {
            "run": asdict(self.run),
            "lengths": self.lengths,
            "predictions": self.predictions.numbers(self.lengths, confidence),
            "probe": self._probe_numbers(),
            "norms": None if self.norms is None else self.norms.numbers(confidence),
            "exact_filter": {"tokens": positions + 1, "mean_log_mass": log_mass, **asdict(self.mass)},
            "share_unconverged": self.unconverged,
        }

    def _probe_numbers(self) -> dict[str, Any]:
        if self.probe is None or self.features is None:
            return {"left_out": self.left_out}
        return {
            "features": self.features.size,
            "random_projection": self.features.projected,
            "regularisation": self.probe.regularisation,
            "validation_total_variation": self.probe.validation,
            "by_length": {length: asdict(found) for length, found in self.decoded.items()},
        }


@dataclass(frozen=True, eq=False)
class BeliefAnalysis(Answer):
    """The result of `analyse`."""

    settings: BeliefSettings
    runs: tuple[RunBelief, ...]  # one entry per run

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by the name of the run."""
        return {found.run.name: found.numbers() for found in self.runs}


def analyse(
    runs: Run | Iterable[Run], settings: BeliefSettings | None = None, **chosen: Any
) -> BeliefAnalysis:
    """Measure how several runs hold the belief; those of one task read the same sequences.

    The tasks have an exact belief, and the runs different names; settings can be given by name instead.
    InputError for a bad setting, two runs of the same name, a task that has no exact belief, or one that asks
    nothing in such sequences.

    Example:
        >>> analyse([])
        Traceback (most recent call last):
        automata.errors.InputError: runs is empty; give at least one loaded run, implicit.load_run(...)
    """
    settings = settings_from(BeliefSettings, chosen, settings)
    several = loaded_runs(runs)
    for run in several:
        observed_task_of(run)
    drawn: dict[str, _Drawn] = {}
    return BeliefAnalysis(settings, tuple(_measure(run, settings, drawn) for run in several))


def measure_belief(run: Run, settings: BeliefSettings | None = None, **chosen: Any) -> RunBelief:
    """Measure how one run holds the belief.

    Its task has an exact belief; settings can be given by name instead. InputError as for `analyse`.

    Example:
        A linear model, trained at 64 tokens: the exact mass of the reveals decays, its norm does not.

        >>> from implicit.runs.loading import load_run
        >>> run = load_run("lazy-swaps-gated-deltanet")
        >>> found = measure_belief(run, sequences=8, multiples=(1, 2), probe_sequences=32)
        >>> found.lengths, found.norms.linear
        ((64, 128), True)
        >>> round(found.mass.mean.per_token, 1), abs(found.norms.rates()[0].per_token) < 0.02
        (-0.2, True)
    """
    (found,) = analyse(run, settings, **chosen).runs
    return found


_Drawn = tuple[ExactSequences, MassRates, tuple[ExactSequences, ExactSequences] | None]
"""The data that runs of one task and training length share: test sequences, rates, sequences of probes."""


def _measure(run: Run, settings: BeliefSettings, drawn: dict[str, _Drawn]) -> RunBelief:
    lengths, model = settings.lengths_for(run), run.model
    key = _key(run, lengths)
    if key not in drawn:
        drawn[key] = _draw(run, settings, lengths)
    exact, mass, fitted_to = drawn[key]
    left_out = ""
    if not settings.probe:
        left_out = "no probe was asked for"
    elif model.state_grows:
        left_out = "the state grows with every token, so that no fixed set of numbers holds it"
    predictions = Predictions.empty(exact)
    norms = None if model.state_grows else Norms.empty(model, exact)
    features, probe, samples = None, None, None
    if fitted_to is not None:
        features = Features.of(model, settings.probe_seed)
        probe = fitted_probe(model, features, fitted_to, settings)
        samples = FeatureSamples.empty(features, exact)
    unconverged = 0
    reading = read_in_blocks(model, exact.tokens, settings, run.name)
    for block in reading:
        places = exact.places_in(block.rows, block.first, block.after)
        rows = exact.rows[places] - block.rows.start
        predictions.add(places, block.logits[rows, exact.columns[places] - block.first])
        unconverged += block.unconverged
        if norms is not None:
            norms.add(block)
        if samples is not None:
            samples.add(block)
    return RunBelief(
        run=RunIdentity.of(run),
        settings=settings,
        lengths=lengths,
        predictions=predictions,
        mass=mass,
        features=features,
        probe=probe,
        decoded={
            length: decoded_at(samples, probe, length, settings.window, settings.confidence)
            for length in lengths
            if samples is not None and probe is not None
        },
        norms=norms,
        left_out=left_out,
        unconverged=None if model.implicit is None else unconverged / exact.tokens.size,
    )


def _draw(run: Run, settings: BeliefSettings, lengths: tuple[int, ...]) -> _Drawn:
    task = observed_task_of(run)
    kept = np.concatenate([window_positions(length, settings.window) for length in lengths])
    with_probe = settings.probe and not run.model.state_grows
    test = exact_sequences(task, settings.sequences, max(lengths), settings.seed, kept if with_probe else [])
    fitted_to = probe_sequences(task, run.reading_length, settings) if with_probe else None
    return test, mass_rates(test, settings.confidence), fitted_to


def _key(run: Run, lengths: tuple[int, ...]) -> str:
    """The key of a run's sequences: its task, its lengths, and whether there are probes."""
    try:
        task = json.dumps(run.task.specification(), sort_keys=True)
    except InputError:  # code of one's own: only the very same object is the same task
        task = f"object {id(run.task)}"
    return json.dumps([task, run.reading_length, lengths, run.model.state_grows])
