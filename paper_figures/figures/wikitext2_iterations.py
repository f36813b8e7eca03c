"""Self-iterations of language models at test: perplexity by how many are allowed, and who takes them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_panels, powers_of_two
from analysis.framework.palette import Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import draw_legend, grouped
from paper_figures.figures.published import IMPLICIT
from paper_figures.figures.wikitext2 import LABELS
from paper_figures.figures.wikitext2_measured import IterationSettings, measure_iterations
from paper_figures.figures.wikitext2_training import FAMILIES, KINDS, TEXTS, runs

SETTINGS = IterationSettings(file=TEXTS["test"])
ITERATIONS = Measurement("test_iterations", measure_iterations, SETTINGS)
SIZE = "64 x 2"
EXPERIMENT = Experiment(
    "wikitext2_iterations", (runs(SIZE, range(2), KINDS[1:]),), (ITERATIONS,), data=tuple(TEXTS.values())
)
WORSE = 1.005
"""A perplexity is worse than another from this ratio on."""
TOKEN_KINDS = ("begins a word", "goes on in a word", "number", "punctuation")


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by family, kind and seed.

    Example:
        >>> collect([])["models"]
        {}
    """
    models: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, ITERATIONS.name):
        kind, family = group["settings"]["model"].split("-")
        models.setdefault(family, {})[kind] = {"seeds": group["seeds"], "failed": group["failed"]}
    return {"settings": SETTINGS.model_dump(mode="json"), "models": models}


def perplexities(group: Mapping[str, Any], allowed: Sequence[int]) -> list[list[float]]:
    """Return the perplexities of every run, by the self-iterations that are allowed.

    Example:
        >>> perplexities({"seeds": {"0": {"perplexity": {"1": 40.0, "2": 30.0}}}}, (1, 2))
        [[40.0, 30.0]]
    """
    return [[float(run["perplexity"][str(count)]) for count in allowed] for run in group["seeds"].values()]


def look_of(kind: str, family: str) -> Look:
    """Return how a kind of a family is drawn; both are implicit, (4+1) is dashed.

    Example:
        >>> look_of("bounded", "Llama").dashes, look_of("free", "Llama").dashes
        ('--', '-')
    """
    return replace(IMPLICIT[family], dashes="--" if kind == "bounded" else "-")


def filling_of(look: Look) -> str:
    """Return the colour inside of marks: those of (4+1) are hollow.

    Example:
        >>> filling_of(look_of("bounded", "Llama"))
        'white'
    """
    return "white" if look.dashes == "--" else look.color


def draw(found: Results, width: float) -> Figure:
    """Draw perplexity by the self-iterations allowed for each family, then who takes them.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("wikitext2_iterations").results, 3.3).axes)
        4
    """
    figure, (*curves, kinds, fifths) = new_panels(width, 4, height=2.5, columns=2)
    allowed = found["settings"]["allowed"]
    for axes, (family, label) in zip(curves, FAMILIES.items(), strict=True):
        for kind, group in found["models"].get(family, {}).items():
            look = look_of(kind, label)
            draw_runs(axes, allowed, perplexities(group, allowed), look, LABELS[kind])
            if group["seeds"]:
                axes.lines[-1].set_markerfacecolor(filling_of(look))  # of the mean, which is drawn last
        powers_of_two(axes, allowed)
        top = _at(found, family, 3)
        axes.set(xlabel="self-iterations allowed at test", ylabel="perplexity", title=label)
        if top is not None:
            axes.set_ylim(_least(found, family) - 1, top + 2)
        draw_legend(axes)
    _draw_bars(kinds, found, TOKEN_KINDS, lambda run, place: run["kinds"][TOKEN_KINDS[place]]["mean"])
    kinds.set(title="by kind of token", ylabel="evaluations per token")
    kinds.set_xticks(
        range(len(TOKEN_KINDS)), ["begins\na word", "goes on\nin a word", "number", "punctu-\nation"]
    )
    names = ("least", "", "", "", "most")
    _draw_bars(fifths, found, names, lambda run, place: run["fifths_of_surprise"][place])
    fifths.set(title="by surprise of the next token, in fifths", ylabel="evaluations per token")
    fifths.set_xticks(range(len(names)), names)
    return figure


def _at(found: Results, family: str, allowed: int) -> float | None:
    values = [
        run["perplexity"][str(allowed)]
        for group in found["models"].get(family, {}).values()
        for run in group["seeds"].values()
    ]
    return max(values, default=None)


