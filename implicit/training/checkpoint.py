"""The state of training between two steps, in one safetensors file.

Weights, the optimiser's state, progress, and where the sequences of the last step ended, if any go on from
there. There is no random state in it: the initial weights follow from the seed and every batch from
(seed, step).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim import Optimizer

from automata.checks import check_integer, check_memory, check_number
from automata.errors import InputError
from implicit.config.curriculum import Growth
from implicit.config.run import TrainConfig
from implicit.models.interface import SequenceModel
from implicit.runs.files import check_tensors, declared_tensors, read_tensors, write_tensors
from implicit.runs.loading import take_dtype
from implicit.training.optimizers import PREFIX, describe_optimizer, restore_optimizer
from implicit.training.state_passing import PassedState

FORMAT_VERSION = 3
"""The version of a checkpoint. The first held AdamW's moments only and named none; the second no growth."""

_READABLE = (2, 3)

_REMEDY = "delete the run folder and train again"


_MODEL, _CARRIED = "model.", "carried."
_AT_THE_BEGINNING = Growth()


@dataclass(frozen=True)
class Progress:
    """How far training has come; tokens count padding, and target_met evaluations in a row."""

    step: int = 0
    seconds: float = 0.0
    target_met: int = 0
    growth: Growth = _AT_THE_BEGINNING
    tokens: int = 0

    @classmethod
    def of(
        cls, step: int, seconds: float, target_met: int, growth: dict[str, Any] | None = None, tokens: int = 0
    ) -> "Progress":
        """Return the progress that a checkpoint tells as JSON; TypeError or InputError for something else."""
        counts = {"step": step, "target_met": target_met, "tokens": tokens}
        for field, value in counts.items():
            check_integer(field, value, 0, 2**63 - 1)
        check_number("seconds", seconds, finite=True)
        grown = Growth(**(growth or {}))
        for field in ("length", "final_from"):
            if getattr(grown, field) is not None:
                check_integer(field, getattr(grown, field), 1)
        check_number("accuracy", grown.accuracy, finite=True)
        return cls(step, seconds, target_met, grown, tokens)

    def check_unfinished(self, config: TrainConfig) -> None:
        """Refuse what stands at no step of a run between two others; InputError."""
        check_integer("length", self.growth.length or 1, 1, config.length)
        check_integer("step", self.step, 0, config.last_step(self.growth) - 1)


def save_checkpoint(
    path: Path,
    model: SequenceModel,
    optimizer: Optimizer,
    progress: Progress,
    passed: PassedState | None = None,
    run: str = "",
) -> None:
    """Write the state of training in one stroke; of an optimiser of any class, before or after a step.

    ``run`` is the identity of the run, without which the checkpoint is that of any.
    """
    tensors = _named(model)
    of_optimizer, description = describe_optimizer(model, optimizer)
    _refuse_nan(of_optimizer, f"lower the learning rate; {path} stays as it was")
    tensors.update(of_optimizer)
    if passed is not None:
        tensors.update({f"{_CARRIED}{name}": tensor for name, tensor in passed.tensors().items()})
    path.parent.mkdir(exist_ok=True)
    metadata = {
        "format_version": FORMAT_VERSION,
        "progress": asdict(progress),
        "optimizer": description,
        "run": run,
    }
    write_tensors(path, tensors, {name: json.dumps(value) for name, value in metadata.items()})


def load_checkpoint(
    path: Path,
    model: SequenceModel,
    optimizer: Optimizer,
    batch_size: int | None = None,
    run: str = "",
    config: TrainConfig | None = None,
    *,
    configured: bool = False,
) -> tuple[Progress, PassedState | None]:
    """Put model and optimiser back into the state that was saved; return the progress and what was passed.

    The optimiser is of the class that was saved; one that was ``configured`` keeps its own options. What was
    passed has any size of batch if that is None. With a configuration, the progress is one of its run.
    """
    _check_header(path, model, batch_size, run)
    tensors, metadata = read_tensors(path)
    parts = _parts(path, tensors)
    check_tensors(path, parts[_MODEL], _named(model))
    try:
        progress = Progress.of(**_read(path, metadata, "progress"))
        if config is not None:
            progress.check_unfinished(config)
    except InputError as error:
        raise InputError(f"{path} does not tell the step: {error}; {_REMEDY}") from None
    except TypeError:
        raise InputError(f"{path} does not tell the step; {_REMEDY}") from None
    _refuse_nan(parts[PREFIX], f"restore {path}, or {_REMEDY}")
    # Copied into storage that torch aligned, for the bits of a matrix product may depend on the alignment.
    model.load_state_dict({name.removeprefix(_MODEL): tensor for name, tensor in parts[_MODEL].items()})
    try:
        description = _read(path, metadata, "optimizer")
        averaging = config is not None and config.averaged_steps(progress.step, progress.growth) > 0
        options = {"configured": configured, "averaging": averaging}
        restore_optimizer(model, optimizer, parts[PREFIX], description, **options)
    except InputError as error:
        raise InputError(f"{path}: {error}; {_REMEDY}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{path} does not tell the state of the optimiser; {_REMEDY}") from None
    passed = {
        name.removeprefix(_CARRIED): tensor.to(model.device) for name, tensor in parts[_CARRIED].items()
    }
    return progress, PassedState.from_tensors(passed) if passed else None


