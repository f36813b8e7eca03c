"""The metrics of a run as TensorBoard event files, where that package is installed."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from automata.errors import InputError


class TensorBoard:
    """Writes the metrics to event files; does nothing without a folder.

    A resumed run discards the events after the step that it goes on from.
    """

    def __init__(self, folder: Path | None, step: int) -> None:
        self._writer: Any = None
        if folder is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                raise InputError(
                    "tensorboard is not installed; "
                    "install implicit-ssm[tensorboard] or leave out --tensorboard"
                ) from None
            self._writer = SummaryWriter(str(folder), purge_step=step + 1)

    def __enter__(self) -> "TensorBoard":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, metrics: Mapping[str, Any]) -> None:
        """Write every number, those of nested entries under ``outer/inner``."""
        if self._writer is None:
            return
        step = metrics["step"]
        for name, value in _numbers(metrics):
            self._writer.add_scalar(name, value, step)


def _numbers(metrics: Mapping[str, Any], prefix: str = "") -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            found.extend(_numbers(value, f"{prefix}{name}/"))
        elif isinstance(value, int | float) and name != "step":
            found.append((f"{prefix}{name}", value))
    return found
