"""Python sessions: is the value of the final reveal right, by model and by the number of commands?"""

from functools import partial

from paper_figures import figure as pf
from paper_figures.families import (
    COMMON,
    GATED_DELTANET,
    IMPLICIT_MAMBA2,
    LSTM,
    MAMBA2,
    NOT_REFLECTING,
    PLAIN_DELTANET,
    REFLECTING_DELTANET,
    TRANSFORMER,
    family,
    look,
    seeds_of,
)
from paper_figures.measurements.answers import RevealSettings, final_reveal, grown_on

GROWING = {**COMMON, "growth_accuracy": 0.95, "steps": 1200, "final_steps": 700, "batch_size": 32}
THREE, FIVE = "repl-3-values", "repl-5-values"


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge three variables: every run of DeltaNet [-1, 1] is right, none of the controls at any rate."""
    three = [row for row in rows if row.settings["task"] == THREE]
    reached = {family(row.settings): (row.reaching("accuracy@64", 0.95), row.of) for row in three}
    controls = [row for row in three if family(row.settings).startswith(("DeltaNet [0, 1]", "Transformer"))]
    best = max((value for row in controls for value in row.each("accuracy@64")), default=0.0)
    return pf.verdict(
        *reached["DeltaNet [-1, 1]"],
        f"at least 0.95 after 64 commands: {pf.counts(reached)}; the best run of DeltaNet [0, 1] and of the "
        f"Transformer has {best:.3f}",
        also=best < 0.95,
    )


def _usual(task: str, row: pf.Row) -> bool:
    """Tell rows of a task at the usual learning rate."""
    return row.settings["task"] == task and ", rate" not in row.label


FIGURE = pf.Figure(
    title="Python sessions, by model",
    section="Sessions and beliefs",
    claim=pf.Claim(
        "by the loss of the revealed values, DeltaNet with eigenvalues in [-1, 1] learns permutations from "
        "sessions with sparse reveals; with [0, 1] it does not, nor does a Transformer",
        pf.CODE_AND_LINEAR_RNNS,
        _judge,
    ),
    runs=(
        *seeds_of(
            REFLECTING_DELTANET,
            PLAIN_DELTANET,
            TRANSFORMER,
            LSTM,
            IMPLICIT_MAMBA2,
            MAMBA2,
            GATED_DELTANET,
            {**PLAIN_DELTANET, "learning_rate": 1e-3},
            {**TRANSFORMER, "learning_rate": 1e-3},
            **GROWING,
            **grown_on(THREE),
        ),
        *seeds_of(
            REFLECTING_DELTANET,
            PLAIN_DELTANET,
            TRANSFORMER,
            GATED_DELTANET,
            {**GATED_DELTANET, **NOT_REFLECTING},
            **GROWING,
            **grown_on(FIVE),
        ),
    ),
    measure=(pf.Measurement("final_reveal", final_reveal, RevealSettings()),),
    label=lambda settings: f"{settings['task']}: {family(settings)}",
    looks=look,
    panels=[
        pf.Lines(
            "accuracy",
            xlabel="commands",
            ylabel="accuracy of the final reveal",
            title=title,
            chance=(1 / values,),
            trained=(16,),
            only=partial(_usual, task),
            name=lambda row: family(row.settings),
            ylim=(0, 1.05),
            equal=True,
        )
        for task, values, title in ((THREE, 3, "three variables"), (FIVE, 5, "five variables"))
    ],
    layout=pf.Layout(columns=(2, 2), height=(3.2, 3.6), share=("all", "all"), legend=(4, 2)),
)
