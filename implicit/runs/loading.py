"""Runs: a model with its task, read back from a run folder or given in memory."""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from automata.checks import check_integer, check_type
from automata.errors import InputError, printable, unknown_name, warn_caller
from automata.tasks.interface import Specification, Task
from automata.tasks.specification import TaskSource, task_from
from implicit.cells.interface import has_own_hooks
from implicit.config.run import TrainConfig
from implicit.models.interface import ALPHABETS, SequenceModel
from implicit.models.registry import A_MODEL, MODELS, build_model, build_shapes
from implicit.runs.files import check_hashes, check_tensors, declared_tensors, read_tensors
from implicit.runs.folder import Metrics, RunFolder
from implicit.seeded import Seeded, seeded_code

STORED_RUNS = Path(__file__).parents[1] / "stored_runs"
"""Runs that come with the package, by name."""

MOST_ITERATIONS = 10**4
LONGEST_UNNAMED = 2**12
"""A stranger's run sets the iterations and the lengths of reading it to at most these."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A model with its task: a finished training run, or what `Run.of` makes of a model in memory.

    Attributes:
        path: its folder; a name for a model in memory, where nothing lies.
        config: what determined it; for a model in memory only task, model, sizes and length.
        model: in the dtype that it was trained in, in evaluation mode.
        task: what it was trained on.
        metrics: one entry per evaluation, in order.
        length_known: whether the training length in the configuration is that of the model.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.config.recipes import recipe
        >>> from implicit.train import train
        >>> with TemporaryDirectory() as folder:
        ...     train(recipe("parity", "lstm", steps=2, warmup_steps=1), Path(folder) / "run", progress=False)
        ...     run = load_run(Path(folder) / "run")
        Run run: lstm on parity, 8,578 parameters
          trained at length 32 with seed 0: 2 steps
          validation accuracy ... at length 32
        >>> run.task, run.config.steps, run.metrics[-1]["step"], run.model.training
        (<WordProblem parity: 2 tokens, 2 states>, 2, 2, False)
    """

    path: Path
    config: TrainConfig
    model: SequenceModel
    task: Task
    metrics: list[Metrics] = field(default_factory=list)
    in_memory: bool = False
    length_known: bool = True

    def __repr__(self) -> str:
        lines = [f"{self.config.model} on {self.task.name}, {self.model.parameter_count():,} parameters"]
        if self.in_memory:
            lines += ["a model in memory"]
        elif self.config.compiled is not None:
            lines += ["compiled, not trained"]
        else:
            steps = f"{self.metrics[-1]['step']:,} steps" if self.metrics else "not trained"
            lines += [f"trained at length {self.config.length} with seed {self.config.seed}: {steps}"]
        for length, measured in (self.metrics[-1] if self.metrics else {}).get("validation", {}).items():
            lines += [f"validation accuracy {measured['accuracy']:.4f} at length {length}"]
            lines += [self.bounded_end] if self.bounded_end else []
        return "\n  ".join(map(printable, [f"Run {self.name}: {lines[0]}", *lines[1:9]]))

    @property
    def name(self) -> str:
        """The name of the run in results: that of its folder."""
        return self.path.resolve().name

    @property
    def bounded_end(self) -> str | None:
        """The remedy if training ended in the bounded phase, which seeks no fixed point; else None."""
        last, curriculum = self.metrics[-1] if self.metrics else {}, self.config.curriculum
        if last.get("phase") != "bounded" or last["step"] > curriculum.bounded_steps:
            return None
        return (
            f"it ended in the bounded phase, with {curriculum.bounded_iterations} self-iterations a token; "
            f"raise steps above bounded_steps, {curriculum.bounded_steps}"
        )

    @property
    def reading_length(self) -> int:
        """The training length, at most 4,096 tokens: how long sequences are where no length is named."""
        return min(self.config.length, LONGEST_UNNAMED)

    @classmethod
    def of(cls, model: SequenceModel, task: TaskSource, *, name: str = "", length: int | None = None) -> Self:
        """Return a model in memory as questions take it: a copy, on the CPU and in evaluation mode.

        InputError for what is no `SequenceModel`, or a task of another number of tokens or answers.

        Args:
            model: any `SequenceModel`; `implicit.wrap` makes one of another module.
            task: what it was trained on: a name, ``module:name``, a specification, or the object itself.
            name: what to call it in results; the model's name if empty.
            length: tokens per sequence in training, to which some questions compare. If None, they use 32,
                or the longest that the task has, and show no training length.

        Example:
            >>> from implicit.models.torch_rnn import LSTM
            >>> model = LSTM(LSTM.config_class(vocabulary_size=2, output_size=2))
            >>> run = Run.of(model, "parity", name="mine")
            >>> run.name, run.in_memory, run.model is model
            ('mine', True, False)
        """
        wrap = "wrap another module with implicit.wrap(module, step, state, vocabulary_size=...)"
        check_type("model", model, SequenceModel, f"give a {A_MODEL}, or {wrap}")
        if has_own_hooks(model):
            raise InputError(
                "model has hooks, and questions run it rather than call it, so that they would not fire; "
                "give them to the modules within it"
            )
        built = task_from(task)
        sizes = model.config.model_dump()
        for size in ALPHABETS:
            if sizes.pop(size) != getattr(built, size):
                raise InputError(
                    f"{size} of the model is {getattr(model.config, size)}, but that of task {built.name} is "
                    f"{getattr(built, size)}; give the task that the model was trained on"
                )
        if Path(name).name != name:
            raise InputError(f"name is {name!r}; give one that a folder can have")
        called = getattr(model, "name", type(model).__name__)
        if called in MODELS and type(model) is not MODELS[called]:
            called = type(model).__name__  # a subclass that has its parent's name
        config = TrainConfig.model_construct(task=_described(built), model=called, sizes=sizes)
        used = min(config.length, built.longest or config.length) if length is None else length
        config = config.model_copy(update={"length": check_integer("length", used, 1)})
        try:
            copied = copy.deepcopy(model).cpu().eval()
        except RuntimeError as error:
            raise InputError(f"model cannot be copied ({error}); detach the tensors that it holds") from None
        return cls(Path(name or called), config, copied, built, [], True, length is not None)


