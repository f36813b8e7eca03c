"""Self-iterations at test: accuracy by their number, and which tokens take how many."""

from typing import Any

import torch
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.visited_states import sample_sequences
from analysis.length_generalization import analyse
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel, ModelOutput
from implicit.modes import Mode, SequenceSolution, Solve
from implicit.runs.loading import Run
from paper_figures.measurements.token_kinds import beyond, compared, counted, explained_by, kinds_of

MODES: tuple[Mode, ...] = ("sequential", "simultaneous")


class BudgetSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> BudgetSettings().budgets[:4]
        (1, 2, 4, 8)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    budgets: tuple[PositiveInt, ...] = Field(
        default=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512), description="the most self-iterations per token"
    )
    length: PositiveInt = Field(default=128, description="tokens per sequence")
    sequences: PositiveInt = Field(default=64, description="sequences")
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance at which a token stops early")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


def budgets(run: Run, settings: BudgetSettings) -> dict[str, Any]:
    """Measure accuracy and share of converged tokens of a run with every budget, in both modes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = budgets(load_run("parity"), BudgetSettings(budgets=(1, 32), length=4, sequences=2))
        >>> found["sequential"]["accuracy"]["32"], sorted(found)
        (1.0, ['chance', 'sequential', 'simultaneous'])
    """
    found: dict[str, Any] = {}
    for mode in MODES:
        accuracy, converged = {}, {}
        for budget in settings.budgets:
            (numbers,) = (
                analyse(
                    run,
                    lengths=(settings.length,),
                    sequences=settings.sequences,
                    mode=mode,
                    rtol=settings.rtol,
                    max_iterations=budget,
                    seed=settings.seed,
                )
                .numbers()
                .values()
            )
            accuracy[str(budget)] = numbers["accuracy"][settings.length]
            converged[str(budget)] = numbers["share_converged"][settings.length]
            found["chance"] = numbers["chance"]
        found[mode] = {"accuracy": accuracy, "share_converged": converged}
    return found


class TokenSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> TokenSettings().tolerances
        (0.01, 0.0001)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    tolerances: tuple[PositiveFloat, ...] = Field(
        default=(1e-2, 1e-4), description="relative tolerances, from loose to tight"
    )
    lengths: tuple[PositiveInt, ...] = Field(
        default=(32, 64, 128, 256, 512), description="tokens per sequence, rising; shorter ones are prefixes"
    )
    sequences: PositiveInt = Field(default=128, description="sequences in sequential mode")
    swept_sequences: PositiveInt = Field(default=8, description="the first of these, in simultaneous mode")
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations of a token")
    max_sweeps: PositiveInt = Field(default=4096, description="the most sweeps over the sequences")
    thresholds: tuple[PositiveInt, ...] = Field(
        default=(4, 8, 16, 32), description="numbers of self-iterations that tokens may exceed"
    )
    window: PositiveInt = Field(default=4, description="last tokens, which the convolution of a model sees")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


@torch.no_grad()
def token_iterations(run: Run, settings: TokenSettings) -> dict[str, Any]:
    """Count self-iterations in both modes, at every tolerance, and those of training from its metrics.

    Raises:
        InputError: for a run that is no word problem, or that is not asked for the state itself.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = TokenSettings(tolerances=(0.01,), lengths=(4, 8), sequences=4, swept_sequences=2)
        >>> found = token_iterations(load_run("parity"), small)
        >>> found["tolerances"]["0.01"]["simultaneous"]["share_converged"]
        {'4': 1.0, '8': 1.0}
        >>> sorted(found["tolerances"]["0.01"])
        ['auto', 'sequential', 'simultaneous', 'tokens']
    """
    model, task, tokens, labels = _drawn(run, settings)
    return {
        "tolerances": {
            f"{rtol:g}": _at_tolerance(model, task, tokens, labels, rtol, settings)
            for rtol in settings.tolerances
        },
        "training": training_course(run),
    }


