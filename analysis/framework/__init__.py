"""The frame of every question: its description, the command made from it, where results go.

- A question: `RunAnalysis` for one run, `EachRunAnalysis` for each of several, `Comparison` for several runs
  together. It gives its command, its files and, with a `ReportSection`, its place in the report.
- Its answer is an `Answer`: it tells what was found once, as a `Finding` with tables of `Rows`.
- Its needs of a model: `Need`, `FIXED_POINTS`, `CONSTANT_STATE`, `BALL_ARITHMETIC`.
- Its settings: `SampleSettings`, `settings_from`.
- Its sequences and models: `sample_sequences`, `in_double_precision`.
- Its figure: `new_figure`, `new_panels`, `for_title`, `legend_below`, `log_axis`, `styled`, `save_figure`,
  `TEXT_WIDTH`.

Nothing here imports a question; `analysis.questions` lists them.
"""

from analysis.framework.analysis import Comparison, EachRunAnalysis, ReportSection, RunAnalysis
from analysis.framework.figures import (
    TEXT_WIDTH,
    legend_below,
    log_axis,
    new_figure,
    new_panels,
    save_figure,
    styled,
)
from analysis.framework.finding import Answer, Finding, Rows, for_title
from analysis.framework.needs import BALL_ARITHMETIC, CONSTANT_STATE, FIXED_POINTS, Need
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.visited_states import in_double_precision, sample_sequences

__all__ = [
    "BALL_ARITHMETIC",
    "CONSTANT_STATE",
    "FIXED_POINTS",
    "TEXT_WIDTH",
    "Answer",
    "Comparison",
    "EachRunAnalysis",
    "Finding",
    "Need",
    "ReportSection",
    "Rows",
    "RunAnalysis",
    "SampleSettings",
    "for_title",
    "in_double_precision",
    "legend_below",
    "log_axis",
    "new_figure",
    "new_panels",
    "sample_sequences",
    "save_figure",
    "settings_from",
    "styled",
]
