"""A finished training run, read back from its folder or from those stored in the package."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from automata.checks import check_type
from automata.errors import InputError, unknown_name
from automata.tasks.interface import Task
from automata.tasks.specification import TaskSource
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS, build_model, build_on_meta
from implicit.runs.files import check_tensors, declared_tensors, read_tensors
from implicit.runs.folder import Metrics, RunFolder
from implicit.seeded import Seeded, seeded_code

STORED_RUNS = Path(__file__).parents[1] / "stored_runs"
"""Runs that come with the package, by name."""


@dataclass(frozen=True, eq=False)
class Run:
    """A finished training run.

    Attributes:
        path: its folder.
        config: what determined it.
        model: the trained model, in the dtype that it was trained in, in evaluation mode.
        task: what it was trained on.
        metrics: one entry per evaluation, in order.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.config.recipes import recipe
        >>> from implicit.train import train
        >>> with TemporaryDirectory() as folder:
        ...     train(recipe("parity", "lstm", steps=2, warmup_steps=1), Path(folder) / "run", progress=False)
        ...     run = load_run(Path(folder) / "run")
        Run(...)
        >>> run.task, run.config.steps, run.metrics[-1]["step"], run.model.training
        (<WordProblem parity: 2 tokens, 2 states>, 2, 2, False)
    """

    path: Path
    config: TrainConfig
    model: SequenceModel
    task: Task
    metrics: list[Metrics]


def load_run(
    path_or_name: str | os.PathLike[str], *, allow_code: bool = False, task: TaskSource | None = None
) -> Run:
    """Load a finished run.

    Nothing is unpickled. Code that the run names is imported only if that is allowed.

    Args:
        path_or_name: a run folder, or, where no such folder exists, the name of a run stored in the package.
        allow_code: import the task or the model that the run names as ``module:name``; do so for runs of
            people whom you trust. Code in the run folder itself is never imported.
        task: what to load in place of the task that the run names, which is then not imported.

    Raises:
        InputError: for a missing folder or file, an unfinished run, corrupt JSON or safetensors, a
            configuration with unknown or bad fields, a task or a model that is code, if that is not allowed,
            lies in the run folder or cannot be imported, and weights that do not fit it (missing, unexpected,
            of another shape or dtype) or are not finite.

    Example:
        >>> load_run("no/such/run")
        Traceback (most recent call last):
        automata.errors.InputError: run no/such/run does not exist; make one with python -m implicit.train ...
    """
    folder = RunFolder(find_run(path_or_name))
    config = folder.read_config(allow_code=allow_code, task=task)
    if not folder.finished:
        if folder.checkpoint_file.is_file():
            raise InputError(
                f"run {folder.path} is not finished; "
                f"finish it with python -m implicit.train --resume --out {folder.path}"
            )
        raise InputError(f"{folder.weights_file} is missing; restore it or train again")
    metrics = folder.read_metrics()
    built = config.build_task()
    declared, _ = declared_tensors(folder.weights_file)
    if config.model in MODELS:  # before the memory is taken that the configuration asks for
        _check_fit(folder.weights_file, declared, build_on_meta(config.model, config.sizes, built))
    model = initial_model(config, built)
    _check_fit(folder.weights_file, declared, model)
    weights, _ = read_tensors(folder.weights_file, largest_file(model.state_dict()))
    check_tensors(folder.weights_file, weights, model.state_dict())
    model.load_state_dict(weights)
    if config.compiled is not None and model.implicit is not None:
        model.implicit.without_kernels()  # which what is proved of executed floats speaks of
    return Run(folder.path, config, model.eval(), built, metrics)


def _check_fit(path: Path, declared: Mapping[str, Tensor], model: SequenceModel) -> None:
    """Refuse a file whose header does not fit a model, which takes the dtype of the file."""
    take_dtype(model, declared)
    check_tensors(path, declared, model.state_dict())


def largest_file(weights: Mapping[str, Tensor]) -> int:
    """Return the most bytes that a file of such weights may have, in float64 and with its header."""
    return 2**24 + 8 * sum(weight.numel() for weight in weights.values())


def initial_model(config: TrainConfig, task: Task) -> SequenceModel:
    """Return the model with the initial weights of its seed, leaving the global generator alone.

    Raises:
        InputError: for sizes that do not divide, or are too large.

    Example:
        >>> config = TrainConfig.of(task="parity", model="lstm", seed=3)
        >>> first, second = (initial_model(config, config.build_task()) for _ in range(2))
        >>> bool((first.embedding.weight == second.embedding.weight).all())
        True
    """
    own = config.model not in MODELS  # a user's, which may draw from anywhere
    with seeded_code(config.seed) if own else Seeded(config.seed):
        return build_model(config.model, config.sizes, task)


def untrained_run(config: TrainConfig) -> Run:
    """Return the run of a configuration before its first update: initial weights, no folder, no metrics."""
    task = config.build_task()
    return Run(Path("runs") / config.model, config, initial_model(config, task).eval(), task, [])


def take_dtype(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a model the floating dtype of a file's tensors, which the default dtype of this process is not.

    Nothing happens where the tensors have several.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> take_dtype(layer, nn.Linear(1, 1).double().state_dict())
        >>> layer.weight.dtype
        torch.float64
    """
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        model.to(dtypes.pop())


def find_run(path_or_name: str | os.PathLike[str]) -> Path:
    """Return the folder of a run.

    Raises:
        InputError: if there is none.
    """
    check_type("run", path_or_name, (str, os.PathLike), "give a run folder or the name of a stored run")
    path = Path(path_or_name)
    if os.path.isdir(path):  # False for names that no file system takes, which Path raises on
        return path
    if os.path.exists(path):
        raise InputError(f"run {path} is a file; give the folder that holds it")
    stored = [folder.name for folder in STORED_RUNS.iterdir()] if STORED_RUNS.is_dir() else []
    if path.name == os.fspath(path_or_name):
        if path.name in stored:
            return STORED_RUNS / path.name
        if stored:
            raise unknown_name("run", path.name, stored)
    raise InputError(f"run {path} does not exist; make one with python -m implicit.train --out {path}")
