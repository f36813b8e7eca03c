"""Implicit and explicit language models as `transformers` knows them.

``model`` is the stack of `implicit.language.backbones`, and ``cache`` a `SequenceState`.

Source: Schöne et al. 2025, arXiv 2502.07827; the layers are those of Mamba-2 (Dao & Gu 2024, arXiv
2405.21060) and of Llama (Touvron et al. 2023, arXiv 2302.13971).
"""

import math
import os
import re
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast
from warnings import catch_warnings

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_module_registration_hook
from transformers import GenerationMixin, PreTrainedModel
from transformers import initialization as init
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import ModelOutput
from transformers.utils.deprecation import deprecate_kwarg

from automata.checks import check_type
from automata.errors import InputError, unknown_name, warn_caller
from implicit.cells import Mamba2Cell, RMSNorm
from implicit.cells.interface import has_own_hooks
from implicit.cells.parts import initial_step_bias
from implicit.fixed_point import FixedPointError, NotConvergedWarning, Status, Stopping
from implicit.gradients import Phantom, Unrolled
from implicit.language.backbones import ImplicitLlamaBackbone, ImplicitMamba2Backbone
from implicit.language.configuration import (
    ExplicitLlamaLMConfig,
    ExplicitMamba2LMConfig,
    FixedPoints,
    ImplicitLlamaLMConfig,
    ImplicitMamba2LMConfig,
    LanguageModelConfig,
    LlamaLayers,
    Mamba2Layers,
)
from implicit.language.padding import LOST, Reading, SequenceState
from implicit.language.prompt import read_prompt
from implicit.language.stored_models import check_stored_size, check_texts, model_and_adapter
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import ModelOutput as StackOutput
from implicit.models.registry import Mamba2, Transformer
from implicit.models.stack import CellStack
from implicit.modes import Mode, SequenceSolution, Solve
from implicit.runs.files import HASHES, check_hashes, has_hashes, write_hashes
from theory.transition import State


