"""The accuracy of a language model on a text, and the agreement of its two modes."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from automata.checks import check_integer, check_type
from automata.errors import InputError
from implicit.fixed_point import Stopping
from implicit.language.modeling import LanguageModel
from implicit.models.interface import answers_of
from implicit.modes import Solve

_LARGEST_EXPONENT = 709.0
"""exp of more is beyond float64."""


@dataclass(frozen=True)
class TextEvaluation:
    """How well a model predicts the tokens of a text.

    Attributes:
        nats: mean negative log-likelihood per predicted token.
        tokens: predicted tokens.
        iterations: mean self-iterations per token; None for an explicit model, as is the next.
        share_converged: share of the tokens with a fixed point.

    Example:
        >>> round(TextEvaluation(math.log(50), tokens=10).perplexity, 6)
        50.0
    """

    nats: float
    tokens: int
    iterations: float | None = None
    share_converged: float | None = None

    @property
    def perplexity(self) -> float:
        """Exp of the mean negative log-likelihood: of so many equally likely tokens one had to be guessed."""
        return math.exp(self.nats) if self.nats < _LARGEST_EXPONENT else math.inf


@torch.no_grad()
def evaluate_text(
    model: LanguageModel, text: Tensor, context: int = 256, batch_size: int = 8, solve: Solve | None = None
) -> TextEvaluation:
    """Measure how well a model predicts a text, in windows that know nothing of each other.

    A window of ``context`` tokens begins with the last token of the one before, so that every token of the
    text but the first is predicted once. Fixed points are sought as configured if ``solve`` is None.
    InputError if the text has fewer than two tokens, a number is out of its range, or the model is in
    training mode.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> from implicit.language import ExplicitMamba2ForCausalLM, ExplicitMamba2LMConfig
        >>> config = ExplicitMamba2LMConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, head_dim=4)
        >>> model = ExplicitMamba2ForCausalLM(config).eval()
        >>> found = evaluate_text(model, torch.arange(20) % 9, context=8)
        >>> found.tokens, 8.9 < found.perplexity < 9.1  # untrained: all are as likely
        (19, True)
    """
    check_integer("context", context, 2)
    check_integer("batch_size", batch_size, 1)
    _check_evaluation(model)
    check_type("text", text, Tensor, "give a tensor of tokens, [tokens]")
    text = text.long()
    if text.ndim != 1 or len(text) < 2:
        raise InputError(f"text has shape {tuple(text.shape)}; give at least two tokens, [tokens]")
    windows = [text[first : first + context] for first in range(0, len(text) - 1, context - 1)]
    nats, iterations, converged, read = 0.0, 0, 0, 0
    for first in range(0, len(windows), batch_size):
        for batch in _of_one_length(windows[first : first + batch_size]):
            output = model(batch, use_cache=False, solve=solve)
            predicted = output.logits[:, :-1].flatten(0, 1).float()
            nats += float(functional.cross_entropy(predicted, batch[:, 1:].flatten(), reduction="sum"))
            read += batch.numel()
            if output.status is not None:
                iterations += int(output.iterations.sum())
                converged += int((output.status == 0).sum())
    found = (None, None) if model.solve is None else (iterations / read, converged / read)
    return TextEvaluation(nats / (len(text) - 1), len(text) - 1, *found)


def _check_evaluation(model: LanguageModel) -> None:
    check_type("model", model, LanguageModel, "give a model of implicit.language")
    if model.training:
        raise InputError(
            "model is in training mode, where fixed points are sought otherwise; call model.eval()"
        )


def _of_one_length(windows: list[Tensor]) -> list[Tensor]:
    """Windows in batches; the last may be shorter than the others."""
    if len(windows[-1]) == len(windows[0]):
        return [torch.stack(windows)]
    return [torch.stack(part) for part in (windows[:-1], windows[-1:]) if part]


@dataclass(frozen=True)
class ModeAgreement:
    """The agreement of the predictions of the simultaneous and the sequential mode.

    Attributes:
        share: of the tokens after which both hold the same next token for the likeliest; 0.976 is published
            of 1.3 billion parameters.
        both_converged: share of the tokens of which both found a fixed point.
        share_of_converged: of these, with the same likeliest token; NaN if there is none.
        difference: the largest difference of a log-probability, in nats.
        tokens: on which.
    """

    share: float
    both_converged: float
    share_of_converged: float
    difference: float
    tokens: int


@torch.no_grad()
def mode_agreement(model: LanguageModel, tokens: Tensor, stopping: Stopping | None = None) -> ModeAgreement:
    """Compare what an implicit model, in evaluation mode, predicts of ``[batch, length]`` in its two modes.

    Tolerance and limit of both are those configured if None. InputError if the model is explicit, or in
    training mode. Source: Schöne et al. 2025, arXiv 2502.07827.

    Example:
        >>> from implicit.language import ImplicitMamba2ForCausalLM, ImplicitMamba2LMConfig
        >>> _ = torch.manual_seed(0)
        >>> sizes = {"hidden_size": 8, "num_hidden_layers": 1, "head_dim": 4, "state_size": 4}
        >>> config = ImplicitMamba2LMConfig(vocab_size=9, **sizes, unconverged="ignore")
        >>> model = ImplicitMamba2ForCausalLM(config).eval()
        >>> 0 <= mode_agreement(model, torch.arange(16)[None] % 9).share <= 1
        True
    """
    _check_evaluation(model)
    if model.solve is None:
        raise InputError(f"model is {type(model).__name__}, which has one mode only; give an implicit one")
    stopping = model.solve.stopping if stopping is None else stopping
    one = model(tokens, use_cache=False, solve=Solve("simultaneous", stopping=stopping))
    other = model(tokens, use_cache=False, solve=Solve("sequential", stopping=stopping))
    answers, others = answers_of(one.logits), answers_of(other.logits)
    same = (answers == others) & (answers >= 0)  # none is NaN
    both = (one.status == 0) & (other.status == 0)
    differences = one.logits.log_softmax(-1) - other.logits.log_softmax(-1)
    return ModeAgreement(
        float(same.double().mean()),
        float(both.double().mean()),
        float(same[both].double().mean()) if bool(both.any()) else math.nan,
        float(differences.abs().max()),
        tokens.numel(),
    )
