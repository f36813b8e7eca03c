"""The training loop: one step, one evaluation, and what is stored when."""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from tqdm import tqdm

from automata.checks import check_number, check_type
from automata.errors import InputError
from automata.tasks.interface import Task
from implicit.config.curriculum import Growth, Phase
from implicit.config.run import TrainConfig
from implicit.fixed_point import Stopping
from implicit.gradients import Phantom
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS
from implicit.modes import Solve
from implicit.runs.folder import Metrics, RunFolder
from implicit.seeded import seeded_code
from implicit.training.checkpoint import Progress, StoredWeights, load_checkpoint, save_checkpoint
from implicit.training.evaluation import REPORTED_TOKENS, Convergence, Evaluation, evaluate
from implicit.training.objective import Loss, Objective, objective
from implicit.training.optimizers import describe_optimizer, make_optimizer, take_into_mean
from implicit.training.progress import ProgressLines, TensorBoard, TrainingStep
from implicit.training.state_passing import PassedState
from implicit.training.streams import Stream, TokenBatch, draw_batch, noise_generator, step_seed
from implicit.training.termination import EXIT_CODE

Callback = Callable[[TrainingStep], object]
"""Takes a training step that was taken; training ends after it if this returns True."""


@dataclass(frozen=True)
class OwnParts:
    """The parts of training that a caller of `implicit.train` gives in place of the configuration's."""

    optimizer: Callable[[SequenceModel], Optimizer] | None = None
    schedule: Callable[[int], float] | None = None
    loss: Loss | None = None

    @property
    def given(self) -> str:
        """The names of those that are given, as ``environment.json`` holds them."""
        return " ".join(name for name, part in vars(self).items() if part is not None)

    def make_optimizer(self, config: TrainConfig, model: SequenceModel) -> Optimizer:
        """Return the optimiser; refuse a function that makes something else."""
        made = make_optimizer(config, model) if self.optimizer is None else self.optimizer(model)
        check_type("what optimizer returns", made, Optimizer, "return a torch.optim.Optimizer")
        known = {id(parameter) for parameter in model.parameters()}
        if any(id(each) not in known for group in made.param_groups for each in group["params"]):
            raise InputError(
                "optimizer holds a parameter that is not the model's; give it those of the model"
            )
        if isinstance(made, torch.optim.LBFGS):
            raise InputError("optimizer is LBFGS, which evaluates a loss many times a step; give another one")
        return made

    def learning_rate_at(self, config: TrainConfig, step: int, growth: Growth) -> float:
        """Return the learning rate of a step."""
        if self.schedule is None:
            return config.learning_rate_at(step, growth)
        return check_number("what schedule returns", self.schedule(step), finite=True)


_DRAWS = 64
"""Times that the batch of a step is drawn, at most, until something is asked in one."""