@dataclass
class LanguageModelOutput(ModelOutput):
    """The outputs of a language model for a batch.

    Attributes:
        loss: mean negative log-likelihood of the labels, in nats per token; None without labels.
        logits: ``[batch, kept, vocab_size]``.
        cache: what was read, for the tokens that follow; None unless ``use_cache``.
        iterations: self-iterations of every token, ``[batch, length]``; None of an explicit model, like the
            two below; they are 0 at padding.
        residual: ‖Φ(z) − z‖₂ of every token when it was last evaluated, ``[batch, length]``.
        status: `theory.status.Status` codes, ``[batch, length]``: 0 converged, 1 the limit was reached first,
            2 not finite.
        latents: what the head reads, ``[batch, length, hidden_size]``, where asked for: z of every token, or
            the features of an explicit model.
        hidden_states: where asked for, the stream before each layer and what the head reads, all ``[batch,
            length, hidden_size]``. That of an implicit model begins with z.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    cache: SequenceState | None = None
    iterations: Tensor | None = None
    residual: Tensor | None = None
    status: Tensor | None = None
    latents: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: None = None


_ON_DISK = (
    "weights lie on the disk or elsewhere until a module is called, and the layers here are run rather than "
    "called; load the whole model onto one device"
)
_HANDED_ON = frozenset(("cache_position", "token_type_ids", "max_length_q", "max_length_k"))
"""Arguments that `transformers` may give to any model, and no model here reads."""
_BORDERS = frozenset(("cu_seq_lens_q", "cu_seq_lens_k"))
"""Names of the ends of documents in the flattened batch."""
LEFT_OUT = -100
"""The label of a token that the loss leaves out."""
_OF_THE_LOSS = frozenset(("num_items_in_batch", "ignore_index"))


def _tell_names(wrapper: nn.Module, attribute: str, wrapped: nn.Module | None) -> None:
    """Tell other libraries the names by which they know parts of a language model that they wrap.

    A compiled model keeps its name, by which `Trainer` goes, see below.
    """
    inner = getattr(getattr(wrapped, "base_model", None), "model", None)  # of an adapted model of peft
    named = inner if isinstance(inner, LanguageModel) else wrapped
    if attribute == "_orig_mod" and isinstance(named, LanguageModel):
        object.__setattr__(wrapper, "_get_name", named._get_name)
    if isinstance(wrapped, LanguageModel) and "peft" in type(wrapper).__module__.split("."):
        # peft knows embeddings by these names alone: it warns, ties and saves only where it finds one of them
        names = sys.modules["peft.utils.constants"].EMBEDDING_LAYER_NAMES
        names.extend({"embedding"} - set(names))


register_module_module_registration_hook(_tell_names)


class LanguageModel(PreTrainedModel, GenerationMixin):
    """A stack of cells between an embedding and a head; subclasses name its ``backbone_class``."""

    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _tied_weights_keys: ClassVar[dict[str, str]] = {"lm_head.weight": "model.embedding.weight"}
    _is_stateful = True  # a recurrent state cannot be cut back to an earlier token
    _no_split_modules: ClassVar[list[str]] = []

    backbone_class: ClassVar[type[CellStack]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # `Trainer` shifts labels for label smoothing only where a class, also a user's, has its name in here.
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[cls.__name__] = cls.__name__

    def __init__(self, config: LanguageModelConfig) -> None:
        super().__init__(config)
        self.loss_type = "ForCausalLM"  # not by the name of the class
        assert isinstance(config, Mamba2Layers | LlamaLayers)
        sizes = {"d_model": config.hidden_size, "layers": config.num_hidden_layers} | config.layer_sizes
        sizes |= config.solving if isinstance(config, FixedPoints) else {}
        stack_config: Any = self.backbone_class.config_class
        self.model = self.backbone_class(
            stack_config(vocabulary_size=config.vocab_size, output_size=1, **sizes)
        )
        self.model.head = nn.Identity()  # type: ignore[assignment]  # ``lm_head`` reads what comes out
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self._ends_of_branches = {
            module.out_proj for module in self.model.modules() if hasattr(module, "out_proj")
        }
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """Return whether `transformers` may make the cache; the model makes its own."""
        return False

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | os.PathLike[str] | None, *others: Any, **options: Any
    ) -> Self:
        """Read a model as `transformers` does; of a folder with hashes, files that changed are refused.

        InputError if a file is missing, too large or not as it was written; the configuration in the folder
        asks for many weights that its files do not hold; a weight is no floating-point number or not finite;
        or some modules would lie on the disk.
        """
        if pretrained_model_name_or_path is not None:
            folder = Path(pretrained_model_name_or_path) / (options.get("subfolder") or "")
            if folder.is_dir():
                check_texts(folder)
                named = folder
                folder, adapter = model_and_adapter(named, options.get("subfolder") or "")
                if folder != named:
                    check_texts(folder)
                variant = f"[.]{re.escape(options['variant'])}" if options.get("variant") else ""
                files = rf"model(-\d+-of-\d+)?{variant}(-\d+-of-\d+)?[.]safetensors"
                check_hashes(folder, files)
                if options.get("state_dict") is None and not options.get("ignore_mismatched_sizes"):
                    check_stored_size(cls, folder, options.get("config"), adapter)
        try:
            found = super().from_pretrained(pretrained_model_name_or_path, *others, **options)
        except ValueError as fault:  # of accelerate, for modules of which a part is on the disk
            if "on the meta device" not in str(fault):
                raise
            raise InputError(_ON_DISK) from None
        model: Self = found[0] if isinstance(found, tuple) else found
        for name, weight in model.named_parameters():
            known = weight.is_floating_point() and weight.element_size() > 1 and not weight.is_meta
            if known and not bool(weight.isfinite().all()):
                raise InputError(
                    f"weight {name!r} of {pretrained_model_name_or_path} holds NaN or infinity; restore it"
                )
        return found

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        is_main_process: bool = True,
        *others: Any,
        **options: Any,
    ) -> None:
        """Write a model as `transformers` does; hashes of a folder that has them are written anew.

        A ``sha256.json`` of the user stays as it is.
        """
        folder = Path(save_directory)
        hashed = is_main_process and has_hashes(folder)
        if hashed:
            (folder / HASHES).unlink()  # killed between the two, the folder has no hashes
        super().save_pretrained(save_directory, is_main_process, *others, **options)
        if hashed:
            name = "model." + options["variant"] if options.get("variant") else "model"
            # beside shards `transformers` leaves a whole file of before, and would load that
            if any(
                re.fullmatch(rf"{re.escape(name)}-\d{{5}}-of-\d{{5}}[.]safetensors", file.name)
                for file in folder.iterdir()
            ):
                (folder / f"{name}.safetensors").unlink(missing_ok=True)
            write_hashes(folder, "*.safetensors")

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw the weights of a module that no checkpoint gives; `transformers` calls it module by module."""
        if isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=self.config.initializer_range)
        elif isinstance(module, nn.Linear | nn.Conv1d):
            init.kaiming_uniform_(module.weight, a=math.sqrt(5))
            if module in self._ends_of_branches:  # so that the stream does not grow with the depth
                init.copy_(module.weight, module.weight / math.sqrt(len(self._ends_of_branches)))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, RMSNorm):
            init.ones_(module.weight)
        elif isinstance(module, Mamba2Cell):
            init.copy_(module.dt_bias, initial_step_bias(module.heads))
            init.copy_(module.A_log, torch.empty(module.heads).uniform_(1, 16).log())
            init.ones_(module.D)
            init.ones_(module.norm.weight)

    def get_input_embeddings(self) -> nn.Module:
        """Return the embedding."""
        return self.model.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the embedding, by one of another vocabulary perhaps."""
        assert isinstance(value, nn.Embedding)
        self.model.embedding = value
        self.model.config = self.model.config.model_copy(update={"vocabulary_size": value.num_embeddings})

    @property
    def solve(self) -> Solve | None:
        """How fixed points are sought, in training and outside of it; None of an explicit model."""
        config = self.config
        if not isinstance(config, FixedPoints):
            return None
        if not self.training:
            stopping = Stopping(rtol=config.rtol, max_iterations=config.max_iterations)
            return Solve(cast("Mode", config.mode), stopping=stopping)
        # the phantom steps are the last ones of a token at the limit; the last evaluation only measures
        limit = config.training_max_iterations + config.phantom_steps + 1
        return Solve(
            "simultaneous",
            stopping=Stopping(rtol=config.training_rtol, max_iterations=limit),
            gradient=Phantom(config.phantom_steps, config.damping),
        )

    @deprecate_kwarg("past_key_values", version="5.40.0", new_name="cache")  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: SequenceState | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        return_dict: bool | None = None,
        solve: Solve | None = None,
        output_latents: bool = False,
        position_ids: Tensor | None = None,
        seq_idx: Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        **others: Any,
    ) -> LanguageModelOutput | tuple[Any, ...]:
        """Read tokens and predict, after each of them, the next.

        Args:
            input_ids: int64, ``[batch, length]``.
            attention_mask: 1 for real tokens and 0 for padding, wherever that stands, ``[batch, length]``, or
                of the tokens read before as well, as they were read; all are real if None.
            cache: what was read before.
            labels: the tokens themselves, int64 ``[batch, length]``, -100 where the loss leaves one out; they
                are shifted here. Padding, what is predicted from it, and the first token of each document are
                left out.
            use_cache: whether to return what was read; as configured if None, never in training.
            logits_to_keep: only so many of the last positions, 0 for all; or which.
            return_dict: whether to return a `LanguageModelOutput` and not a tuple; as configured if None.
            solve: how fixed points are sought; as configured if None.
            output_latents: whether to return the latents.
            position_ids: int ``[batch or 1, length]``. Where they do not grow, or are 0 behind what was read
                before, a document begins, which knows nothing of what stands before it.
            seq_idx: the number of the document of each token, likewise.
            output_hidden_states: whether to return the streams; as configured if None.
            output_attentions: True has a warning: weights of attention are not kept.
            **others: ``cu_seq_lens_q`` and ``cu_seq_lens_k``, which say where documents end; what the loss
                takes, such as ``num_items_in_batch``; and what `transformers` hands on and no model reads.

        Raises:
            InputError: tokens are missing or outside the vocabulary, or the mask does not fit them.
            FixedPointError: a token has no fixed point, and the configuration says ``"raise"``.
        """
        if input_ids is None or others.pop("inputs_embeds", None) is not None:
            raise InputError("input_ids is None; give tokens, since the model reads no embeddings")
        for name in others:
            if name not in _HANDED_ON | _OF_THE_LOSS | _BORDERS:
                known = (*_HANDED_ON, *_OF_THE_LOSS, *_BORDERS, "labels", "attention_mask", "position_ids")
                raise unknown_name("argument", name, known)
        if cache is not None:
            remedy = "give the cache that this model returned"
            check_type("cache", cache, SequenceState, remedy)
        if self.config.output_attentions if output_attentions is None else output_attentions:
            warn_caller("output_attentions is True, and weights of attention are not kept", UserWarning)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        borders = {"position_ids": position_ids, "seq_idx": seq_idx}
        borders |= {name: others[name] for name in _BORDERS & others.keys()}
        reading = Reading.of(input_ids, attention_mask, cache, **borders)
        solve = self.solve if solve is None else solve
        use_cache = (self.config.use_cache and not self.training) if use_cache is None else use_cache
        read: list[StackOutput] = []
        streams: list[list[Tensor]] = []
        if any(part.is_meta for part in self.model.parameters()):
            raise InputError(_ON_DISK)
        for rows in reading.rows:
            here = solve
            if solve is not None:
                start = None if solve.start is None else rows.take(solve.start)
                here = replace(solve, start=start, state_after=use_cache)
            state = rows.begin(cache)
            lost = None if state is None else state.pop(LOST, None)
            given = rows.take(input_ids), state
            # what is said of the first documents holds for all
            with catch_warnings(action="ignore") if read else nullcontext():
                read.append(_resting_on(lost, self._read(*given, here, rows.lengths), rows.lengths))
            if output_hidden_states:
                streams.append(self._streams(*given, rows.lengths, read[-1].solution))

        solutions = [part.solution for part in read if part.solution is not None]
        self._tell(solutions)

        def back(values: Iterable[Tensor]) -> Tensor:
            return reading.back(list(values), input_ids)

        features = back(part.logits for part in read)
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        logits = self.lm_head(features[:, kept])
        loss = None
        if labels is not None:
            items, ignored = others.get("num_items_in_batch"), others.get("ignore_index")
            ignored = LEFT_OUT if ignored is None else ignored
            labels = self._checked_labels(labels, input_ids, reading, logits, items is not None, ignored)
            loss = self.loss_function(
                logits=logits, labels=labels, vocab_size=self.config.vocab_size, num_items_in_batch=items
            )
        seen = input_ids.shape[1] + (0 if cache is None else cache.seen)
        held = None
        if use_cache:
            state = reading.after([part.state for part in read], input_ids)
            held = SequenceState(state, seen, reading.read_so_far(input_ids, cache))
        output = LanguageModelOutput(
            loss=loss,
            logits=logits,
            cache=held,
            iterations=back(one.iterations for one in solutions) if solutions else None,
            residual=back(one.residual for one in solutions) if solutions else None,
            status=back(one.status for one in solutions) if solutions else None,
            latents=features if output_latents else None,
            hidden_states=(*map(back, zip(*streams, strict=True)), features) if streams else None,
        )
        return_dict = self.config.return_dict if return_dict is None else return_dict
        return output if return_dict else output.to_tuple()

    def _read(
        self, tokens: Tensor, state: State | None, solve: Solve | None, lengths: Tensor | None
    ) -> StackOutput:
        """Run the stack; prompts of a model whose state grows are read together and verified."""
        if has_own_hooks(self.model):
            raise InputError(
                "model has hooks, and its stack is run rather than called, so that they would not fire; give "
                "them to the language model, or to the modules within model"
            )
        if (
            solve is None
            or (solve.mode, solve.solver) != ("auto", None)
            or isinstance(solve.gradient, Unrolled)
            or not (self.model.state_grows and tokens.shape[1] > 1)
        ):
            return self.model.run(tokens, state, solve, lengths=lengths)
        return read_prompt(cast("ImplicitModel", self.model), tokens, state, solve, lengths)

    def _streams(
        self, tokens: Tensor, state: State | None, lengths: Tensor | None, solution: SequenceSolution | None
    ) -> list[Tensor]:
        """The stream before each layer, in an evaluation at the latents of an implicit model."""
        caught: list[Tensor] = []
        hooks = [
            norm.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
            for norm in self.model.mixer_norms
        ]
        try:
            if solution is None:
                self.model.run(tokens, state, lengths=lengths)
            else:
                cast(ImplicitModel, self.model).problem(tokens, state, lengths).function(solution.latents)
        finally:
            for hook in hooks:
                hook.remove()
        return caught

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        cache: SequenceState | None = None,
        attention_mask: Tensor | None = None,
        use_cache: bool | None = None,
        position_ids: Tensor | None = None,
        **kwargs: Any,  # so called, it lets `generate` take what `forward` does
    ) -> dict[str, Any]:
        """Return what `forward` reads next: the tokens that it has not read yet."""
        if cache is not None:
            remedy = "give the cache that this model returned"
            check_type("cache", cache, SequenceState, remedy)
        seen = 0 if cache is None else cache.seen
        if input_ids.shape[1] <= seen:
            raise InputError(
                f"input_ids has {input_ids.shape[1]} tokens, of which cache has read {seen}; give the "
                "whole text, with one token more at least"
            )
        if attention_mask is not None and not bool(attention_mask[:, -1].all()):
            raise InputError("attention_mask ends with padding; to generate, pad on the left")
        handed = {"output_hidden_states", "output_attentions", "output_latents", "solve"}
        if cache is None:
            handed |= {"seq_idx", *_BORDERS}  # of the prompt
        return {
            **{name: kwargs[name] for name in handed & kwargs.keys()},
            "input_ids": input_ids[:, seen:],
            "cache": cache,
            "attention_mask": attention_mask,
            "use_cache": use_cache,
            "position_ids": None if position_ids is None else position_ids[:, seen - input_ids.shape[1] :],
            "logits_to_keep": kwargs.get("logits_to_keep", 0) or 0,
        }

    def _checked_labels(
        self, labels: Tensor, tokens: Tensor, reading: Reading, logits: Tensor, counted: bool, ignored: int
    ) -> Tensor:
        """Refuse labels that do not fit; leave out padding, what is predicted from it, and borders."""
        check_type("labels", labels, Tensor, "give a tensor, [batch, length], such as the tokens")
        if labels.shape != tokens.shape or logits.shape[:2] != tokens.shape:
            raise InputError(
                f"labels has shape {tuple(labels.shape)} and there are logits at {tuple(logits.shape[:2])} "
                f"places; give labels of the shape of input_ids, {tuple(tokens.shape)}, and leave "
                "logits_to_keep out"
            )
        if labels.is_floating_point() or labels.dtype is torch.bool:
            raise InputError(f"labels is {labels.dtype}; give the numbers of tokens, int64")
        labels = labels.long()
        labels = labels.masked_fill(labels == ignored, LEFT_OUT)
        wrong = ((labels < 0) | (labels >= self.config.vocab_size)) & (labels != LEFT_OUT)
        if bool(wrong.any()):
            raise InputError(
                f"labels holds {int(labels[wrong][0])}; give tokens below {self.config.vocab_size}, or "
                f"{LEFT_OUT} to leave one out"
            )
        if reading.predicted is None:
            return labels
        if counted:
            lost = (labels != LEFT_OUT) & ~reading.predicted
            lost[:, 0] = False
            if reading.mask is not None:  # every collator counts the token behind padding on the left
                lost[:, 1:] &= reading.mask[:, :-1] | ~reading.mask[:, 1:]
            if bool(lost.any()):
                raise InputError(
                    f"labels holds {int(labels[lost][0])} at padding or where a document begins, which "
                    f"num_items_in_batch counts and the loss leaves out; give {LEFT_OUT} there, as "
                    "DataCollatorForLanguageModeling and DataCollatorWithFlattening do"
                )
        return labels.masked_fill(~reading.predicted, LEFT_OUT)

    def _tell(self, solutions: list[SequenceSolution]) -> None:
        """Warn or raise where a token has no fixed point, as configured; never in training."""
        lacking = [found.message() for found in solutions if not bool(found.converged.all())]
        if not lacking or self.training or self.config.unconverged == "ignore":
            return
        message = "; ".join(lacking)
        if self.config.unconverged == "raise":
            raise FixedPointError(f"no fixed point at {message}")
        warn_caller(f"outputs without a fixed point at {message}", NotConvergedWarning)


def _resting_on(lost: Tensor | None, found: StackOutput, lengths: Tensor | None) -> StackOutput:
    """Call no token converged that rests on one without a fixed point, read before or here; pass that on.

    Without a solution, that of an explicit model, nothing changes.
    """
    solution = found.solution
    if solution is None:
        return found
    status = solution.status
    if lost is not None:
        behind = lost[:, None] & (status == int(Status.CONVERGED))
        if solution.mask is not None:
            behind &= solution.mask
        status = status.masked_fill(behind, int(Status.MAX_ITERATIONS))
        solution = replace(solution, status=status, resting=behind)
    last = status[:, -1] if lengths is None else status.gather(1, lengths[:, None] - 1)[:, 0]
    state = {**found.state, LOST: last != int(Status.CONVERGED)} if found.state else found.state
    return replace(found, solution=solution, state=state)


class ImplicitMamba2ForCausalLM(LanguageModel):
    """Mamba-2 layers iterated to a fixed point at every token, as a language model.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> sizes = {"hidden_size": 16, "num_hidden_layers": 2, "head_dim": 8, "state_size": 4}
        >>> config = ImplicitMamba2LMConfig(vocab_size=50, **sizes)
        >>> model = ImplicitMamba2ForCausalLM(config).eval()
        >>> output = model(torch.tensor([[3, 1, 4]]))
        >>> output.logits.shape, bool((output.status == 0).all())
        (torch.Size([1, 3, 50]), True)
        >>> model.generate(torch.tensor([[3, 1, 4]]), max_new_tokens=4, do_sample=False).shape
        torch.Size([1, 7])
    """

    config_class = ImplicitMamba2LMConfig
    backbone_class = ImplicitMamba2Backbone


class ImplicitLlamaForCausalLM(LanguageModel):
    """Llama blocks iterated to a fixed point at every token, as a language model."""

    config_class = ImplicitLlamaLMConfig
    backbone_class = ImplicitLlamaBackbone


class ExplicitMamba2ForCausalLM(LanguageModel):
    """The explicit twin of `ImplicitMamba2ForCausalLM`: the same layers, run once."""

    config_class = ExplicitMamba2LMConfig
    backbone_class = Mamba2


class ExplicitLlamaForCausalLM(LanguageModel):
    """The explicit twin of `ImplicitLlamaForCausalLM`: the same layers, run once."""

    config_class = ExplicitLlamaLMConfig
    backbone_class = Transformer
