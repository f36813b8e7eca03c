"""Training from its configuration to the finished run."""

import hashlib
import math
import warnings
from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import Optimizer

from automata.checks import by_known_names, check_type, shown
from automata.errors import InputError
from automata.tasks.specification import TaskSource
from implicit.config.references import AnyModel
from implicit.config.run import InitialWeights, TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.files import check_tensors, read_tensors, tensor_bytes
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, find_run, initial_model, largest_file, load_run
from implicit.training.loop import Callback, OwnParts, majority_baselines, take_steps
from implicit.training.objective import Loss
from implicit.training.progress import tell_avoided
from implicit.training.state_passing import check_state_passing
from implicit.training.streams import check_batch_memory, noise_generator
from implicit.training.termination import noted_termination


def begin_from(
    config: TrainConfig, run: Run | str | PathLike[str], noise: float = 0.0, *, allow_code: bool = False
) -> TrainConfig:
    """Return the configuration of a training that begins with the weights of a run.

    Model and sizes become those of the run: a loaded one, its folder, or the name of a stored one. The
    configuration holds a hash of the weights. Gaussian noise is added to every tensor, as a share of its
    norm. InputError for a run that cannot be loaded (see `load_run`), of another vocabulary or number of
    answers than the task of the configuration, or for noise that is negative.

    Example:
        >>> from implicit.config.recipes import recipe
        >>> config = begin_from(recipe("parity", "lstm", steps=10, warmup_steps=1), "parity-small", noise=0.1)
        >>> config.model, config.sizes["d_model"], config.initial.run, config.initial.noise
        ('implicit-mamba2', 8, 'parity-small', 0.1)
    """
    check_type("config", config, TrainConfig, "give a TrainConfig, such as recipe('parity', 'lstm')")
    source = run if isinstance(run, Run) else load_run(run, allow_code=allow_code)
    task = config.build_task()
    for field in ("vocabulary_size", "output_size"):
        found, asked = getattr(source.task, field), getattr(task, field)
        if found != asked:
            raise InputError(
                f"the {field} of {task.name} is {asked}, but that of run {source.path.name}, whose weights "
                f"are to begin with, is {found}; give a run of a task with {asked}"
            )
    named = fspath(source.path) if isinstance(run, Run) else fspath(run)
    initial = InitialWeights(run=named, sha256=_sha256(source.model.state_dict()), noise=noise)
    return config.updated(model=source.config.model, sizes=source.config.sizes, initial=initial)


@torch.no_grad()
def load_initial_weights(config: TrainConfig, model: SequenceModel) -> None:
    """Give a model the weights that its configuration begins with; nothing if those are the seed's.

    The noise of a tensor has in the mean the share ``noise`` of its norm, spread alike over all its entries.
    It depends on the seed of the configuration.
    """
    initial = config.initial
    if initial is None:
        return
    file = RunFolder(find_run(initial.run)).weights_file
    weights, _ = read_tensors(
        file, largest_file(model.state_dict())
    )  # as data: no code that the run names is imported
    if _sha256(weights) != initial.sha256:
        raise InputError(
            f"the weights of {initial.run} are not those that the configuration begins with; "
            "give them back, or begin another run"
        )
    own = model.state_dict()
    weights = {name: part.to(own[name].dtype) if name in own else part for name, part in weights.items()}
    check_tensors(file, weights, {name: tensor.cpu() for name, tensor in own.items()})
    generator = noise_generator(config.seed, 0)  # the steps begin with 1
    trained = dict(model.named_parameters(remove_duplicate=False))  # noise is none of a buffer's
    for name in [name for name in own if name in trained]:  # the order of the draws; a file has another
        weight = weights[name]
        scale = initial.noise * weight.norm() / math.sqrt(max(1, weight.numel()))
        weights[name] = weight + scale * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    model.load_state_dict(weights)


def _sha256(weights: Mapping[str, Tensor]) -> str:
    """Return the hash of weights as a run folder stores them."""
    return hashlib.sha256(tensor_bytes(weights)).hexdigest()


class ShortCurriculumWarning(UserWarning):
    """The curriculum ends before the sequences have the training length."""


