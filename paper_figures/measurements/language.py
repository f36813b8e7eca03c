"""Language models: perplexity on the test text, cost, self-iterations per token, and time of an update."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field, PositiveFloat, PositiveInt
from torch.nn import functional

from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Solve

if TYPE_CHECKING:
    from implicit.language.pretrain import FinishedRun


class PerplexitySettings(CheckedConfig):
    """How the perplexity on a text is measured."""

    file: str  # the text
    tokens: PositiveInt = 100_000  # of it, from its beginning
    context: PositiveInt = 128  # tokens of a window; windows know nothing of another
    rtol: PositiveFloat = 0.01  # relative tolerance of the fixed points
    max_iterations: PositiveInt = 64  # the most evaluations of the layers


def measure_perplexity(run: "FinishedRun", settings: PerplexitySettings) -> dict[str, Any]:
    """Measure the perplexity on the test text, and tell what the training cost.

    The operations are those of the formulas of `implicit.language.cost`; of a phase that ends at a tolerance
    they are an upper bound, as if every batch took all of its self-iterations.
    """
    from implicit.language import evaluate_text
    from implicit.language.configuration import FixedPoints
    from implicit.language.cost import TrainingCost
    from implicit.language.pretrain.tokens import digest

    text = run.tokens(settings.file)[: settings.tokens]
    solve = Solve(
        "simultaneous", stopping=Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    )
    implicit = isinstance(run.model.config, FixedPoints)
    found = evaluate_text(run.model, text, settings.context, solve=solve if implicit else None)
    cost = TrainingCost(run.model.config, length=run.config.length)
    per_token = cost.mean_per_token(run.config.phases) if implicit else cost.per_token()
    return {
        "nats": found.nats,
        "perplexity": found.perplexity,
        "tokens": found.tokens,
        "sha256": digest(text.numpy()),
        "iterations": found.iterations,
        "share_converged": found.share_converged,
        "validation_perplexity": run.result["perplexity"],
        "training_tokens": run.result["tokens"],
        "operations": per_token * run.result["tokens"],
    }


class IterationSettings(CheckedConfig):
    """How self-iterations are varied and counted."""

    file: str  # the text
    windows: PositiveInt = 128  # windows from its beginning
    context: PositiveInt = 128  # tokens of a window
    # self-iterations, all of which are taken
    allowed: tuple[PositiveInt, ...] = Field(default=(1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64), min_length=1)
    rtol: PositiveFloat = 0.01  # relative tolerance, where tokens are counted
    max_iterations: PositiveInt = 256  # the most evaluations there


def kind_of_token(text: str) -> str:
    r"""Return what a token is to a reader."""
    if any(letter.isdigit() for letter in text):
        return "number"
    if text.strip()[:1].isalpha():
        return "begins a word" if text[0] == " " else "goes on in a word"
    return "punctuation"


@torch.no_grad()
def measure_iterations(run: "FinishedRun", settings: IterationSettings) -> dict[str, Any]:
    """Measure the perplexity by the self-iterations that are allowed, and which tokens take how many.

    The first with all tokens together, none of which stops before the others; the second token by token, in
    the sequential mode, where a token's iterations are its own.
    """
    text = run.tokens(settings.file)[: settings.windows * settings.context].view(-1, settings.context)

    def nats(solve: Solve) -> tuple[torch.Tensor, Any]:
        found = [run.model(part, use_cache=False, solve=solve) for part in text.split(32)]
        logits = torch.cat([one.logits for one in found])[:, :-1].float().transpose(1, 2)
        return functional.cross_entropy(logits, text[:, 1:], reduction="none"), found

    perplexity = {}
    for allowed in settings.allowed:
        # the limit counts evaluations, of which the last measures the residual and moves nothing
        stopping = Stopping(rtol=0.0, max_iterations=allowed + 1)
        perplexity[allowed] = float(nats(Solve("simultaneous", stopping=stopping))[0].double().mean().exp())
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    surprise, found = nats(Solve("sequential", stopping=stopping))
    iterations = torch.cat([one.iterations for one in found]).double().numpy()
    converged = torch.cat([one.status == 0 for one in found]).double().mean()
    texts = [run.tokenizer.decode([token]) for token in range(int(text.max()) + 1)]
    kinds = np.array([kind_of_token(texts[token]) for token in text.flatten().tolist()]).reshape(text.shape)
    of_kind = {
        str(kind): {"mean": float(iterations[kinds == kind].mean()), "tokens": int((kinds == kind).sum())}
        for kind in np.unique(kinds)
    }
    told = surprise.double().numpy()
    fifths = np.quantile(told, np.linspace(0, 1, 6))
    place = np.clip(np.searchsorted(fifths, told, side="right") - 1, 0, 4)
    return {
        "perplexity": perplexity,
        "sequential_perplexity": float(np.exp(told.mean())),
        "share_converged": float(converged),
        "mean": float(iterations.mean()),
        "quantiles": {str(q): float(np.quantile(iterations, q)) for q in (0.05, 0.5, 0.95, 1.0)},
        "kinds": of_kind,
        "fifths_of_surprise": [float(iterations[:, :-1][place == fifth].mean()) for fifth in range(5)],
        "positions": [float(value) for value in iterations.mean(axis=0)],
    }


class TimeSettings(CheckedConfig):
    """How the time of an update is measured."""

    file: str  # the text that is read
    updates: PositiveInt = 15  # of every phase, of which the median is taken
    warmup: PositiveInt = 3  # updates before them, which are not timed


def measure_update_seconds(run: "FinishedRun", settings: TimeSettings) -> dict[str, Any]:
    """Measure the time of an update with the weights at the end of training, and of the whole training by it.

    Updates are those of training (loss, gradient, its norm, optimizer) on as many windows, at a rate of
    zero, so that weights and self-iterations stay what they are. The phases take turns.

    Returns:
        ``update_seconds``, the median of every phase that the model has; ``updates``, how many the training
        has of each; ``training_seconds``, their products added up.
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
