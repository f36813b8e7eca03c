"""The default recipes, over five seeds each: accuracy, agreement of the modes, updates, time."""

from typing import NamedTuple

from paper_figures import figure as pf

LENGTHS, TIGHT = (32, 40, 512, 1024), "accuracy_tight"


class Aim(NamedTuple):
    """The aim of a training: an accuracy at a length, in so many of five runs."""

    length: int
    accuracy: float
    runs: int


AIMS = {
    **dict.fromkeys(("parity", "S3", "A4", "S4"), Aim(512, 1.0, 5)),
    **dict.fromkeys(("A5-generators", "S5-generators"), Aim(1024, 0.99, 4)),
}


def _accuracy(run: pf.MeasuredRun) -> float:
    return float(run.at(f"accuracy@{AIMS[run.settings['task']].length}"))


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Reproduced if every task reaches its aim, not reproduced if none does; partly otherwise."""
    met, loose, tight = [], [], []
    for row in rows:
        aim = AIMS[row.settings["task"]]
        reached = row.reaching(f"accuracy@{aim.length}", aim.accuracy)
        met.append(reached >= aim.runs)
        loose.append(f"{row.label} {reached} of {row.of}")
        tight.append(f"{row.label} {row.reaching(f'accuracy_tight@{aim.length}', aim.accuracy)}")
    because = f"runs that reach the aim: {', '.join(loose)}; at tolerance 1e-4: {', '.join(tight)}"
    return pf.graded(all(met), any(met), because)


FIGURE = pf.Figure(
    title="The recipes, over seeds",
    section="Training",
    claim=pf.Claim(
        "one implicit layer, trained by its recipe on at most 40 tokens, tracks parity, S3, A4 and S4 for "
        "512 tokens without an error in five seeds of five, and A5 and S5 by generators for 1,024 with 0.99 "
        "in four",
        pf.OURS,
        _judge,
    ),
    runs=pf.Variants(
        {"model": "implicit-mamba2"},
        {f"{task.partition('-')[0]}, {aim.length:,}": {"task": task} for task, aim in AIMS.items()},
        seeds=5,
    ),
    measure=(
        pf.accuracy_at(*LENGTHS, sequences=512, rtol=0.01),
        pf.accuracy_at(*LENGTHS, sequences=512, rtol=1e-4, name=TIGHT, keep={"accuracy": TIGHT}),
        pf.AGREEMENT,
    ),
    panels=[
        pf.Marks(_accuracy, "accuracy", xlim=(0.945, 1.004), ticks=(0.95, 1)),
        pf.Marks("agree", "modes\nagree", xlim=(-0.08, 1.08), ticks=(0, 1)),
        pf.Marks("updates", "training,\nupdates"),
        pf.Marks("minutes", "training,\nminutes"),
    ],
    layout=pf.Layout(columns=(4, 4)),
)