@by_known_names
def train(
    config: TrainConfig,
    out: str | PathLike[str],
    progress: bool = True,
    tensorboard: bool = False,
    device: str = "cpu",
    *,
    task: TaskSource | None = None,
    model: AnyModel | None = None,
    callback: Callback | None = None,
    optimizer: Callable[[SequenceModel], Optimizer] | None = None,
    schedule: Callable[[int], float] | None = None,
    loss: Loss | None = None,
) -> Run:
    """Train a model, or go on where an interrupted run of the same configuration stopped.

    Args:
        config: everything that determines the run.
        out: the run folder; made if it does not exist.
        progress: whether to show a progress bar on standard error.
        tensorboard: whether to write event files to ``out/tensorboard``.
        device: ``"cpu"``, ``"cuda"`` or another; across devices weights are the same only to rounding.
        task: in place of the configuration's task: a name, ``module:name``, a specification, or the object,
            whose code has to be importable.
        model: in place of the configuration's model, with its own default sizes: a name, ``module:name``, or
            a subclass of `SequenceModel` at the top level of a module.
        callback: called with each `TrainingStep` of this process. If it returns True, training ends there and
            the run is finished; the last line of the metrics says so.
        optimizer: makes the optimiser of the model, in place of the configuration's. The learning rate of all
            its groups is the schedule's.
        schedule: the learning rate of a step, from 1, in place of the configuration's warm-up and decay.
        loss: a function of logits, targets and weights, as `weighted_cross_entropy`, in its place. Penalties
            are added to it.

    Returns:
        The finished run; if it was finished before, nothing is computed.

    Raises:
        InputError: for a device that is not there, sizes that do not divide, state passing or a penalty that
            task or model cannot do, initial weights that are no longer there, a folder with something else,
            another configuration or another process in it, gradients that are off, or a loss that is not
            finite.
        OSError: if the folder cannot be written; what was there stays whole.
        SystemExit: after SIGTERM, with exit code 143; the step is stored, and with the last one the run.

    Warns:
        ShortCurriculumWarning: if the curriculum does not reach the training length.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from implicit.config.recipes import recipe
        >>> config = recipe("parity", "lstm", steps=3, warmup_steps=1, batch_size=8, d_model=4)
        >>> with TemporaryDirectory() as folder:
        ...     run = train(config, Path(folder) / "run", progress=False)
        >>> run.model.parameter_count(), [entry["step"] for entry in run.metrics]
        (178, [3])
    """
    check_type("config", config, TrainConfig, "give a TrainConfig, such as recipe('parity', 'lstm')")
    check_type("out", out, (str, PathLike), "give the path of a run folder")
    own = OwnParts(optimizer, schedule, loss)
    for name, part in {"callback": callback, **vars(own)}.items():
        if part is not None and not callable(part):
            raise InputError(f"{name} is {shown(part)}; give a function")
    if not torch.is_grad_enabled():
        raise InputError("gradients are off; call train outside of torch.no_grad() and inference_mode()")
    folder = RunFolder(Path(out))
    given = {"task": task, "model": model}
    config = config.updated(**{field: value for field, value in given.items() if value is not None})
    if config.compiled is not None:
        raise InputError("compiled is set, which is for models that are not trained; leave it out")
    built_task = config.build_task()
    built_model = initial_model(config, built_task).to(available_device(device))
    check_state_passing(config.curriculum, built_task, built_model)
    for penalty in config.curriculum.penalties().values():
        penalty.check(built_model)
    if folder.begun:
        folder.check_same(config, own.given)
        folder.check_task(config)
    if folder.begun and folder.finished:
        folder.clear()
        return load_run(folder.path, allow_code=True)
    if folder.begun:
        folder.check_answers(built_model, "began")
    check_batch_memory(config.batch_size, config.length, built_task.output_size)
    baselines = majority_baselines(config, built_task)
    if not folder.begun:
        folder.check_free()
    if not folder.checkpoint_file.is_file():
        load_initial_weights(config, built_model)
    if shortfall := config.shortfall():
        warnings.warn(shortfall, ShortCurriculumWarning, stacklevel=2)
    with folder.held():
        if folder.begun:
            # It may have been begun, or finished, since it was looked at.
            folder.check_same(config, own.given)
        else:
            folder.begin(config, own.given)
            if config.initial is None:
                folder.keep_answers(built_model, "began")
            if progress:
                tell_avoided(built_task)
        if not folder.finished:
            options = progress, tensorboard, baselines, callback
            with noted_termination() as asked_to_stop:  # after the last step, the run is finished first
                take_steps(config, built_task, built_model, folder, *options, asked_to_stop, own)
                folder.finish(built_model)
    run = load_run(folder.path, allow_code=True)
    if config.shortfall() is None and (shortfall := run_shortfall(run)):  # else it was said before
        warnings.warn(shortfall, ShortCurriculumWarning, stacklevel=2)
    return run


def run_shortfall(run: Run) -> str | None:
    """Return what to say of a run whose curriculum ended short of the training length; None if none did."""
    last = run.metrics[-1] if run.metrics else {}
    return None if last.get("ended_by") == "callback" else run.config.shortfall(last.get("length"))


def run_ending(run: Run) -> str | None:
    """Return why a run ended before the limit of its steps; None if it took them all."""
    config, last = run.config, run.metrics[-1]
    if last["step"] == config.steps:
        return None
    ended = f"ended before its limit of {config.steps:,} steps"
    target = config.evaluation.target_accuracy
    accuracies = [one["accuracy"] for one in last["validation"].values()]
    if last.get("ended_by") == "callback":
        return f"{ended}: a callback or --end asked for it"
    if target is not None and min(accuracies) >= target:
        patience = config.evaluation.patience
        return f"{ended}: {patience} evaluations in a row reached the target accuracy {target:g}"
    return (
        f"{ended}: the training length was learnt, and {config.curriculum.final_steps:,} final steps followed"
    )


def run_fall(run: Run) -> str | None:
    """Return after which step validation was better by more than 0.05: training can lose what it learnt."""
    measured = [entry for entry in run.metrics if entry.get("validation")]
    worst = [min(one["accuracy"] for one in entry["validation"].values()) for entry in measured]
    if max(worst) <= worst[-1] + 0.05:
        return None
    step = measured[worst.index(max(worst))]["step"]
    return f"it was better before, {max(worst):.4f} after step {step:,}, and the last weights are stored"


def available_device(name: str) -> torch.device:
    """Return the device of that name; refuse one that this machine does not have."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError):  # a NotImplementedError is of the first
        known = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
        raise InputError(
            f"device is {name!r}, which is not to be had here; choose from {', '.join(known)}"
        ) from None
    return device
