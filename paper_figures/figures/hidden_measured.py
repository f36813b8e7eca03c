"""Of a run that holds a belief: its divergence by length and frequency of reveals, and its state."""

from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field

from analysis.belief import BeliefSettings, measure_belief
from automata.checks import check_type
from automata.tasks.partially_observed import PartiallyObserved
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Measurement

_BINS = ("from", "to", "mean", "low", "high")


class HiddenSettings(BeliefSettings):
    """What is measured.

    Example:
        >>> HiddenSettings().reveal_probabilities
        (0.03125, 0.0625, 0.125, 0.25, 0.5)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    reveal_probabilities: tuple[float, ...] = Field(
        default=(1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2),
        description="that the next event is a reveal, and not an action",
    )


def measure(run: Run, settings: HiddenSettings) -> dict[str, Any]:
    """Measure the divergence from the exact posterior, the belief in the state, and the state's norm.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = HiddenSettings(sequences=4, multiples=(1,), probe=False, reveal_probabilities=(0.5,))
        >>> found = measure(load_run("lazy-swaps-gated-deltanet"), small)
        >>> sorted(found)
        ['belief', 'by_length', 'by_position', 'by_reveal_probability', 'exact_rate', 'linear', 'norms']
    """
    check_type("task", run.task, PartiallyObserved, "give a run on a probabilistic automaton")
    assert isinstance(run.task, PartiallyObserved)
    chosen = BeliefSettings(**{name: getattr(settings, name) for name in BeliefSettings.model_fields})
    numbers = measure_belief(run, chosen).numbers()
    predictions, probe, norms = numbers["predictions"], numbers["probe"], numbers["norms"]
    return {
        "by_length": {
            str(length): {name: found[name] for name in ("kl", "accuracy", "bayes_accuracy")}
            for length, found in predictions["by_length"].items()
        },
        "by_position": [{name: place[name] for name in _BINS} for place in predictions["kl_by_position"]],
        "by_reveal_probability": {
            str(probability): _with_reveals(run, chosen, probability)
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
    estimate = found.kl(run.config.length)
    return {"mean": estimate.mean, "low": estimate.low, "high": estimate.high}


SETTINGS = HiddenSettings(sequences=128, probe_sequences=256, mode="sequential")
BELIEF = Measurement("belief", measure, SETTINGS)
