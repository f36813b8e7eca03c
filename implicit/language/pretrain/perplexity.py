"""Perplexity on a validation text, over the windows of all processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from implicit.cells.contract import evaluation_mode
from implicit.fixed_point import Stopping
from implicit.language.configuration import FixedPoints
from implicit.language.evaluation import TextEvaluation
from implicit.language.pretrain.config import Evaluation
from implicit.language.pretrain.tokens import Windows
from implicit.modes import Solve


class Validation:
    """The validation text in windows, as `evaluate_text` cuts them, and how a model is measured on it."""

    def __init__(
        self, accelerator: Accelerator, tokens: NDArray[Any], length: int, settings: Evaluation
    ) -> None:
        """Deal windows of so many tokens of a text to the processes; refuse a text that is shorter."""
        self.accelerator, self.settings = accelerator, settings
        self.windows = Windows(tokens[: settings.tokens], length, "validation (evaluation.tokens of it)")
        batch_size = settings.sequences * accelerator.num_processes
        self.loader = accelerator.prepare_data_loader(DataLoader(self.windows, batch_size=batch_size))

    @torch.no_grad()
    def measure(self, model: nn.Module, *, implicit: bool) -> TextEvaluation:
        """Measure a model, prepared by the accelerator; all processes return the same."""
        settings = self.settings
        stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
        solve = Solve(settings.mode, stopping=stopping) if implicit else None
        with evaluation_mode(model), _telling_nothing(self.accelerator.unwrap_model(model).config):
            sums = [
                self._of_batch(model(batch, use_cache=False, solve=solve), batch) for batch in self.loader
            ]
        nats, iterations, converged, windows = np.sum(sums, axis=0).tolist()
        predicted, read = int(windows) * (self.windows.length - 1), int(windows) * self.windows.length
        found = (iterations / read, converged / read) if implicit else (None, None)
        return TextEvaluation(nats / predicted, predicted, *found)

    def _of_batch(self, output: Any, batch: torch.Tensor) -> list[float]:
        """Nats, iterations and converged tokens of the windows of all processes, and how many windows."""
        logits = output.logits[:, :-1].float().transpose(1, 2)
        rows = functional.cross_entropy(logits, batch[:, 1:], reduction="none").double().sum(1)
        found = [rows, torch.zeros_like(rows), torch.zeros_like(rows), torch.ones_like(rows)]
        if output.status is not None:
            found[1], found[2] = output.iterations.sum(1).double(), (output.status == 0).sum(1).double()
        # windows that fill up the last batch of a process are left out again
        gathered = self.accelerator.gather_for_metrics(torch.stack(found, dim=1))
        return gathered.sum(0).tolist()


@contextmanager
def _telling_nothing(config: Any) -> Iterator[None]:
    """Neither warn nor raise of a token without a fixed point: the share of them is among the results."""
    if not isinstance(config, FixedPoints):
        yield
        return
    before, config.unconverged = config.unconverged, "ignore"
    try:
        yield
    finally:
        config.unconverged = before
