"""The models on the way of a training run, which stores the last one only: it is trained again."""

import copy
import tempfile
from collections.abc import Collection
from pathlib import Path

import torch

from automata.errors import InputError
from implicit.models.interface import SequenceModel
from implicit.runs.loading import Run, initial_model
from implicit.train import train


def runs_on_the_way(run: Run, steps: Collection[int]) -> dict[int, Run]:
    """Train a run again; return it with its model after some steps, in order, and after the last one.

    Args:
        run: a stored one; it is trained again on the device that its model is on.
        steps: after which a model is kept, 0 for the initial weights; later ones than the last are ignored.

    Raises:
        InputError: if the training does not end in the weights of the run.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from implicit import recipe
        >>> config = recipe("parity", "lstm", steps=3, warmup_steps=1, batch_size=4, d_model=4)
        >>> with TemporaryDirectory() as folder:
        ...     run = train(config, Path(folder) / "run", progress=False)
        >>> list(runs_on_the_way(run, (0, 2, 500)))
        [0, 2, 3]
    """
    kept: dict[int, SequenceModel] = {}
    device = run.model.device
    if 0 in steps:
        kept[0] = initial_model(run.config, run.task).to(device)

    def keep(step: int, model: SequenceModel) -> None:
        if step in steps:
            kept[step] = copy.deepcopy(model)

    with tempfile.TemporaryDirectory() as folder:
        again = train(run.config, Path(folder) / "run", progress=False, device=str(device), watch=keep)
    ended, weights = run.model.state_dict(), again.model.to(device).state_dict()
    if any(not torch.equal(ended[name], weights[name]) for name in ended):
        raise InputError(
            f"training of {run.path.name} ended in other weights than those stored; train both with the same "
            "number of threads on the same machine"
        )
    kept[again.metrics[-1]["step"]] = again.model
    return {step: Run(run.path, run.config, model.eval(), run.task, []) for step, model in kept.items()}
