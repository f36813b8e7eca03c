"""Python sessions: is the value of the final reveal right, by model and by the number of commands?"""

from functools import partial

from paper_figures import families
from paper_figures import figure as pf
from paper_figures.measurements.answers import RevealSettings, final_reveal, grown_on

GROWING = {**families.COMMON, "growth_accuracy": 0.95, "steps": 1200, "final_steps": 700, "batch_size": 32}
THREE, FIVE = "repl-3-values", "repl-5-values"


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge three variables: every run of DeltaNet [-1, 1] is right, none of the controls at any rate."""
    three = [row for row in rows if row.settings["task"] == THREE]
    reached = {families.family(row.settings): (row.reaching("accuracy@64", 0.95), row.of) for row in three}
    controls = [
        row for row in three if families.family(row.settings).startswith(("DeltaNet [0, 1]", "Transformer"))
    ]
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
        *families.seeds_of(
            *families.COMPARED,
            families.MAMBA2,
            families.GATED_DELTANET,
            {**families.PLAIN_DELTANET, "learning_rate": 1e-3},
            {**families.TRANSFORMER, "learning_rate": 1e-3},
            **GROWING,
            **grown_on(THREE),
        ),
        *families.seeds_of(
            families.REFLECTING_DELTANET,
            families.PLAIN_DELTANET,
            families.TRANSFORMER,
            families.GATED_DELTANET,
            {**families.GATED_DELTANET, **families.NOT_REFLECTING},
            **GROWING,
            **grown_on(FIVE),
        ),
    ),
    measure=(pf.Measurement("final_reveal", final_reveal, RevealSettings()),),
    label=lambda settings: f"{settings['task']}: {families.family(settings)}",
    looks=families.look,
    panels=[
        pf.Lines(
            "accuracy",
            xlabel="commands",
            ylabel="accuracy of the final reveal",
            title=title,
            chance=(1 / values,),
            trained=(16,),
            only=partial(_usual, task),
            name=lambda row: families.family(row.settings),
            ylim=(0, 1.05),
            equal=True,
        )
        for task, values, title in ((THREE, 3, "three variables"), (FIVE, 5, "five variables"))
    ],
    layout=pf.Layout(columns=(2, 2), height=(3.2, 3.6), share=("all", "all"), legend=(4, 2)),
)
