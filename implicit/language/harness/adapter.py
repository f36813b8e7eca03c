"""Models for `lm-eval`: no implicit one reads padding; fixed points and texts that are cut are counted."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.models.huggingface import HFLM
from torch import nn

from automata.errors import InputError
from implicit.language.modeling import LanguageModel, LanguageModelOutput

_TOO_LONG = "sequence-length-is-longer-than-the-specified-maximum"
"""Under this name tokenizers of `transformers` keep that they have warned of a long text, once for all."""


@dataclass
class FixedPointAccount:
    """The status of the fixed points of an evaluation, over all tokens read, with their self-iterations."""

    tokens: int = 0
    converged: int = 0
    iterations: int = 0

    def add(self, output: LanguageModelOutput) -> None:
        """Count the tokens of a batch; of an explicit model none."""
        if output.status is not None and output.iterations is not None:
            self.tokens += output.status.numel()
            self.converged += int((output.status == 0).sum())
            self.iterations += int(output.iterations.sum())

    def summary(self) -> dict[str, float] | None:
        """Return tokens, the share that converged, and mean self-iterations; None if nothing was counted."""
        if not self.tokens:
            return None
        return {
            "tokens": self.tokens,
            "share_converged": self.converged / self.tokens,
            "mean_iterations": self.iterations / self.tokens,
        }


class HarnessModel(HFLM):
    """The Hugging Face backend of `lm-eval`, which pads no text that an implicit model reads.

    The backend pads on the right with token 0 and no mask: an implicit model would seek fixed points of
    padding. So a batch of one holds texts of one length. ``shortened`` counts texts that lost their
    beginning; ``read`` has by text and answer a hash of what is read of the text, and whether it was cut.
    """

    def __init__(self, pretrained: nn.Module, **options: Any) -> None:
        super().__init__(pretrained=pretrained, backend="causal", **options)
        # It would say that long texts lead to indexing errors; they are cut, or read at any length.
        self.tokenizer.deprecation_warnings[_TOO_LONG] = True
        self.account = FixedPointAccount()
        self.shortened = 0
        self.read: dict[tuple[str, str], tuple[int, bool]] = {}
        self._grows = isinstance(pretrained, LanguageModel) and options.get("max_length") is None
        self._unpadded = isinstance(pretrained, LanguageModel) and pretrained.solve is not None

    @property
    def prefix_token_id(self) -> int:
        """The token before an answer to an empty text."""
        token: int | None = super().prefix_token_id
        if token is None:
            raise InputError("the tokenizer has neither bos_token nor eos_token; give it one")
        return token

    def _model_call(self, inps: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        if not self._unpadded:
            return super()._model_call(inps, *others, **named)
        with torch.no_grad():
            output = self.model(inps, use_cache=False)
        self.account.add(output)
        return output.logits

    def _loglikelihood_tokens(
        self, requests: list[Any], disable_tqdm: bool = False, override_bs: int | None = None
    ) -> list[tuple[float, bool]]:
        longest = max((len(continuation) for _, _, continuation in requests), default=0)
        if self._grows:
            self._max_length = max(self.max_length, longest)
        if longest > self.max_length:
            raise InputError(
                f"max_length is {self.max_length}, and an answer has {longest} tokens; give at least as many"
            )
        read = [len(context) + len(continuation) - 1 for _, context, continuation in requests]
        for (texts, context, _), length in zip(requests, read, strict=True):
            cut = max(0, length - self.max_length)
            self.shortened += cut > 0
            self.read[texts] = hash(tuple(context[cut:])), cut > 0
        if not self._unpadded:
            return _checked(super()._loglikelihood_tokens(requests, disable_tqdm, override_bs))
        places = defaultdict(list)
        for place, length in enumerate(read):
            places[min(length, self.max_length)].append(place)
        answers: dict[int, tuple[float, bool]] = {}
        for _, alike in sorted(places.items(), reverse=True):
            together = [requests[place] for place in alike]
            found = super()._loglikelihood_tokens(together, True, override_bs)
            answers.update(zip(alike, _checked(found), strict=True))
        return [answers[place] for place in range(len(requests))]


def _checked(found: list[tuple[float, bool]]) -> list[tuple[float, bool]]:
    """Refuse NaN, of which the harness would take the first answer for the likeliest."""
    if any(math.isnan(likelihood) for likelihood, _ in found):
        raise InputError(
            "the log-likelihood of an answer is nan; give a model of finite weights, in a type wide enough "
            "for its values"
        )
    return found