def _least(found: Results, family: str) -> float:
    return min(
        value
        for group in found["models"][family].values()
        for run in group["seeds"].values()
        for value in run["perplexity"].values()
    )


def _draw_bars(axes: Axes, found: Results, names: Sequence[str], value: Any) -> None:
    """A mark for every run, those of one kind and family together, at each of the names."""
    series = [
        (look_of(kind, FAMILIES[family]), list(group["seeds"].values()))
        for family, kinds in found["models"].items()
        for kind, group in kinds.items()
    ]
    for number, (look, members) in enumerate(series):
        shift = 0.16 * (number - (len(series) - 1) / 2)
        for run in members:
            places = np.arange(len(names)) + shift
            axes.plot(
                places,
                [value(run, place) for place in range(len(names))],
                linestyle="",
                marker=look.marker,
                color=look.color,
                markerfacecolor=filling_of(look),
                markersize=3.5,
            )
    axes.set_ylim(bottom=0)


def best(group: Mapping[str, Any]) -> list[tuple[int, float]]:
    """Return the self-iterations at which every run is best, and how much worse it is at the most allowed.

    Example:
        >>> best({"seeds": {"0": {"perplexity": {"1": 40.0, "4": 30.0, "8": 33.0}}}})
        [(4, 1.1)]
    """
    found = []
    for run in group["seeds"].values():
        by_count = {int(count): value for count, value in run["perplexity"].items()}
        least = min(by_count, key=lambda count: by_count[count])
        found.append((least, round(by_count[max(by_count)] / by_count[least], 6)))
    return found


def caption(found: Results) -> str:
    """Tell what is drawn, and what the runs have.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("wikitext2_iterations").results))
        Implicit language models on WikiText-2 ...
    """
    settings = found["settings"]
    told = []
    for family, kinds in found["models"].items():
        for kind, group in kinds.items():
            if not group["seeds"]:
                continue
            places = "; ".join(f"at {count}, {ratio:.3f} of it at the most" for count, ratio in best(group))
            shares = [run["share_converged"] for run in group["seeds"].values()]
            means = ", ".join(f"{run['mean']:.1f}" for run in group["seeds"].values())
            most = ", ".join(f"{run['quantiles']['0.95']:.0f}" for run in group["seeds"].values())
            told.append(
                f"{FAMILIES[family]} {LABELS[kind].removeprefix('implicit, ')} best {places} "
                f"(mean {means}, 95% quantile {most} evaluations per token to the tolerance, which "
                f"{int(1000 * min(shares)) / 1000:.3f} of the tokens of a run at least reach)"
            )
    return (
        f"Implicit language models on WikiText-2 of width 64 and two layers, trained with (4+1) throughout "
        "(hollow, dashed) and with a free phase in the last fifth of the updates (filled): perplexity on "
        f"the first {settings['windows']} windows of {settings['context']} tokens of the test text, by the "
        "self-iterations that all tokens take, together; the axis leaves out what is worse than with three. "
        f"{RUN_LINES} Below: evaluations of the layers that a token takes, one more than "
        "self-iterations, to a relative tolerance of "
        f"{settings['rtol']:g}, at most {settings['max_iterations']}, token by token; by what the token is, "
        "and in fifths of the tokens by the surprise of the one that comes next; a mark per run, colours and "
        f"marks as above. {'; '.join(told) or 'No run ended well'}."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that more self-iterations at test than in training do not make predictions worse.

    Reproduced if no run is worse by 0.5% with the most self-iterations than where it is best; not reproduced
    if every run is; partly otherwise.

    Example:
        >>> judge({"models": {}}).word
        'not reproduced'
    """
    ratios = {
        f"{FAMILIES[family]} {LABELS[kind].removeprefix('implicit, ')}": [ratio for _, ratio in best(group)]
        for family, kinds in found["models"].items()
        for kind, group in kinds.items()
    }
    worse = {name: sum(ratio >= WORSE for ratio in values) for name, values in ratios.items()}
    because = "runs that the most self-iterations make worse than their best by at least 0.5%: " + (
        ", ".join(f"{name} {worse[name]} of {len(values)}" for name, values in ratios.items()) or "none"
    )
    count = sum(len(values) for values in ratios.values())
    if sum(worse.values()) == count:
        return Verdict("not reproduced", because)
    return Verdict("partly" if any(worse.values()) else "reproduced", because)


FIGURE = PaperFigure(
    title="Self-iterations of language models at test",
    claim=Claim(
        "with more self-iterations at test than in training, language models predict no worse",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
