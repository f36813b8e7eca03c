"""Pretraining: steps over windows of text, on one process or many."""

import math
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from automata.checks import check_memory
from automata.errors import InputError
from implicit.language.configuration import FixedPoints, LanguageModelConfig
from implicit.language.modeling import LanguageModel
from implicit.language.pretrain.config import PretrainConfig, enter
from implicit.language.pretrain.folder import TIMES, PretrainFolder, reading, writing
from implicit.language.pretrain.perplexity import Validation
from implicit.language.pretrain.tokens import (
    ShuffledWindows,
    Windows,
    digest,
    encoded,
    tokenizer_of,
    vocabulary_size,
)
from implicit.language.sizes import parameter_count
from implicit.language.stored_models import only_errors_of
from implicit.runs.files import check_hashes, check_within, read_json, write_json
from implicit.seeded import Seeded
from implicit.training.progress import TensorBoard
from implicit.training.termination import EXIT_CODE, noted_termination

Watch = Callable[[dict[str, Any]], None]


def make_accelerator(config: PretrainConfig, **options: Any) -> Accelerator:
    """Return the accelerator of a run, with options of `accelerate.Accelerator` such as ``cpu``.

    How many processes there are follows from how they were launched. InputError if the windows of a part of a
    step cannot be dealt evenly to the processes.
    """
    accelerator = Accelerator(
        mixed_precision=config.precision,
        gradient_accumulation_steps=config.accumulation,
        dataloader_config=DataLoaderConfiguration(split_batches=True),
        step_scheduler_with_optimizer=False,
        **options,
    )
    if accelerator.gradient_accumulation_steps != config.accumulation:
        raise InputError(
            f"accumulation is {config.accumulation}, and accelerate was launched with "
            f"{accelerator.gradient_accumulation_steps}; leave it out of the launch"
        )
    kind = accelerator.distributed_type.value
    if kind in ("DEEPSPEED", "MEGATRON_LM", "XLA"):
        raise InputError(f"accelerate was launched for {kind}; give one device, DDP or FSDP2")
    part = config.sequences // config.accumulation
    if part % accelerator.num_processes:
        raise InputError(
            f"sequences is {config.sequences}, in {config.accumulation} parts of {part} windows each, which "
            f"{accelerator.num_processes} processes cannot share evenly; give a multiple"
        )
    return accelerator


