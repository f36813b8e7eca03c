"""Training that begins with the weights of a run, with or without noise, in place of random ones."""

import hashlib
import math
from collections.abc import Mapping
from os import PathLike, fspath

import torch
from torch import Tensor

from automata.checks import check_type
from automata.errors import InputError
from implicit.config.run import InitialWeights, TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.files import check_tensors, read_tensors, tensor_bytes
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, find_run, largest_file, load_run
from implicit.training.streams import noise_generator


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
    for name in model.state_dict():  # the order of the draws; a file has another
        weight = weights[name]
        scale = initial.noise * weight.norm() / math.sqrt(max(1, weight.numel()))
        weights[name] = weight + scale * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    model.load_state_dict(weights)


def _sha256(weights: Mapping[str, Tensor]) -> str:
    """Return the hash of weights as a run folder stores them."""
    return hashlib.sha256(tensor_bytes(weights)).hexdigest()
