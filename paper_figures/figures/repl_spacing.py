"""Python sessions: is a revealed value right, by model, by loss and by how often values are revealed?"""

from collections.abc import Callable
from typing import Any

from paper_figures import families
from paper_figures import figure as pf
from paper_figures.measurements.answers import (
    TRAINED_COMMANDS,
    SpacingSettings,
    reveals_by_spacing,
    session_tokens,
)

VALUES, ALL = "repl-3-values-random", "repl-3-random"
FIVE, FIVE_ALL = "repl-5-values-random", "repl-5-random"
"""Tasks of training. Reveals follow commands with probability 1/4: short sequences ask for a single swap."""
BY_ACCURACY = {
    **families.COMMON,
    "growth_accuracy": 0.95,
    "steps": 2000,
    "final_steps": 700,
    "batch_size": 32,
}
BY_UPDATES = {**BY_ACCURACY, "growth_accuracy": None, "length_growth_every": 100}
"""Where every token is in the loss, commands are random, and no accuracy tells when to grow."""
MODELS = (
    *families.COMPARED,
    families.MAMBA2,
    families.GATED_DELTANET,
    families.GATED_DELTAPRODUCT,
    {**families.PLAIN_DELTANET, "model": "implicit-deltanet", "layers": 1, **families.IMPLICIT},
)
LOSSES = {VALUES: "revealed values", ALL: "every token"}


def _growing(task: str, full: str, start: int) -> dict[str, Any]:
    """Return the lengths of training: those of one command with its reveal, up to some 16 commands."""
    length = session_tokens(full, TRAINED_COMMANDS) + 1
    return {"task": task, "length": length, "start_length": start, "length_growth": 16}


def _accuracy(test: str) -> Callable[[pf.MeasuredRun], dict[int, float]]:
    return lambda run: {int(n): found["accuracy"] for n, found in run.values["tests"][test].items()}


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge three variables, by either loss: right after 64 commands in all three sparse tests.

    Reproduced if every run of DeltaNet [-1, 1] is right in all, and no run of DeltaNet [0, 1] nor of the
    Transformer in any; not reproduced if no run of DeltaNet [-1, 1] is; partly otherwise.
    """
    told, shown, only = [], [], True
    for task, loss in LOSSES.items():
        right = {
            families.family(row.settings): [
                [_accuracy(test)(run)[64] >= 0.95 for test in ("4", "8", "random")] for run in row.runs
            ]
            for row in rows
            if row.settings["task"] == task
        }
        of = {families.family(row.settings): row.of for row in rows if row.settings["task"] == task}
        all_right = {name: sum(map(all, runs)) for name, runs in right.items()}
        some = [f"{name} {count} of {of[name]}" for name, count in all_right.items() if count]
        told.append(f"{loss}: {', '.join(some)}, the others none")
        shown.append((all_right["DeltaNet [-1, 1]"], of["DeltaNet [-1, 1]"]))
        only &= not any(any(run) for name in ("DeltaNet [0, 1]", "Transformer") for run in right[name])
    because = (
        "runs with at least 0.95 after 64 commands with reveals after every 4th, every 8th and at random, by "
        f"the loss of {'; '.join(told)}"
    )
    every = all(count == of for count, of in shown)
    return pf.graded(every and only, any(count for count, _ in shown), because)


PANELS = (
    (VALUES, "1", "every command"),
    (VALUES, "4", "every 4th"),
    (VALUES, "8", "every 8th"),
    (VALUES, "random", "1 in 4, random"),
    (ALL, "4", "every 4th,\nloss of all tokens"),
    (ALL, "random", "random,\nloss of all tokens"),
    (FIVE, "4", "every 4th,\nfive variables"),
    (FIVE, "random", "random,\nfive variables"),
    (FIVE_ALL, "4", "every 4th, five,\nloss of all tokens"),
    (FIVE_ALL, "random", "random, five,\nloss of all tokens"),
)
"""Task of training, test, and title."""

FIGURE = pf.Figure(
    title="Python sessions, by spacing of reveals and by loss",
    section="Sessions and beliefs",
    claim=pf.Claim(
        "DeltaNet with eigenvalues in [-1, 1] learns permutations from sessions, by the loss of every token "
        "or of the revealed values, however sparse the reveals; with [0, 1] it does not, nor does a "
        "Transformer",
        pf.CODE_AND_LINEAR_RNNS,
        _judge,
    ),
    runs=(
        *families.seeds_of(*MODELS, **BY_ACCURACY, **_growing(VALUES, "repl-3-values", 40)),
        *families.seeds_of(*MODELS, **BY_UPDATES, **_growing(ALL, "repl-3-values", 40)),
        *families.seeds_of(*MODELS, **BY_ACCURACY, **_growing(FIVE, "repl-5-values", 50)),
        *families.seeds_of(*MODELS, **BY_UPDATES, **_growing(FIVE_ALL, "repl-5-values", 50)),
    ),
    measure=(pf.Measurement("reveals_by_spacing", reveals_by_spacing, SpacingSettings()),),
    label=lambda settings: f"{settings['task']}: {families.family(settings)}",
    looks=families.look,
    panels=[
        pf.Lines(
            _accuracy(test),
            xlabel="commands",
            ylabel="final reveal right",
            title=title,
            chance=(1 / (5 if task in (FIVE, FIVE_ALL) else 3),),
            trained=(TRAINED_COMMANDS,),
            only=pf.where(task=task),
            name=lambda row: families.family(row.settings),
            ylim=(0, 1.05),
            xticks=((4, 16, 64), ("4", "16", "64")),
            equal=True,
        )
        for task, test, title in PANELS
    ],
    layout=pf.Layout(columns=(5, 2), height=(4.4, 9.4), share=("all", "all"), legend=(4, 2)),
)
