"""Hidden swaps, sought against each model: its divergence from the posterior on the worst rounds found."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from analysis.belief import worst_rounds
from analysis.framework.figures import new_figure
from analysis.framework.palette import Look
from implicit.checked_config import CheckedConfig
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import CODE_AND_LINEAR_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.hidden_swaps import NOT_LINEAR
from paper_figures.figures.hidden_training import GRIDS
from paper_figures.figures.repl_traces import look_of, series_name


class AdversarySettings(CheckedConfig):
    """What is searched.

    Example:
        >>> AdversarySettings().rounds
        12
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rounds: PositiveInt = Field(default=12, description="reveals of a sequence")
    actions: PositiveInt = Field(default=3, description="swaps before each reveal")
    beam: PositiveInt = Field(default=8, description="candidates that are kept after each round")
    likely: float = Field(default=0.2, gt=0, le=1, description="least probability of a likely value")
    sequences: PositiveInt = Field(default=256, description="sequences of random rounds")
    seed: NonNegativeInt = Field(default=0, description="seed of these")


def measure(run: Run, settings: AdversarySettings) -> dict[str, Any]:
    """Measure the mean divergence over random rounds, the worst of likely values, and the worst of all.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = AdversarySettings(rounds=2, beam=2, sequences=16)
        >>> found = measure(load_run("lazy-swaps-gated-deltanet"), small)
        >>> sorted(found), found["any"] > found["random"]
        (['any', 'by_round', 'likely', 'random'], True)
    """
    chosen = {"beam": settings.beam, "sequences": settings.sequences, "seed": settings.seed}
    worst = worst_rounds(run, settings.rounds, settings.actions, **chosen)
    likely = worst_rounds(run, settings.rounds, settings.actions, least_probability=settings.likely, **chosen)
    return {
        "random": worst.random_mean,
        "likely": likely.mean,
        "any": worst.mean,
        "by_round": {
            "random": worst.random.mean(axis=0).tolist(),
            "likely": likely.errors.tolist(),
            "any": worst.errors.tolist(),
        },
    }


SETTINGS = AdversarySettings()
WORST = Measurement("worst_rounds", measure, SETTINGS)
EXPERIMENT = Experiment("adversarial_beliefs", GRIDS, (WORST,))

KINDS = {
    "random": "random\nrounds",
    "likely": "worst,\nlikely",
    "any": "worst,\nany",
}


RIVALS = tuple(name for name in NOT_LINEAR if name != "Transformer")
"""RNNs that are not linear in their state."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect by series and seed what was measured.

    A sequence of likely values is one of any values, too: where the search for the latter found nothing as
    bad, the former stands for it.

    Example:
        >>> collect([])["series"]
        {}
    """
    series = {}
    for group in grouped(outcomes, WORST.name):
        settings = group["settings"]
        runs = group["seeds"].items()
        seeds = {seed: {**run, "any": max(run["any"], run["likely"])} for seed, run in runs}
        series[series_name(settings)] = {
            "model": settings["model"],
            "reflecting": settings.get("negative_eigenvalues"),
            "seeds": seeds,
            "failed": group["failed"],
        }
    return {"settings": SETTINGS.model_dump(mode="json"), "series": series}


def draw(found: Results, width: float) -> Figure:
    """Draw a row per model and a mark per run, in a panel for each kind of rounds.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("adversarial_beliefs").results, 3.3).axes)
        3
    """
    figure = new_figure(width, 2.8)
    panels = figure.subplots(1, 3, sharey=True, sharex=True)
    names = list(found["series"])
    ticks = (0.01, 1) if width < 5 else (0.01, 0.1, 1)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for row, (_, series) in enumerate(found["series"].items()):
            values = [run[kind] for run in series["seeds"].values()]
            _marks(axes, row, values, look_of(series))
        axes.set_xscale("log")
        axes.set_xlim(0.006, 6)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set(
            title=title,
            ylim=(len(names) - 0.5, -0.5),
            yticks=range(len(names)),
            yticklabels=names,
        )
    figure.supxlabel("KL from the posterior (nats per reveal)", fontsize=7.5)
    return figure


def _marks(axes: Axes, row: int, values: Sequence[float], look: Look) -> None:
    places = [row + 0.2 * (number - (len(values) - 1) / 2) for number in range(len(values))]
    axes.plot(values, places, linestyle="", marker=look.marker, color=look.color, markersize=4, alpha=0.8)


def caption(found: Results) -> str:
    """Tell what is drawn and how the rounds were sought.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("adversarial_beliefs").results))
        The models of hidden swaps on sequences that are sought against each of them: ...
    """
    settings = found["settings"]
    length = settings["rounds"] * (settings["actions"] + 2)
    return (
        "The models of hidden swaps on sequences that are sought against each of them: mean KL divergence "
        f"from the posterior over {settings['rounds']} rounds of {settings['actions']} swaps and a reveal, a "
        f"mark per run. Left: random rounds, the mean over {settings['sequences']} sequences, data seed "
        f"{settings['seed']}. Middle: the worst sequence that a beam search of {settings['beam']} found, in "
        "which every value shown has, given all before it, a probability of at least "
        f"{settings['likely']:g} or is the likeliest. Right: with any value that can occur, however "
        "unlikely: the worst of both searches. The search is the same for all models, and finds bad "
        f"sequences, not the worst. Sequences have {length} tokens, fewer than in training."
    )


def means(found: Mapping[str, Any], kind: str) -> dict[str, float]:
    """Return the mean over the runs of each series.

    Example:
        >>> means({"series": {"LSTM": {"seeds": {"0": {"any": 1.0}, "1": {"any": 2.0}}}}}, "any")
        {'LSTM': 1.5}
    """
    return {
        name: sum(run[kind] for run in series["seeds"].values()) / len(series["seeds"])
        for name, series in found["series"].items()
        if series["seeds"]
    }


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that there are sequences on which linear RNNs are worse than non-linear ones by far.

    Reproduced if on the worst rounds of likely values and on those of any the best linear model is, in the
    mean over its runs, at least twice as far from the posterior as the LSTM and as implicit Mamba-2; not
    reproduced if on both it is nearer than either; partly otherwise. The Transformer is told of and not
    judged by, for it is no RNN.

    Example:
        >>> judge({"series": {}}).word
        'not reproduced'
    """
    kinds = {"likely": "likely values", "any": "any values that can occur"}
    because = "KL per reveal on the worst rounds, means over runs, in nats: " + "; ".join(
        f"of {said}: "
        + (", ".join(f"{name} {mean:.3f}" for name, mean in means(found, kind).items()) or "none")
        for kind, said in kinds.items()
    )
    nearer, far = [], []
    for kind in kinds:
        value = means(found, kind)
        rivals = [value[name] for name in RIVALS if name in value]
        linear = [mean for name, mean in value.items() if name not in NOT_LINEAR]
        nearer.append(not linear or not rivals or min(linear) <= min(rivals))
        far.append(bool(linear) and len(rivals) == len(RIVALS) and min(linear) >= 2 * max(rivals))
    if all(nearer):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if all(far) else "partly", because)


FIGURE = PaperFigure(
    title="Sequences sought against each belief",
    claim=Claim(
        "there are adversarial sequences on which linear RNNs lose the belief (as the paper says of one "
        "representation), and non-linear ones far less",
        CODE_AND_LINEAR_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
