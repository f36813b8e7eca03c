"""The state of training between two steps, in one safetensors file.

Weights, AdamW's moments, progress, and where the sequences of the last step ended, if any go on from there.
There is no random state in it: the initial weights follow from the seed and every batch from (seed, step).
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.optim import AdamW

from automata.errors import InputError
from implicit.models.interface import SequenceModel
from implicit.runs.files import check_tensors, read_tensors, write_tensors
from implicit.training.state_passing import Carried

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Progress:
    """How far training has come.

    Attributes:
        step: training steps taken.
        seconds: time spent on them, over all resumptions.
        target_met: evaluations in a row that met the target accuracy, up to now.

    Example:
        >>> Progress()
        Progress(step=0, seconds=0.0, target_met=0)
    """

    step: int = 0
    seconds: float = 0.0
    target_met: int = 0


def save_checkpoint(
    path: Path, model: SequenceModel, optimizer: AdamW, progress: Progress, carried: Carried | None = None
) -> None:
    """Write the state of training in one stroke.

    Args:
        path: the file; its folder is made.
        model: the model.
        optimizer: its AdamW, after at least one step.
        progress: how far it has come.
        carried: what the next step may go on from.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from automata.tasks.registry import make_task
        >>> from implicit.models.registry import build_model
        >>> model = build_model("lstm", {}, make_task("parity"))
        >>> optimizer = AdamW(model.parameters())
        >>> model(torch.tensor([[0, 1]])).sum().backward()
        >>> optimizer.step()
        >>> with TemporaryDirectory() as folder:
        ...     save_checkpoint(Path(folder) / "state", model, optimizer, Progress(step=1))
        ...     load_checkpoint(Path(folder) / "state", model, optimizer)
        (Progress(step=1, seconds=0.0, target_met=0), None)
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        tensors.update({f"{moment}.{name}": optimizer.state[parameter][moment] for moment in _MOMENTS})
    if carried is not None:
        tensors.update({f"carried.{name}": tensor for name, tensor in carried.tensors().items()})
    path.parent.mkdir(exist_ok=True)
    write_tensors(path, tensors, {"progress": json.dumps(asdict(progress))})


def load_checkpoint(path: Path, model: SequenceModel, optimizer: AdamW) -> tuple[Progress, Carried | None]:
    """Put model and optimiser back into the state that was saved; return the progress and what was carried.

    Raises:
        InputError: for a corrupt file, or one that does not fit the model.

    Example:
        What `save_checkpoint` shows, and a file that is not there:

        >>> model = torch.nn.Linear(1, 1)
        >>> load_checkpoint(Path("nowhere"), model, AdamW(model.parameters()))
        Traceback (most recent call last):
        automata.errors.InputError: nowhere is missing; restore it or train again
    """
    tensors, metadata = read_tensors(path)
    carried = {
        name.removeprefix("carried."): tensors.pop(name).to(model.device)
        for name in list(tensors)
        if name.startswith("carried.")
    }
    expected = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        expected.update({f"{moment}.{name}": parameter for moment in _MOMENTS})
    check_tensors(path, tensors, expected)
    try:
        progress = Progress(**json.loads(metadata["progress"]))
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{path} does not tell the step; delete the run folder and train again") from None
    # Copies into storage that torch aligned, for the bits of a matrix product may depend on the alignment.
    model.load_state_dict({name: tensors[f"model.{name}"] for name in model.state_dict()})
    for name, parameter in model.named_parameters():
        # AdamW makes this state in its first step.
        state: dict[str, Tensor] = {
            moment: tensors[f"{moment}.{name}"].clone().to(parameter.device) for moment in _MOMENTS
        }
        optimizer.state[parameter] = {"step": torch.tensor(float(progress.step)), **state}
    return progress, Carried.from_tensors(carried) if carried else None