def _described(task: Task) -> Specification:
    """Return the specification that rebuilds a task, or its name if there is none."""
    try:
        return task.specification()
    except InputError:
        return task.name


def load_run(
    path_or_name: str | os.PathLike[str], *, allow_code: bool = False, task: TaskSource | None = None
) -> Run:
    """Load a finished run.

    Nothing is unpickled. InputError for a missing folder or file, an unfinished run, corrupt JSON or
    safetensors, a configuration with unknown or bad fields, code that is not allowed, lies in the run folder
    or cannot be imported, and weights that do not fit or are not finite. A model makes at most 10,000
    iterations per token, whatever its configuration allows, unless a `Stopping` allows more.

    Args:
        path_or_name: a run folder, or, where no such folder exists, the name of a run stored in the package.
        allow_code: import and call the task or the model that the run names as ``module:name``; do so for
            runs of people whom you trust. Code in the run folder itself is never imported.
        task: what to load in place of the task that the run names, which is then not imported.

    Example:
        >>> load_run("no/such/run")
        Traceback (most recent call last):
        automata.errors.InputError: run no/such/run does not exist; make one with python -m implicit.train ...
    """
    folder = RunFolder(find_run(path_or_name))
    config = folder.read_config(allow_code=allow_code, task=task)
    if not folder.finished:
        if folder.checkpoint_file.is_file():
            flag = " --allow-code" if allow_code else ""
            raise InputError(
                f"run {folder.path} is not finished; finish it with python -m implicit.train --resume --out "
                f"{folder.path}{flag}, or end it where it stands with --end in place of --resume"
            )
        raise InputError(f"{folder.weights_file} is missing; restore it or train again")
    metrics = folder.read_metrics()
    check_hashes(folder.path, r"config[.]json|metrics[.]jsonl")
    if task is None:
        folder.check_task(config)
    built = config.build_task()
    declared, _ = declared_tensors(folder.weights_file)
    if config.model in MODELS:  # before the memory is taken that the configuration asks for
        shapes = build_shapes(config.model, config.sizes, built).state_dict()
        check_tensors(
            folder.weights_file,
            declared,
            {
                name: torch.empty(weight.shape, dtype=declared.get(name, weight).dtype, device="meta")
                for name, weight in shapes.items()
            },
        )
    model = initial_model(config, built)
    take_dtype(model, declared)
    check_tensors(folder.weights_file, declared, model.state_dict())
    weights, _ = read_tensors(folder.weights_file, largest_file(model.state_dict()))
    check_tensors(folder.weights_file, weights, model.state_dict())
    model.load_state_dict(weights)
    folder.check_answers(model, "ended")
    limit = getattr(model.config, "max_iterations", 0)
    if model.implicit is not None and isinstance(limit, int) and limit > MOST_ITERATIONS:
        model.config = model.config.model_copy(update={"max_iterations": MOST_ITERATIONS})
        warn_caller(
            f"max_iterations of run {folder.path.name} is {limit}; {MOST_ITERATIONS} per token are made "
            "outside of training, and Solve(stopping=Stopping(max_iterations=...)) takes more",
            UserWarning,
        )
    if config.compiled is not None and model.implicit is not None:
        model.implicit.without_kernels()  # which what is proved of executed floats speaks of
    return Run(folder.path, config, model.eval(), built, metrics)