def pretrain(
    config: PretrainConfig,
    out: Path,
    accelerator: Accelerator | None = None,
    *,
    progress: bool = False,
    tensorboard: bool = False,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Train a language model, or go on with what was begun; return what was measured in the end.

    Every process calls it. Killed and started again on the same machine, a run of one process ends with the
    same bits, and one of several with the same weights within rounding. The accelerator is that of
    `make_accelerator` if None; ``watch`` is called with each line of metrics.

    Returns:
        The content of ``result.json``: perplexity, nats per token and bits per byte on the validation text,
        parameters, tokens, seconds.

    Raises:
        InputError: a text cannot be read or is too short, the folder holds another run, something damaged or
            a process that trains, it cannot be written, or the model is larger than memory.
        OSError: the folder cannot be written.
        FloatingPointError: the loss, the gradient, a weight that would be stored or the validation loss is
            not finite; the last checkpoint stays.
        SystemExit: after SIGTERM, with exit code 143; the step is stored.
    """
    accelerator = make_accelerator(config) if accelerator is None else accelerator
    folder = PretrainFolder(Path(out))
    alone = folder.held() if accelerator.is_main_process and not folder.finished else nullcontext()
    with alone, noted_termination() as asked_to_stop:
        return _pretrain(config, folder, accelerator, progress, tensorboard, watch, asked_to_stop)


def _pretrain(
    config: PretrainConfig,
    folder: PretrainFolder,
    accelerator: Accelerator,
    progress: bool,
    tensorboard: bool,
    watch: Watch | None,
    asked_to_stop: Callable[[], bool],
) -> dict[str, Any]:
    with accelerator.main_process_first():
        tokenizer = _tokenizer(config, folder)
    model_config = config.model.build(vocabulary_size(tokenizer))
    _check_memory(config, model_config)
    train, _ = encoded(config.train, tokenizer)
    held_out, ends = encoded(config.validation, tokenizer)
    windows = Windows(train, config.length, "the training text")
    validation = Validation(accelerator, held_out, config.length, config.evaluation)
    texts = {"train": digest(train), "validation": digest(held_out)}
    with accelerator.main_process_first():
        if accelerator.is_main_process:
            folder.begin(config, texts, tokenizer)
    tokenizer = _tokenizer(config, folder)  # as a run that goes on reads it
    if folder.finished:
        if accelerator.is_main_process:
            folder.remove_checkpoints()  # a kill may have left one
        return folder.read_result()

    with Seeded(config.seed):  # the weights of all processes are drawn on the CPU
        model: Any = AutoModelForCausalLM.from_config(model_config).train()
    for name in ("eos_token_id", "pad_token_id"):
        for stored in (model.config, model.generation_config):
            setattr(stored, name, getattr(tokenizer, name))
    if config.gradient_checkpointing:
        model.activation_checkpointing_enable()
    optimizer: Any = make_optimizer(model, config)
    model, optimizer = accelerator.prepare(model, optimizer)
    done = folder.last_checkpoint()
    if done:
        with reading(folder.checkpoint(done)):
            if accelerator.is_main_process:
                check_hashes(folder.checkpoint(done))
                for file in folder.checkpoint(done).glob("model*.safetensors"):
                    check_within(file, accelerator.unwrap_model(model).state_dict())
            accelerator.load_state(str(folder.checkpoint(done)))
    if accelerator.is_main_process:
        folder.keep_metrics_until(done)
    accelerator.wait_for_everyone()
    run = _Run(config, folder, accelerator, model, optimizer, validation, done, asked_to_stop)
    sampler = ShuffledWindows(
        len(windows), config.sequences, config.accumulation, config.seed, done + 1, config.steps
    )
    loader = iter(accelerator.prepare_data_loader(DataLoader(windows, batch_sampler=sampler)))
    board = folder.path / "tensorboard" if tensorboard and accelerator.is_main_process else None
    bar = tqdm(total=config.steps, initial=done, disable=not (progress and accelerator.is_main_process))
    with TensorBoard(board, done) as events, bar:
        for step in range(done + 1, config.steps + 1):
            line = run.step(step, loader)
            bar.update()
            if line is not None:
                bar.set_postfix(
                    {name: f"{line[name]:.4g}" for name in ("loss", "perplexity") if line.get(name)}
                )
                events.write(line)
                if watch is not None:
                    watch(line)
            if run.stopped and step < config.steps:
                if accelerator.is_main_process:
                    print(f"stopped and stored at step {step}; run the same command again", file=sys.stderr)
                raise SystemExit(EXIT_CODE)
    return _finish(run, tokenizer, ends)


def _check_memory(config: PretrainConfig, model: LanguageModelConfig) -> None:
    """Refuse a model or a step that memory cannot hold, before a text is read or a folder is made."""
    remedy = "give a smaller model.size or smaller model.fields"
    check_memory("the model in float32", 4 * parameter_count(model), remedy)  # drawn on the CPU, everywhere
    part = config.tokens_per_step // config.accumulation
    check_memory(
        f"a part of a step, of {part} tokens,", 8 * part, "give fewer sequences or more accumulation"
    )


def _tokenizer(config: PretrainConfig, folder: PretrainFolder) -> PreTrainedTokenizerBase:
    """The tokenizer of the run: the one that it began with, where it has."""
    if folder.begun:
        with reading(folder.tokenizer):
            found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                str(folder.tokenizer), trust_remote_code=False
            )
            if found.eos_token_id is None:
                raise ValueError("no token ends a document")
            return found
    return tokenizer_of(config.tokenizer, config.train)


def make_optimizer(model: nn.Module, config: PretrainConfig) -> Optimizer:
    """Return the optimizer of a run; weights of one axis, such as norms and biases, are not decayed."""
    settings = config.optimizer
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    options: dict[str, Any] = (
        {"momentum": settings.betas[0]} if config.algorithm == "SGD" else {"betas": settings.betas}
    )
    return getattr(torch.optim, config.algorithm)(groups, lr=settings.learning_rate, **options)


class _Run:
    """The parts of a step, and the sums from one line of metrics to the next."""

    def __init__(
        self,
        config: PretrainConfig,
        folder: PretrainFolder,
        accelerator: Accelerator,
        model: nn.Module,
        optimizer: Optimizer,
        validation: Validation,
        done: int,
        asked_to_stop: Callable[[], bool],
    ) -> None:
        self.config, self.folder, self.accelerator = config, folder, accelerator
        self.model, self.optimizer, self.validation = model, optimizer, validation
        self.language_model: LanguageModel = accelerator.unwrap_model(model)
        self.implicit = isinstance(self.language_model.config, FixedPoints)
        times = folder.checkpoint(done) / TIMES
        before = read_json(times) if times.exists() else {"seconds": 0.0, "training_seconds": 0.0}
        with reading(times):
            if before.get("step", done) != done:
                raise InputError(f"{times.parent} holds step {before['step']}; move this copy away")
            if before.get("run", folder.identity) != folder.identity:
                raise InputError(f"{times.parent} is the checkpoint of another run; move it away")
            self.began, self.before = time.monotonic(), float(before["seconds"])
            self.training_seconds = float(before["training_seconds"])
        self.asked_to_stop, self.stopped = asked_to_stop, False
        self.evaluated: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.began

    def step(self, step: int, loader: Any) -> dict[str, Any] | None:
        """Take a step, and measure, tell and store what is due."""
        config, phase = self.config, self.config.phase_at(step)
        enter(self.language_model.config, phase)
        rate = config.optimizer.learning_rate_at(step, config.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        began, losses, iterations = time.monotonic(), [], []
        for _ in range(config.accumulation):
            with self.accelerator.accumulate(self.model):
                tokens = next(loader)
                output = self.model(tokens, labels=tokens, use_cache=False)
                self.accelerator.backward(output.loss)
                losses.append(output.loss.detach())
                if output.iterations is not None:
                    iterations.append(output.iterations.float().mean())
                if self.accelerator.sync_gradients:
                    norm = self.accelerator.clip_grad_norm_(
                        self.model.parameters(), config.optimizer.gradient_clip or math.inf
                    )
                    self._require_finite("the norm of the gradient", float(norm), step)
                self.optimizer.step()
                self.optimizer.zero_grad()
        mean_loss = torch.stack(losses).mean()
        asked = mean_loss.new_tensor(float(self.asked_to_stop()))  # any process may be
        loss, share = self.accelerator.reduce(torch.stack([mean_loss, asked]), "mean").tolist()
        self.stopped = share > 0
        self._require_finite("loss", loss, step)
        taken = time.monotonic() - began
        self.training_seconds += taken
        last = step == config.steps
        line: dict[str, Any] | None = None
        if last or step % config.log_every == 0 or step % config.evaluation.every == 0:
            line = {
                "step": step,
                "tokens": step * config.tokens_per_step,
                "loss": loss,
                "learning_rate": rate,
                "gradient_norm": float(norm),
                "tokens_per_second": config.tokens_per_step / taken,
            }
            if iterations:
                mean = self.accelerator.reduce(torch.stack(iterations).mean(), "mean")
                line |= {"phase": phase.label, "iterations": float(mean)}
            if last or step % config.evaluation.every == 0:
                line |= self.evaluate(step)
            line |= {"training_seconds": self.training_seconds, "seconds": self.seconds}
            if self.accelerator.is_main_process:
                self.folder.add_metrics(line)
        if last or self.stopped or step % config.checkpoint_every == 0:
            self.store(step)
        return line

    def _require_finite(self, name: str, value: float, step: int) -> None:
        """Refuse to go on: what is not finite reaches no checkpoint."""
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value} at step {step}; train anew into another --out, with a smaller "
                "learning_rate or more iterations"
            )

    def evaluate(self, step: int) -> dict[str, Any]:
        """Measure on the validation text."""
        found = self.validation.measure(self.model, implicit=self.implicit)
        self._require_finite("the validation loss", found.nats, step)
        perplexity = found.perplexity if math.isfinite(found.perplexity) else None  # beyond float64
        self.evaluated = {"validation_loss": found.nats, "perplexity": perplexity}
        if found.iterations is not None:
            self.evaluated |= {
                "validation_iterations": found.iterations,
                "validation_share_converged": found.share_converged,
            }
        return self.evaluated

    def store(self, step: int) -> None:
        """Write a checkpoint: whole, or not at all."""
        wrong = torch.zeros((), device=self.accelerator.device)
        for parameter in self.model.parameters():
            own = parameter.to_local() if hasattr(parameter, "to_local") else parameter  # a shard
            wrong += (~own.detach().isfinite()).sum()
        wrong_anywhere = float(self.accelerator.reduce(wrong, "sum"))
        self._require_finite("a weight", math.nan if wrong_anywhere else 0.0, step)
        temporary = self.folder.new_checkpoint
        if self.accelerator.is_main_process and temporary.exists():
            shutil.rmtree(temporary)
        self.accelerator.wait_for_everyone()
        try:
            with (
                writing(temporary),
                only_errors_of("accelerate.utils.other"),
            ):  # that tied weights are stored once
                self.accelerator.save_state(str(temporary))
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                times = {
                    "step": step,
                    "run": self.folder.identity,
                    "training_seconds": self.training_seconds,
                    "seconds": self.seconds,
                }
                write_json(temporary / TIMES, times)
                self.folder.put_in_place(temporary, step)
        except (InputError, OSError):
            shutil.rmtree(temporary, ignore_errors=True)  # half a checkpoint fills the disk for nothing
            raise
        self.accelerator.wait_for_everyone()


def _finish(run: _Run, tokenizer: PreTrainedTokenizerBase, ends: NDArray[np.int64]) -> dict[str, Any]:
    accelerator, folder, config = run.accelerator, run.folder, run.config
    enter(run.language_model.config, config.phase_at(config.steps))  # where nothing was left to train
    found = run.evaluated or run.evaluate(config.steps)
    weights = accelerator.get_state_dict(run.model)
    if run.language_model.config.tie_word_embeddings:  # gathered from shards, a tied head comes by itself
        for name in run.language_model._tied_weights_keys:
            weights.pop(name, None)
    bits = found["validation_loss"] / math.log(2)
    predicted = len(run.validation.windows) * (config.length - 1)
    # of the last document, of which a part may be measured, as many bytes as its share of tokens
    measured = float(np.interp(predicted + 1, *ends.T))
    result = {
        "name": run.language_model.config.model_type,
        "parameters": parameter_count(run.language_model.config),
        "steps": config.steps,
        "tokens": config.steps * config.tokens_per_step,
        **found,
        "bits_per_byte": bits * (predicted + 1) / measured if measured else None,
        "validation_tokens": predicted,
        "training_seconds": run.training_seconds,
        "seconds": run.seconds,
        "processes": accelerator.num_processes,
        "distributed": accelerator.distributed_type.value,
    }
    if accelerator.is_main_process:
        if folder.new_model.exists():
            shutil.rmtree(folder.new_model)
        with writing(folder.new_model):
            run.language_model.save_pretrained(folder.new_model, state_dict=weights)
            tokenizer.model_max_length = config.length  # what the harness reads at once
            tokenizer.save_pretrained(folder.new_model)
        folder.finish(result)
    accelerator.wait_for_everyone()
    return result