def take_steps(
    config: TrainConfig,
    task: Task,
    model: SequenceModel,
    folder: RunFolder,
    show_progress: bool = False,
    tensorboard: bool = False,
    baselines: dict[int, float] | None = None,
    callback: Callback | None = None,
    asked_to_stop: Callable[[], bool] | None = None,
    own: OwnParts | None = None,
) -> None:
    """Take the training steps that are left, from the folder's checkpoint if it has one.

    Metrics are stored before the checkpoint, and those after it are measured again: no kill loses or repeats
    a line. The model is on its device, with its initial weights, and holds the trained ones afterwards.
    ``callback`` and `asked_to_stop` are called after each step; the baselines are computed if None.
    """
    own = own or OwnParts()
    optimizer = own.make_optimizer(config, model)
    stored = StoredWeights(model)
    done, passed, run = Progress(), None, folder.identity
    if folder.checkpoint_file.is_file():
        sequences = config.sequences(config.length)
        done, passed = load_checkpoint(
            folder.checkpoint_file, model, optimizer, sequences, run, config, configured=own.optimizer is None
        )
    baselines = majority_baselines(config, task) if baselines is None else baselines
    # What was measured after the checkpoint is measured again.
    metrics = [entry for entry in folder.read_metrics() if entry["step"] <= done.step]
    folder.write_metrics(metrics)
    began, first = time.monotonic() - done.seconds, done.step
    lines = ProgressLines(config, task.name, model.parameter_count(), show=show_progress)
    hidden = None if show_progress else True  # tqdm reads None as "where there is no terminal"
    with (
        TensorBoard(folder.path / "tensorboard" if tensorboard else None, done.step) as board,
        tqdm(total=config.steps, initial=done.step, disable=hidden, leave=False, unit="step") as bar,
    ):
        for step in range(done.step + 1, config.steps + 1):
            phase = config.curriculum.phase(step, config.length, done.growth)
            rate = own.learning_rate_at(config, step, done.growth)
            draws = config.model not in MODELS or own.given  # models and parts of ours draw nothing in a step
            with seeded_code(step_seed(config.seed, step)) if draws else nullcontext():
                result, passed = _step(config, task, model, optimizer, phase, rate, step, passed, own.loss)
            if step == 1 and own.optimizer is not None:
                describe_optimizer(model, optimizer)  # refused before there is work to lose
            bar.update()
            growth = config.curriculum.grown(
                done.growth, step, result.late_accuracy, config.length, config.steps
            )
            tokens = done.tokens + config.sequences(phase.length) * phase.length
            seconds = time.monotonic() - began
            done = replace(done, step=step, tokens=tokens, seconds=seconds, growth=growth)
            last = config.last_step(growth)
            if averaged := config.averaged_steps(step, growth):
                take_into_mean(optimizer, averaged, is_last=step == last)
            if lines.due:
                lines.tell(step, step - first, last, phase.length, result.loss.item(), result.accuracy)
            ends, measured = False, step % config.evaluation.every == 0 or step == last
            if callback is not None and not measured:
                ends = _is_true(callback(_taken(step, phase, rate, result, model)))
            if ends or measured:
                evaluations = _validate(config, task, model, phase, step)
                metrics.append(_entry(config, model, phase, rate, result, evaluations, baselines, done))
                if callback is not None and not ends:
                    taken = _taken(step, phase, rate, result, model, dict(metrics[-1]))
                    ends = _is_true(callback(taken))
                if ends and step != last:
                    metrics[-1]["ended_by"] = "callback"
                folder.write_metrics(metrics)
                board.write(metrics[-1])
                bar.set_postfix(loss=metrics[-1]["loss"], accuracy=metrics[-1]["accuracy"])
                done = replace(done, target_met=_target_met(config, model, phase, evaluations, done))
            if ends or done.target_met == config.evaluation.patience or step == last:
                stored.check(step)
                break
            stopped = asked_to_stop is not None and asked_to_stop()
            if stopped or step % config.checkpoint_every == 0:
                stored.check(step)
                save_checkpoint(folder.checkpoint_file, model, optimizer, done, passed, run)
            if stopped:
                raise SystemExit(EXIT_CODE)


def _is_true(returned: object) -> bool:
    """Return whether a callback ends the run: True, NumPy's or torch's; what a logger returns does not."""
    if isinstance(returned, torch.Tensor):
        return returned.dtype == torch.bool and bool(returned.all())
    return isinstance(returned, bool | np.bool_) and bool(returned)


def _taken(
    step: int,
    phase: Phase,
    rate: float,
    result: Objective,
    model: SequenceModel,
    metrics: Metrics | None = None,
) -> TrainingStep:
    penalties = {name: penalty.item() for name, penalty in result.penalties.items()}
    loss = result.loss.item()
    return TrainingStep(step, phase.length, loss, penalties, result.accuracy, rate, model, metrics)


def majority_baselines(config: TrainConfig, task: Task) -> dict[int, float]:
    """Return, for every validation length, the accuracy of always giving the most frequent answer.

    It is that of the last ten answers, as the accuracy of an evaluation is; where a task does not ask after
    every token, of all answers.
    """
    validation, baselines = task.part("validation"), {}
    for length in config.validation_lengths():
        asked = validation.batch(8, length, np.random.default_rng(0)).counted
        last = REPORTED_TOKENS if asked.all() else None
        baselines[length] = validation.majority_baseline(length, last=last)
    return baselines