@torch.no_grad()
def hardest_tokens(run: Run, settings: TokenSettings) -> dict[str, Any]:
    """Tell who the tokens are that need most self-iterations in sequential mode, at every tolerance.

    Returns:
        ``hardest``, by tolerance: ``beyond``, see `beyond`; ``explained``: as of `compared`, without the
        first token of a sequence, which meets the empty state.

    Raises:
        InputError: as `token_iterations` does.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = TokenSettings(tolerances=(0.01,), lengths=(4, 8), sequences=4, thresholds=(4, 8))
        >>> found = hardest_tokens(load_run("parity"), small)["hardest"]["0.01"]
        >>> sorted(found), list(found["beyond"])
        (['beyond', 'explained'], ['4', '8', 'twice the median'])
    """
    model, task, tokens, labels = _drawn(run, settings)
    found = {}
    for rtol in settings.tolerances:
        stopping = Stopping(rtol=rtol, max_iterations=settings.max_iterations)
        output, solution = _solve(model, tokens, "sequential", stopping)
        iterations, answers = solution.iterations.cpu().numpy(), output.logits.argmax(dim=-1).cpu().numpy()
        kinds = kinds_of(tokens.numpy(), labels.numpy(), answers, task, settings.window)
        found[f"{rtol:g}"] = {
            "beyond": beyond(iterations, kinds, answers == labels.numpy(), settings.thresholds),
            "explained": explained_by(iterations[:, 1:], {name: kind[:, 1:] for name, kind in kinds.items()}),
        }
    return {"hardest": found}


def _drawn(run: Run, settings: TokenSettings) -> tuple[FixedPointModel, WordProblem, Tensor, Tensor]:
    """The model and the task of a run, tokens, and the state after each."""
    model, task = as_implicit(run), word_problem_of(run)
    if task.output_size != task.state_count:
        raise InputError(f"task {task.name} does not ask for its state; give a run of one that does")
    tokens, labels = sample_sequences(task, settings.sequences, settings.lengths[-1], settings.seed)
    return model, task, tokens, labels


def _at_tolerance(
    model: FixedPointModel,
    task: WordProblem,
    tokens: Tensor,
    labels: Tensor,
    rtol: float,
    settings: TokenSettings,
) -> dict[str, Any]:
    few = tokens[: settings.swept_sequences]
    stopping = Stopping(rtol=rtol, max_iterations=settings.max_iterations)
    sweeping = Stopping(rtol=rtol, max_iterations=settings.max_sweeps)
    output, sequential = _solve(model, tokens, "sequential", stopping)
    _, simultaneous = _solve(model, few, "simultaneous", sweeping)
    answers = output.logits.argmax(dim=-1).cpu()
    iterations = sequential.iterations.cpu().numpy()
    kinds = kinds_of(tokens.numpy(), labels.numpy(), answers.numpy(), task, settings.window)
    return {
        "sequential": {
            "iterations": {str(length): float(iterations[:, :length].mean()) for length in settings.lengths},
            "share_converged": _converged(sequential, settings),
        },
        "simultaneous": {
            "sweeps": {
                # A token is done when all before it are, so the last one of a prefix is its last to be.
                str(length): simultaneous.iterations[:, length - 1].tolist()
                for length in settings.lengths
            },
            "share_converged": _converged(simultaneous, settings),
        },
        "auto": {
            str(len(batch)): _solve(model, batch[:, : settings.lengths[0]], "auto", stopping)[1].mode
            for batch in (few, tokens)
        },
        "tokens": {
            "accuracy": float((answers == labels).double().mean()),
            **counted(iterations, settings.thresholds),
            **compared(iterations, kinds, labels.numpy(), answers.numpy(), task.start()),
        },
    }


def _solve(
    model: FixedPointModel, tokens: Tensor, mode: Mode, stopping: Stopping
) -> tuple[ModelOutput, SequenceSolution]:
    output = model.run(tokens.to(model.device), solve=Solve(mode, stopping=stopping))
    assert output.solution is not None
    return output, output.solution


def _converged(solution: SequenceSolution, settings: TokenSettings) -> dict[str, float]:
    """The share of converged tokens by length."""
    return {str(length): float(solution.converged[:, :length].double().mean()) for length in settings.lengths}


def training_course(run: Run) -> list[dict[str, float]]:
    """Return the mean self-iterations per token of training and validation, as the free phase recorded them.

    Those of the bounded phase are of a number that is set, whatever the tolerance.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> list(training_course(load_run("s3"))[-1])
        ['step', 'length', 'iterations', 'share_converged', 'validation_iterations']
    """
    return [
        {
            "step": entry["step"],
            "length": entry["length"],
            "iterations": entry["mean_iterations"],
            "share_converged": entry["share_converged"],
            "validation_iterations": entry["validation"][str(run.config.length)]["mean_iterations"],
        }
        for entry in run.metrics
        if entry.get("phase") == "free" and "mean_iterations" in entry
    ]