class StoredWeights:
    """The stored tensors of a model. A model that could not load them is refused before the first step."""

    def __init__(self, model: SequenceModel) -> None:
        self.model = model
        state = model.state_dict()
        for name, value in state.items():
            if not isinstance(value, torch.Tensor):
                raise InputError(f"model stores {name}, which is no tensor; register it as a buffer")
        try:
            model.load_state_dict({name: tensor.clone() for name, tensor in state.items()})
        except RuntimeError as error:
            raise InputError(
                f"model cannot load what it stores ({str(error).splitlines()[-1].strip()})"
            ) from None
        self.finite = [name for name, tensor in state.items() if bool(tensor.isfinite().all())]

    def check(self, step: int) -> None:
        """Refuse weights that became NaN or infinite, which no run holds; a checkpoint before stays."""
        state = self.model.state_dict()
        for name in self.finite:
            if not bool(state[name].isfinite().all()):
                raise InputError(f"{name} is not finite after step {step}; lower the learning rate")


@torch.no_grad()
def _check_header(path: Path, model: SequenceModel, batch_size: int | None, run: str) -> None:
    """Refuse a file that does not fit, before anything of its size is read; the model takes its dtype."""
    tensors, metadata = declared_tensors(path)
    version = _read(path, metadata, "format_version", 1)
    if version not in _READABLE:
        raise InputError(
            f"{path} was written by another version of implicit-ssm (format {version}, this version reads "
            f"{FORMAT_VERSION}); finish the run with that version, or {_REMEDY}"
        )
    if _read(path, metadata, "run", "") not in ("", run):
        raise InputError(f"{path} is the checkpoint of another run; move it away, or train again")
    declared = _parts(path, tensors)
    take_dtype(model, declared[_MODEL])
    check_tensors(path, declared[_MODEL], _named(model))
    check_memory(f"{path}", 2 * sum(tensor.nbytes for tensor in tensors.values()), _REMEDY)
    if (found := declared[_CARRIED]) and batch_size is not None:
        end = torch.empty(batch_size, dtype=torch.long, device="meta")
        expected = PassedState(model.init_state(batch_size), end, end.bool()).tensors()
        check_tensors(path, found, {f"{_CARRIED}{name}": tensor for name, tensor in expected.items()})


def _refuse_nan(tensors: dict[str, torch.Tensor], remedy: str) -> None:
    """Refuse a state of the optimiser with NaN; infinity may stand for a best value so far."""
    for name, tensor in tensors.items():
        whole = tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor
        if bool(whole.isnan().any()):
            raise InputError(f"tensor {name!r} holds NaN; {remedy}")


def _named(model: SequenceModel) -> dict[str, torch.Tensor]:
    return {f"{_MODEL}{name}": tensor for name, tensor in model.state_dict().items()}


def _parts(path: Path, tensors: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """The tensors by what they are of."""
    parts: dict[str, dict[str, torch.Tensor]] = {_MODEL: {}, PREFIX: {}, _CARRIED: {}}
    for name, tensor in tensors.items():
        prefix = next((prefix for prefix in parts if name.startswith(prefix)), None)
        if prefix is None:
            raise InputError(f"{path}: tensor {name!r} is unexpected; {_REMEDY}")
        parts[prefix][name] = tensor
    return parts


def _read(path: Path, metadata: dict[str, str], name: str, default: Any = None) -> Any:
    """One entry of the metadata."""
    if name not in metadata:
        return default
    try:
        return json.loads(metadata[name])
    except (ValueError, RecursionError):
        raise InputError(f"{path} holds a {name} that is not valid JSON; {_REMEDY}") from None