def _step(
    config: TrainConfig,
    task: Task,
    model: SequenceModel,
    optimizer: Optimizer,
    phase: Phase,
    rate: float,
    step: int,
    passed: PassedState | None,
    own_loss: Loss | None,
) -> tuple[Objective, PassedState | None]:
    """Take one training step; its batch depends on the seed, the step, and what is passed from the last."""
    noise = noise_generator(config.seed, step)
    state, start = None, None
    if passed is not None:
        beginning = torch.full_like(passed.end, task.start())
        state, start = passed.go_on(model.init_state(len(passed.end)), beginning, phase.carried_share, noise)
        start = start.cpu()
    batch = _draw_asked(config, task, phase.length, step, start).to(model.device)
    result = objective(model, batch, phase, noise, state, own_loss)
    model.zero_grad()  # also what the optimiser leaves out, which clipping counts
    result.total.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.optimizer.gradient_clip or math.inf)
    if not bool(norm.isfinite()):
        raise InputError(
            f"loss is {result.loss.item():.3g} at step {step} and its gradient is not finite; "
            "lower learning_rate or gradient_clip, or raise warmup_steps"
        )
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    if phase.carried_share == 0 or batch.end is None:
        return result, None
    right = result.right if phase.carried_right else None
    solution = None if phase.carried_always else result.solution
    return result, PassedState.of(result.state, batch.end, solution, right)


def _draw_asked(
    config: TrainConfig, task: Task, length: int, step: int, start: torch.Tensor | None
) -> TokenBatch:
    """Draw the batch of a step, anew where by chance nothing is asked in it: the loss needs an answer.

    Where the length is so short that nothing ever is asked, the loss says so.
    """
    for attempt in range(_DRAWS):
        number = (step, attempt) if attempt else (step,)
        sequences = config.sequences(length)
        drawn = draw_batch(task, sequences, length, config.seed, Stream.TRAIN, *number, start=start)
        if bool(drawn.counted.any()):
            break
    return drawn


def _validate(
    config: TrainConfig, task: Task, model: SequenceModel, phase: Phase, step: int
) -> dict[int, Evaluation]:
    """Evaluate on fresh sequences of the validation stream, one set for each step and length."""
    rtol, limit = config.evaluation.rtol, config.evaluation.max_iterations
    as_trained = rtol is None and limit is None
    stopping = Stopping(
        rtol=phase.stopping.rtol if rtol is None else rtol,
        max_iterations=phase.stopping.max_iterations if limit is None else limit,
    )
    return {
        length: evaluate(
            model,
            task,
            length,
            sequences=config.evaluation.sequences,
            batch_size=config.batch_size,
            seed=config.seed,
            stream=Stream.VALIDATION,
            number=(step,),
            solve=Solve(
                phase.mode if as_trained else "auto",  # as the model answers without options
                stopping=stopping,
                gradient=phase.gradient if as_trained else Phantom(),
            ),
            warn=False,  # the metrics tell the share that converged
        )
        for length in config.validation_lengths()
    }


def _target_met(
    config: TrainConfig,
    model: SequenceModel,
    phase: Phase,
    evaluations: dict[int, Evaluation],
    done: Progress,
) -> int:
    """Count evaluations in a row that met the target; none does in the bounded phase or at a start length."""
    early = phase.length < config.length or (model.implicit is not None and phase.name == "bounded")
    if config.evaluation.target_accuracy is None or early:
        return 0
    worst = min(evaluation.accuracy for evaluation in evaluations.values())
    return done.target_met + 1 if worst >= config.evaluation.target_accuracy else 0


def _entry(
    config: TrainConfig,
    model: SequenceModel,
    phase: Phase,
    rate: float,
    result: Objective,
    evaluations: dict[int, Evaluation],
    baselines: dict[int, float],
    done: Progress,
) -> Metrics:
    """One line of the metrics; phase and convergence are those of an implicit model only."""
    entry: Metrics = {
        "step": done.step,
        "tokens": done.tokens,
        "length": phase.length,
        "training_length": config.length,
        "learning_rate": rate,
        "loss": result.loss.item(),
        "accuracy": result.accuracy,
        "validation": {},
        "seconds": round(done.seconds, 3),
    }
    if model.implicit is not None:
        entry["phase"] = phase.name
    entry |= {f"{name}_penalty": penalty.item() for name, penalty in sorted(result.penalties.items())}
    if result.solution is not None:
        entry.update(_finite(Convergence.of([result.solution])))
    for length, evaluation in evaluations.items():
        measured = {
            "accuracy": evaluation.accuracy,
            "majority_baseline": baselines[length],
            "token_accuracy": evaluation.token_accuracy,
            "sequence_accuracy": evaluation.sequence_accuracy,
        }
        if evaluation.convergence is not None:
            measured.update(_finite(evaluation.convergence))
        entry["validation"][str(length)] = measured
    return entry


def _finite(convergence: Convergence) -> Metrics:
    """The figures of convergence as JSON has them: null for what is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in asdict(convergence).items()}
