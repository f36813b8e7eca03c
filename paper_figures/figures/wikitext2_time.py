"""How long an update takes of a language model that was trained, phase by phase."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import ConfigDict, Field, PositiveInt

from implicit.checked_config import CheckedConfig

if TYPE_CHECKING:
    from implicit.language.pretrain import FinishedRun


class TimeSettings(CheckedConfig):
    """How the time of an update is measured.

    Example:
        >>> TimeSettings(file="test.txt").updates
        15
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    file: str = Field(description="the text that is read")
    updates: PositiveInt = Field(default=15, description="of every phase, of which the median is taken")
    warmup: PositiveInt = Field(default=3, description="updates before them, which are not timed")


def measure_update_seconds(run: "FinishedRun", settings: TimeSettings) -> dict[str, Any]:
    """Measure the time of an update with the weights at the end of training, and of the whole training by it.

    Updates are those of training (loss, gradient, its norm, optimizer) on as many windows, at a rate of
    zero, so that weights and self-iterations stay what they are. The phases take turns.

    Returns:
        ``update_seconds``, the median of every phase that the model has; ``updates``, how many the training
        has of each; ``training_seconds``, their products added up.

    Raises:
        InputError: the text cannot be read.
        ValueError: the text has fewer tokens than an update.
    """
    from implicit.language.configuration import FixedPoints
    from implicit.language.pretrain.config import enter
    from implicit.language.pretrain.loop import make_optimizer

    config, model = run.config, run.model
    text = run.tokens(settings.file)
    per_update = config.sequences * config.length
    if len(text) < per_update:
        raise ValueError(f"the text has {len(text)} tokens, and an update reads {per_update}")
    batches = text[: len(text) // per_update * per_update].view(-1, config.sequences, config.length)
    of_step = [config.phase_at(step) for step in range(1, config.steps + 1)]
    if isinstance(model.config, FixedPoints):
        phases = {phase.label: phase for phase in config.phases}
        updates = {label: sum(phase.label == label for phase in of_step) for label in phases}
    else:
        phases, updates = {"explicit": of_step[0]}, {"explicit": config.steps}
    optimizer = make_optimizer(model, config)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    seconds: dict[str, list[float]] = {label: [] for label in phases}
    model.train()
    try:
        for number in range(settings.warmup + settings.updates):
            tokens = batches[number % len(batches)]
            for label, phase in phases.items():
                enter(model.config, phase)
                began = time.perf_counter()
                for part in tokens.chunk(config.accumulation):
                    loss = model(part, labels=part, use_cache=False).loss
                    (loss / config.accumulation).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.gradient_clip or np.inf)
                optimizer.step()
                optimizer.zero_grad()
                if number >= settings.warmup:
                    seconds[label].append(time.perf_counter() - began)
    finally:
        model.eval()
        enter(model.config, of_step[-1])
    median = {label: float(np.median(values)) for label, values in seconds.items()}
    return {
        "update_seconds": median,
        "updates": updates,
        "training_seconds": sum(median[label] * updates[label] for label in phases),
    }
