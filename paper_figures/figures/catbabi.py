"""catbAbI: does the fixed point help one layer to answer questions about stories, task by task?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from automata.babi import QUESTION, TASK_NAMES
from automata.checks import check_type
from automata.data_files import DATA_VARIABLE
from automata.tasks.catbabi import CatBabi
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from paper_figures import figure as pf
from theory.transition import State

_Read = tuple[Tensor, Tensor | None]


class StorySettings(CheckedConfig):
    """How the test stories are read."""

    order: NonNegativeInt = 0  # which order of the stories; see CatBabi
    piece: PositiveInt = 200  # tokens that are read at a time
    batch_size: PositiveInt = 64  # pieces at a time, where each is read from the initial state
    mode: Mode = "sequential"  # of implicit models: how fixed points are sought
    rtol: PositiveFloat = 0.01  # relative tolerance of the fixed points
    max_iterations: PositiveInt = 64  # the most self-iterations per token


@torch.no_grad()
def story_answers(run: Run, settings: StorySettings) -> dict[str, Any]:
    r"""Measure the accuracy of the token after every question mark of the test stories, over all and by task.

    All stories come once, one after the other. A run whose training carried its state reads them as one row,
    piece by piece, from the initial state; of others every piece begins with that state.

    A fixed point that is not reached tells of no answer to come, but all are counted: right or wrong is what
    the last iterate says. ``share_converged`` is the share of the tokens whose own residual, from the state
    that the token before has left, is below the tolerance.
    """
    check_type("task", run.task, CatBabi, "give a run on catbAbI")
    assert isinstance(run.task, CatBabi)
    test = run.task.part("test")
    tokens, targets, tasks = (torch.as_tensor(row) for row in test.whole_part(settings.order))
    carried = run.config.curriculum.carried_share > 0
    found = [*_read(run, tokens, settings, carried)]
    answers = torch.cat([one for one, _ in found])
    reached = [solved for _, solved in found if solved is not None]
    asked = tokens == test.token_names.index(QUESTION)
    right = (answers == targets)[asked]
    of_task = tasks[asked]
    by_task = {
        int(number): {"right": int(right[of_task == number].sum()), "asked": int((of_task == number).sum())}
        for number in of_task.unique().tolist()
    }
    return {
        "accuracy": float(right.double().mean()),
        "asked": int(asked.sum()),
        "tasks": by_task,
        "carried": carried,
        "share_converged": float(torch.cat(reached).double().mean()) if reached else None,
        "updates": run.metrics[-1]["step"] if run.metrics else 0,
    }


def _read(run: Run, tokens: Tensor, settings: StorySettings, carried: bool) -> Iterator[_Read]:
    """The likeliest next tokens and which fixed points were reached, piece by piece.

    One row goes on from piece to piece where the state is carried; else whole pieces are read together, each
    from the initial state, and then what is left.
    """
    solve = Solve(
        settings.mode, stopping=Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    )
    whole = 0 if carried else len(tokens) // settings.piece * settings.piece
    together = tokens[:whole].view(-1, settings.piece).split(settings.batch_size) if whole else ()
    state: State | None = None
    for batch in (*together, *(piece[None] for piece in tokens[whole:].split(settings.piece) if len(piece))):
        output = run.model.run(batch, state, solve)
        state, solution = output.state if carried else None, output.solution
        reached = None if solution is None else solution.relative_residual <= settings.rtol
        yield output.answers.flatten(), None if reached is None else reached.flatten()


FILE = f"${DATA_VARIABLE}/babi/en-valid-10k.tar.gz"
DIGEST = "9f7fe3a1f20fe8ed177f01b51f6f9ea0a268430e9c8a6b6817dfc65d369f83fa"
"""SHA-256 of the stories, without the training file of task 3 and the last story of every file."""
NOT_TRAINED = 3  # the task whose training stories are missing
PIECE = 200  # tokens that are read at a time, in training and test
PROTOCOLS = {
    "catbabi-answers-carried": "answers, state carried",
    "catbabi-words-carried": "all words, state carried",
    "catbabi-answers-reset": "answers, state reset",
    "catbabi-words-reset": "all words, state reset",
}
"""The tokens in the loss, and whether the state goes on from piece to piece, in training and in the test."""
TRAINING = {
    "length": PIECE,
    "batch_size": 32,
    "steps": 1200,
    "learning_rate": 6e-3,
    "gradient_clip": 1.0,
    "bounded_steps": 0,
    "free_max_iterations": 24,
    "free_rtol": 0.05,
    "free_gradient": "phantom",
    "phantom_steps": 4,
    "contraction_weight": 0.0,
    "carried_after": 0,
    "carried_always": True,
    "evaluate_every": 400,
    "evaluation_sequences": 32,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 64,
}
SIZES = {"d_model": 64, "expand": 2, "d_state": 32, "head_size": 32, "d_conv": 4}
MODELS: tuple[dict[str, Any], ...] = (
    {"model": "mamba2", "layers": 1, **SIZES},
    {"model": "mamba2", "layers": 2, **SIZES},
    {"model": "mamba2", "layers": 4, **SIZES},
    {"model": "implicit-mamba2", "layers": 1, **SIZES},
    {"model": "lstm", "layers": 1, "d_model": 128},
)


class StoryPoint(pf.Point):
    """A run on one of the protocols, whose names stand for how the stories are read.

    Example:
        >>> point = StoryPoint({"task": "catbabi-answers-carried", "model": "lstm", "seed": 0}, TRAINING)
        >>> point.config.curriculum.carried_share, point.name
        (1.0, 'catbabi-answers-carried-lstm-seed-0')
    """

    @property
    def all_settings(self) -> dict[str, Any]:
        """Everything that was chosen, the task as what rebuilds it, the seed last."""
        settings = super().all_settings
        name, seed = settings["task"], settings.pop("seed")
        _, asked, state = name.split("-")
        task = {
            "catbabi": FILE,
            "predict": {"answers": "answers", "words": "all"}[asked],
            **({"begins": "anywhere"} if state == "reset" else {}),
            "sha256": DIGEST,
            "name": name,
            "description": PROTOCOLS[name],
        }
        return {**settings, "task": task, "carried_share": float(state == "carried"), "seed": seed}


def _model(settings: pf.Settings) -> str:
    layers = settings.get("layers", 1)
    return model_label(settings["model"]) + (f", {layers} layers" if layers > 1 else "")


def _look(settings: pf.Settings) -> Look:
    of_model = MODEL_LOOKS[settings["model"]]
    marker = {2: "D", 4: "p"}.get(settings.get("layers", 1), of_model.marker)
    return replace(of_model, marker=marker, dashes="")  # a mark is a run


def _shares(row: pf.Row, task: int) -> list[float]:
    return [found[str(task)]["right"] / found[str(task)]["asked"] for found in row.each("tasks")]


def _rows(rows: pf.Rows, protocol: str) -> dict[str, pf.Row]:
    return {_model(row.settings): row for row in rows if row.settings["task"] == protocol}


def _whole(axes: Axes, rows: pf.Rows) -> None:
    """Draw a row for each protocol, in it a line of marks for each model, a mark for each run."""
    for place, protocol in enumerate(PROTOCOLS):
        for number, (name, row) in enumerate(_rows(rows, protocol).items()):
            values = row.each("accuracy")
            axes.plot(
                values, [place + 0.15 * (number - (len(MODELS) - 1) / 2)] * len(values), linestyle="",
                marker=row.look.marker, color=row.look.color, markersize=4, label=name if not place else None,
            )  # fmt: skip
    axes.set(
        **pf.lines_of_text([words.replace(", ", ",\n") for words in PROTOCOLS.values()]),
        xlabel="right answers (share)",
        title="all questions",
    )


def _by_task(axes: Axes, rows: pf.Rows) -> None:
    """Draw mean and range over the runs of one explicit, one implicit layer and the LSTM."""
    found = _rows(rows, "catbabi-answers-carried")
    for number, name in enumerate(("explicit Mamba-2", "implicit Mamba-2", "LSTM")):
        row = found[name]
        for task in TASK_NAMES:
            values, place = _shares(row, task), task + 0.24 * (number - 1)
            axes.plot([min(values), max(values)], [place, place], color=row.look.color, linewidth=0.8)
            axes.plot(np.mean(values), place, marker=row.look.marker, color=row.look.color, markersize=4)
    axes.axhline(NOT_TRAINED, color=GREY, linewidth=6, alpha=0.2)
    names = [f"{name}{' (not trained)' if task == NOT_TRAINED else ''}" for task, name in TASK_NAMES.items()]
    axes.set(
        yticks=list(TASK_NAMES),
        yticklabels=names,
        ylim=(len(TASK_NAMES) + 0.6, 0.4),
        xlim=(-0.02, 1.02),
        xlabel="right answers (share)",
        title="answers, state carried",
    )


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count the trained tasks on which the implicit layer is ahead by means over the seeds.

    Reproduced if it is on more than half in every protocol, not reproduced if in none; partly otherwise.
    """
    told, most = [], []
    tasks = [task for task in TASK_NAMES if task != NOT_TRAINED]
    for protocol, words in PROTOCOLS.items():
        found = _rows(rows, protocol)
        pairs = [[_shares(found[f"{kind} Mamba-2"], t) for kind in ("implicit", "explicit")] for t in tasks]
        ahead = sum(bool(np.mean(one) > np.mean(other)) for one, other in pairs)
        every = sum(min(one) > max(other) for one, other in pairs)
        most.append(2 * ahead > len(tasks))
        told.append(f"{words} {ahead} of {len(tasks)} ({every})")
    because = (
        "tasks on which one implicit layer is ahead of one explicit (in brackets: by every run): "
        + "; ".join(told)
    )
    return pf.graded(all(most), any(most), because)


FIGURE = pf.Figure(
    title="catbAbI: questions about stories",
    section="Language models",
    claim=pf.Claim(
        "on catbAbI a one-layer implicit model beats a one-layer explicit one on most of the tasks",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=tuple(
        pf.Grid(
            {name: [value] for name, value in {"task": task, **model, "seed": seed}.items()},
            TRAINING,
            StoryPoint,
        )
        for state in ("carried", "reset")  # the published protocol first, seed by seed
        for seed in range(3)
        for task in PROTOCOLS
        if task.endswith(state)
        for model in MODELS
    ),
    measure=(pf.Measurement("answers", story_answers, StorySettings(piece=PIECE)),),
    data=(FILE,),
    label=lambda settings: f"{PROTOCOLS[settings['task']]}: {_model(settings)}",
    looks=_look,
    panels=[pf.Drawn(_whole), pf.Drawn(_by_task)],
    layout=pf.Layout(columns=(2, 1), height=(4.2, 7.4), share=("none", "none"), legend=(5, 2)),
)
