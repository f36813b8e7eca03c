"""A compiled model as a run folder, so that all that takes a run takes it."""

from dataclasses import asdict
from os import PathLike
from pathlib import Path

from automata.checks import check_type
from automata.errors import InputError
from automata.tasks.specification import TaskSource
from implicit.compiled.compile import compile_automaton
from implicit.compiled.gains import Gains
from implicit.config.run import TrainConfig
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, load_run


def compile_run(
    task: TaskSource, out: str | PathLike[str], gains: Gains | None = None, *, damping: float = 1.0
) -> Run:
    """Compile the machine of a task and store the model as a finished run that was not trained.

    Its metrics are empty, and ``compiled`` in its configuration holds the gains; steps, seed and optimiser
    are there as in every configuration and say nothing.

    Args:
        task: as `automata.tasks.specification.task_from` takes it, except automata that accept or reject:
            their task is to tell the state.
        out: the run folder, which must not hold anything yet.
        gains: how strongly the parts act.
        damping: of the iteration.

    Raises:
        InputError: for a task without a machine, gains out of range, or a folder that is not free.
        OSError: if the folder cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     run = compile_run("parity", Path(folder) / "compiled-parity")
        >>> run.config.compiled["decay"], run.metrics, run.config.model
        (0.0625, [], 'implicit-mamba2')
    """
    check_type("out", out, (str, PathLike), "give the path of a run folder")
    folder, gains = RunFolder(Path(out)), gains or Gains()
    folder.check_free()
    described = TrainConfig.of(task=task, model="implicit-mamba2")
    model = compile_automaton(described.build_task(), gains, damping=damping)
    sizes = model.config.model_dump(exclude={"vocabulary_size", "output_size"})
    config = described.updated(sizes=sizes, compiled=asdict(gains))
    if folder.begun:
        raise InputError(f"out is {folder.path}, which holds a run; give a new folder")
    with folder.held():
        folder.begin(config)
        folder.finish(model)
    return load_run(folder.path, allow_code=True)
