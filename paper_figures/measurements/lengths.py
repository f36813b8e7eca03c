"""Accuracy by length, and agreement of the modes: the analyses, with what training took beside them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from analysis.agreement import AgreementSettings
from analysis.agreement import analyse as compare_modes
from analysis.length_generalization import LengthSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Measurement

KEPT = ("accuracy", "share_converged", "updates")  # what most figures keep of `accuracy`


def accuracy(run: Run, settings: LengthSettings) -> dict[str, Any]:
    """Return accuracies and share of converged tokens by length, chance, accuracy by position, and costs.

    ``million_tokens_to_90`` counts training until a validation at the training length had 0.9; None if none.
    """
    (numbers,) = analyse(run, settings).numbers().values()
    last = run.metrics[-1] if run.metrics else {"step": 0}
    return {
        **{name: numbers[name] for name in ("accuracy", "sequence_accuracy", "share_converged", "chance")},
        "by_position": [float(share) for share in numbers["accuracy_by_position"]],
        "updates": last["step"],
        "million_tokens": last.get("tokens", 0) / 1e6,
        "million_tokens_to_90": _million_tokens_to(0.9, run),
    }


def accuracy_as_trained(run: Run, settings: LengthSettings) -> dict[str, Any]:
    """Return `accuracy`; a model that was trained with a fixed number of loops answers with as many."""
    if run.bounded_end:
        loops = run.config.curriculum.bounded_iterations
        every = {"mode": "simultaneous", "max_iterations": loops, "rtol": 1e-6}  # no earlier stop
        settings = settings.model_copy(update=every)
    return accuracy(run, settings)


def _million_tokens_to(accuracy: float, run: Run) -> float | None:
    """Return the tokens seen until a validation at the training length had an accuracy; None if none had."""
    length = str(run.config.length)
    for entry in run.metrics:
        if entry.get("validation", {}).get(length, {"accuracy": 0.0})["accuracy"] >= accuracy:
            return float(entry["tokens"]) / 1e6 if "tokens" in entry else None
    return None


def agreement(run: Run, settings: AgreementSettings) -> dict[str, Any]:
    """Return the shares of the tokens at which both modes, from zero, reach one fixed point and one answer.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> agreement(load_run("s3"), AgreementSettings(sequences=1, length=4, examples=0))
        {'agree': 1.0, 'same_answer': 1.0}
    """
    found = compare_modes(run, settings)
    return {"agree": found.shares["agree"], "same_answer": float(found.same_answer.mean())}


def accuracy_at(
    *lengths: int,
    sequences: int,
    name: str = "accuracy",
    keep: Sequence[str] | Mapping[str, str] = KEPT,
    by: Callable[[Run, LengthSettings], dict[str, Any]] = accuracy,
    **chosen: Any,
) -> Measurement:
    """Return the measurement of accuracy in sequential mode, at lengths and in settings of its analysis."""
    settings = LengthSettings(lengths=lengths, sequences=sequences, mode="sequential", **chosen)
    return Measurement(name, by, settings, keep)


AGREEMENT = Measurement(
    "agreement", agreement, AgreementSettings(sequences=16, length=128, examples=0, seed=0)
)
