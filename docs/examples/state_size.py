"""An analysis of one's own: how large does the state become along a sequence?"""

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.framework import (
    CONSTANT_STATE,
    Finding,
    Rows,
    RunAnalysis,
    SampleSettings,
    in_double_precision,
    legend_below,
    new_panels,
    sample_sequences,
    styled,
)
from implicit import Run


@dataclass(frozen=True, eq=False)
class StateSize:
    """The mean norm of every part of the state before each token and after the last."""

    norms: dict[str, np.ndarray]

    @property
    def finding(self) -> Finding:
        """Return what terminal, caption and JSON say of it."""
        rows = [[part, f"{norms[0]:.3g}", f"{norms[-1]:.3g}"] for part, norms in self.norms.items()]
        largest = max(self.norms, key=lambda part: self.norms[part][-1])
        return Finding(
            f"{largest} is the largest part at the end", [Rows(["part", "norm at first", "at the end"], rows)]
        )

    def numbers(self) -> dict[str, Any]:
        """Return what is stored as JSON."""
        return {"norms": {part: norms.tolist() for part, norms in self.norms.items()}}


def measure(run: Run, settings: SampleSettings) -> StateSize:
    """Visit the states of test sequences, in float64."""
    tokens, _ = sample_sequences(run.task, settings.sequences, settings.length, settings.seed)
    states = in_double_precision(run.model).states(tokens)
    return StateSize({name: part.flatten(2).norm(dim=2).mean(0).numpy() for name, part in states.items()})


def draw(found: StateSize, width: float) -> Figure:
    """Draw the norms against the number of tokens that were read, so many inches wide."""
    with styled():
        figure, (axes,) = new_panels(width, 1, "size of the state")
        for part, norms in found.norms.items():
            axes.plot(norms, label=part)
        axes.set(xlabel="tokens read", ylabel="mean norm")
        legend_below(axes)
    return figure


ANALYSIS = RunAnalysis(
    name="state_size",
    question="How large does the state become along a sequence?",
    description="Follow the norm of the state along sequences of the task.",
    settings=SampleSettings,
    measure=measure,
    draw=draw,
    shows="Mean norm of every part of the state, by the tokens read.",
    needs=CONSTANT_STATE,
)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