def largest_file(weights: Mapping[str, Tensor]) -> int:
    """Return the most bytes that a file of such weights may have, in float64 and with its header."""
    return 2**24 + 8 * sum(weight.numel() for weight in weights.values())


def initial_model(config: TrainConfig, task: Task) -> SequenceModel:
    """Return the model with the initial weights of its seed, leaving the global generator alone.

    InputError for sizes that do not divide, or are too large.

    Example:
        >>> config = TrainConfig.of(task="parity", model="lstm", seed=3)
        >>> first, second = (initial_model(config, config.build_task()) for _ in range(2))
        >>> bool((first.embedding.weight == second.embedding.weight).all())
        True
    """
    own = config.model not in MODELS  # a user's, which may draw from anywhere
    with seeded_code(config.seed) if own else Seeded(config.seed):
        return build_model(config.model, config.sizes, task)


def take_dtype(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a model the floating dtype of a file's tensors, which the default dtype of this process is not.

    Nothing happens where the tensors have several, or one of a byte, in which nothing computes. Complex
    tensors get that of their parts: ``nn.Module.to`` would drop the imaginary ones.
    """
    stored, own = (
        {tensor.dtype for tensor in named.values() if tensor.is_floating_point()}
        for named in (tensors, model.state_dict())
    )
    if len(stored) == 1 and stored != own and (real := next(iter(stored))).itemsize > 1:
        for tensor in (*model.parameters(), *model.buffers()):
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.data = tensor.data.to(real.to_complex() if tensor.is_complex() else real)


def find_run(path_or_name: str | os.PathLike[str]) -> Path:
    """Return the folder of a run, or refuse a name of none."""
    check_type("run", path_or_name, (str, os.PathLike), "give a run folder or the name of a stored run")
    path = Path(path_or_name)
    if os.path.isdir(path):  # False for names that no file system takes, which Path raises on
        if (runs := sorted(path.glob("*/config.json"))) and not RunFolder(path).begun:
            names = ", ".join(str(run.parent) for run in runs[:5])
            raise InputError(f"run {path} is a folder that holds runs; give one, such as {names}")
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
