"""Self-iterations of language models at test: perplexity by how many are allowed, and who takes them."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from analysis.framework.figures import powers_of_two
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import draw_runs
from paper_figures import figure as pf
from paper_figures.figures.wikitext2 import kind_and_family, look
from paper_figures.measurements.language import IterationSettings, measure_iterations
from paper_figures.wikitext import FAMILIES, IMPLICIT, KINDS, LABELS, TEXTS, runs

SETTINGS = IterationSettings(file=TEXTS["test"])
TOKEN_KINDS = ("begins a word", "goes on in a word", "number", "punctuation")
WORSE = 1.005  # a perplexity is worse than another from this ratio on


def _filling(one: Look) -> str:
    """Return the colour inside of marks: those of (4+1) are hollow."""
    return "white" if one.dashes == "--" else one.color


def _perplexity(family: str) -> Callable[[Axes, pf.Rows], None]:
    def draw(axes: Axes, rows: pf.Rows) -> None:
        """Draw perplexity by the self-iterations; the axis leaves out what is worse than with three."""
        chosen = [row for row in rows if kind_and_family(row.settings)[1] == family]
        for row in chosen:
            values = [[run.at(f"perplexity@{n}") for n in SETTINGS.allowed] for run in row.runs]
            draw_runs(axes, SETTINGS.allowed, values, row.look, row.label)
            axes.lines[-1].set_markerfacecolor(_filling(row.look))  # of the mean, which is drawn last
        powers_of_two(axes, (1, 2, 4, 8, 16, 32, 64))
        every = [value for row in chosen for found in row.each("perplexity") for value in found.values()]
        three = [value for row in chosen for value in row.each("perplexity@3")]
        axes.set(
            xlabel="self-iterations allowed",
            ylabel="perplexity",
            title=family,
            ylim=(min(every) - 1, max(three) + 2),
        )

    return draw


def _who(
    title: str, names: Sequence[str], values: Callable[[pf.MeasuredRun], Sequence[float]]
) -> Callable[[Axes, pf.Rows], None]:
    def draw(axes: Axes, rows: pf.Rows) -> None:
        """Draw a mark for every run at each of the names, those of one row together."""
        for number, row in enumerate(rows):
            for run in row.runs:
                axes.plot(
                    np.arange(len(names)) + 0.16 * (number - (len(rows) - 1) / 2), values(run), linestyle="",
                    marker=row.look.marker, color=row.look.color, markersize=3.5,
                    markerfacecolor=_filling(row.look),
                )  # fmt: skip
        axes.set(title=title, ylabel="evaluations per token")
        axes.set_xticks(range(len(names)), names)
        axes.set_ylim(bottom=0)

    return draw


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Reproduced if no run is worse by 0.5% with the most self-iterations; not reproduced if every run is."""
    worse, most = {}, str(max(SETTINGS.allowed))
    for row in rows:
        found = row.each("perplexity")
        worse[row.label] = sum(one[most] >= WORSE * min(one.values()) for one in found), row.of
    because = (
        f"runs that the most self-iterations make worse than their best by at least 0.5%: {pf.counts(worse)}"
    )
    if all(count == of for count, of in worse.values()):
        return pf.Verdict("not reproduced", because)
    return pf.Verdict("partly" if any(count for count, _ in worse.values()) else "reproduced", because)


FIGURE = pf.Figure(
    title="Self-iterations of language models at test",
    section="Language models",
    claim=pf.Claim(
        "with more self-iterations at test than in training, language models predict no worse",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=(runs("64 x 2", range(2), KINDS[1:]),),
    measure=(pf.Measurement("test_iterations", measure_iterations, SETTINGS),),
    data=tuple(TEXTS.values()),
    label=lambda settings: f"{kind_and_family(settings)[1]}, {LABELS[kind_and_family(settings)[0]]}",
    looks=look,
    panels=[
        *(pf.Drawn(_perplexity(family)) for family in FAMILIES.values()),
        pf.Drawn(
            _who(
                "by kind of token",
                ["begins\na word", "goes on\nin a word", "number", "punctu-\nation"],
                lambda run: [run.values["kinds"][kind]["mean"] for kind in TOKEN_KINDS],
            )
        ),
        pf.Drawn(
            _who(
                "by surprise of the next token",
                ["least", "", "", "", "most"],
                lambda run: run.values["fifths_of_surprise"],
            )
        ),
    ],
    layout=pf.Layout(
        columns=(2, 1),
        height=(4.8, 8.6),
        share=("none", "none"),
        legend=(4, 2),
        keys={
            **{family: Look(one.color, one.marker, "") for family, one in IMPLICIT.items()},
            "(4+1), hollow": Look(GREY, "", "--"),
            "free phase, filled": Look(GREY),
        },
    ),
)
