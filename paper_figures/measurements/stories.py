"""How many answers of catbAbI's test stories a run gets right, task by task."""

from collections.abc import Iterator
from typing import Any

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from automata.babi import QUESTION
from automata.checks import check_type
from automata.tasks.catbabi import CatBabi
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
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
        yield output.logits.argmax(dim=-1).flatten(), None if reached is None else reached.flatten()
