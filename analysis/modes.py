"""Does a model answer as in its sequential mode when it is simply called? ``python -m analysis.modes RUN…``.

``model(tokens)`` chooses a mode by itself (`implicit.modes.chosen_mode`). Here its answers are compared with
those of the sequential mode in plain PyTorch, its definition, token by token, at the model's own tolerance,
and both are timed once: by default up to the length of 4,096 tokens. Kernels that ``model(tokens)`` may take
are part of what is checked.
"""

import copy
import math
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveInt

from analysis.framework.analysis import EachRunAnalysis
from analysis.framework.finding import Answer, Finding, Rows
from analysis.framework.needs import FIXED_POINTS, as_implicit
from analysis.framework.output import RunIdentity
from analysis.framework.settings import AnalysisSettings, settings_from
from analysis.framework.terminal import number, percent
from analysis.length_generalization import last_answers
from automata.command_line import progress_bar
from automata.errors import printable
from implicit.models.interface import FixedPointModel, ModelOutput
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, TokenBatch, draw_batch

DEMANDED = 0.999  # the share of tokens that both have to answer alike


class ModesSettings(AnalysisSettings):
    """Which sequences are read."""

    lengths: tuple[PositiveInt, ...] = Field(
        default=(64, 1024, 4096), min_length=1, description="lengths of the sequences, in tokens"
    )
    sequences: PositiveInt = Field(default=4, description="sequences of each length, all at a time")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


@dataclass(frozen=True)
class ModeAnswers:
    """The answers of one mode to the sequences of one length, and the seconds of one reading.

    Accuracy is over the last ten answers that are asked for, ``share_converged`` of the real tokens.
    """

    mode: str
    accuracy: float
    share_converged: float
    seconds: float


@dataclass(frozen=True)
class LengthComparison:
    """The two ways at one length, ``called`` as ``model(tokens)`` and ``sequential`` in plain PyTorch.

    ``equal`` is the share of the ``tokens`` real ones from which both decode the same answer.
    """

    length: int
    tokens: int
    equal: float
    called: ModeAnswers
    sequential: ModeAnswers

    @property
    def is_demanded(self) -> bool:
        """Return whether at least 99.9% of the tokens are answered alike."""
        return self.equal >= DEMANDED


@dataclass(frozen=True, eq=False)
class ModesAnalysis(Answer):
    """The answer of `analyse`, one entry per length."""

    run: RunIdentity
    settings: ModesSettings
    lengths: tuple[LengthComparison, ...]

    @property
    def sentence(self) -> str:
        """The finding."""
        worst = min(self.lengths, key=lambda entry: entry.equal)
        verb = "answers" if worst.is_demanded else "does not answer"
        least = math.floor(1e5 * worst.equal) / 1e3
        return (
            f"model(tokens) {verb} as the sequential mode: at least {least:.3f}% of tokens are "
            f"equal (demanded: {DEMANDED:.1%}; the least at length {worst.length})"
        )

    @property
    def is_demanded(self) -> bool:
        """Return whether at least 99.9% of the tokens are answered alike at every length."""
        return all(entry.is_demanded for entry in self.lengths)

    @property
    def finding(self) -> Finding:
        """Answers, accuracies and times at every length."""
        rows = []
        for entry in self.lengths:
            pair = {"model(tokens)": entry.called, "plain PyTorch": entry.sequential}
            for computed_by, answers in pair.items():
                converged, seconds = percent(answers.share_converged, 2), f"{answers.seconds:.2f}"
                first = [str(entry.length), computed_by, answers.mode, number(answers.accuracy)]
                rows.append([*first, converged, seconds, percent(entry.equal, 3)])
        columns = ["length", "computed by", "mode", "accuracy", "converged", "seconds", "equal answers"]
        return Finding(
            self.sentence,
            [Rows(columns, rows)],
            limits="Measured on these sequences. Times were taken once. The first includes loading kernels.",
            holds=self.is_demanded,
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by length."""
        return {
            "sentence": self.sentence,
            "demanded": DEMANDED,
            "is_demanded": self.is_demanded,
            "lengths": {entry.length: asdict(entry) for entry in self.lengths},
        }


def analyse(run: Run, settings: ModesSettings | None = None, **chosen: Any) -> ModesAnalysis:
    """Compare what a model answers when called with what its sequential mode answers.

    The run is of an implicit model; settings can be given by name instead. InputError for a bad setting, or a
    model without fixed points.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> analyse(load_run("parity-small"), lengths=(8,), sequences=2).sentence
        'model(tokens) answers as the sequential mode: at least 100.000% of tokens are equal (...)'
    """
    settings = settings_from(ModesSettings, chosen, settings)
    model = as_implicit(run)
    definition = copy.deepcopy(model).without_kernels()
    bar = progress_bar(settings.lengths, desc=printable(run.name), unit="length")
    found = []
    for length in bar:
        batch = draw_batch(run.task, settings.sequences, length, settings.seed, Stream.TEST, length, 0)
        found.append(_compare(model, definition, batch, length))
    return ModesAnalysis(RunIdentity.of(run), settings, tuple(found))


def _compare(
    model: FixedPointModel, definition: FixedPointModel, batch: TokenBatch, length: int
) -> LengthComparison:
    batch = batch.to(model.device)
    called, called_seconds = _timed(model, batch, None)
    sequential, sequential_seconds = _timed(definition, batch, Solve("sequential"))
    equal = (called.answers == sequential.answers) & (called.answers >= 0)  # none is NaN
    assert sequential.solution is not None
    if sequential.solution.mask is not None:
        equal = equal[sequential.solution.mask]
    return LengthComparison(
        length,
        equal.numel(),
        float(equal.double().mean()),
        _answers(called, batch, called_seconds),
        _answers(sequential, batch, sequential_seconds),
    )


@torch.no_grad()
def _timed(model: FixedPointModel, batch: TokenBatch, solve: Solve | None) -> tuple[ModelOutput, float]:
    began = time.perf_counter()
    output = model.run(batch.tokens, solve=solve, lengths=batch.lengths)
    output.logits.sum().item()  # waits for a device that computes on its own
    return output, time.perf_counter() - began


def _answers(output: ModelOutput, batch: TokenBatch, seconds: float) -> ModeAnswers:
    assert output.solution is not None
    right = (output.answers == batch.targets).cpu().numpy()
    last = right[last_answers(batch.counted.cpu().numpy(), right.shape[1])]
    accuracy = float(last.mean()) if last.size else float(np.nan)
    return ModeAnswers(output.solution.mode, accuracy, output.solution.share_converged, seconds)


ANALYSIS = EachRunAnalysis(
    name="modes",
    question="Does model(tokens) answer as the sequential mode does, also at 4,096 tokens? How fast?",
    description="Compare the answers of model(tokens) with those of the sequential mode, and time both.",
    settings=ModesSettings,
    measure=analyse,
    needs=FIXED_POINTS,
)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
