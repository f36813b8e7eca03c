"""Perplexity and the agreement of the modes, against computations written out here."""

import math

import pytest
import torch

from automata.errors import InputError
from implicit.fixed_point import Stopping
from implicit.language.evaluation import TextEvaluation, evaluate_text, mode_agreement
from tests.implicit.language.small_language_models import IMPLICIT, MODELS, config_of, small_model, tokens_of

WINDOWS = [(23, 8, 2), (22, 8, 16), (5, 64, 1), (2, 2, 1)]


# Every model with one and every window with one, and both kinds of models where batches are cut short.
@pytest.mark.parametrize(
    ("name", "length", "context", "batch_size"),
    [(name, *window) for name, window in zip([*MODELS, "ExplicitMamba2ForCausalLM"], [*WINDOWS, WINDOWS[0]])],  # noqa: B905
)
def test_every_token_but_the_first_is_predicted_once_from_its_window(
    name: str, length: int, context: int, batch_size: int
) -> None:
    model, (text,) = small_model(name), tokens_of(1, length)
    found = evaluate_text(model, text, context, batch_size)
    expected = 0.0
    with torch.no_grad():
        for place in range(1, length):
            begin = (place - 1) // (context - 1) * (context - 1)
            logits = model(text[None, begin:place], use_cache=False).logits[0, -1]
            expected -= float(logits.log_softmax(-1)[text[place]])
    assert found.tokens == length - 1
    # implicit models: float32 through fixed points to a relative tolerance of 0.001, token by token alike
    assert found.nats == pytest.approx(expected / (length - 1), rel=2e-3 if name in IMPLICIT else 1e-5)
    assert found.perplexity == pytest.approx(math.exp(found.nats))
    assert (found.share_converged == 1) if name in IMPLICIT else (found.share_converged is None)


@pytest.mark.parametrize("name", IMPLICIT)
def test_modes_agree_where_both_converge_and_not_where_they_are_cut_off(name: str) -> None:
    model, tokens = small_model(name).double(), tokens_of(12, 4)
    found = mode_agreement(model, tokens, Stopping(rtol=1e-10, max_iterations=5000))
    assert (found.share, found.both_converged, found.share_of_converged, found.tokens) == (1, 1, 1, 48)
    assert found.difference < 1e-7
    cut = mode_agreement(small_model(name, unconverged="ignore").double(), tokens, Stopping(max_iterations=3))
    assert cut.both_converged == 0
    assert math.isnan(cut.share_of_converged)
    assert cut.difference > 1e-3


@pytest.mark.parametrize("name", IMPLICIT)
def test_at_initial_weights_a_strong_injection_makes_tokens_converge_and_the_modes_agree(name: str) -> None:
    def agreement(seed: int, strong: bool, batch: int, length: int) -> tuple[float, float]:
        torch.manual_seed(seed)
        model = MODELS[name](config_of(name, unconverged="ignore")).eval()
        if strong:
            with torch.no_grad():
                model.get_parameter("model.injections.0.weight").mul_(3)
                model.get_parameter("model.injections.0.bias").normal_()
        # to 1e-6, the limit is reached after some 100 iterations where it is reached at all
        stopping = Stopping(rtol=1e-6, max_iterations=150)
        found = mode_agreement(model.double(), tokens_of(batch, length, seed), stopping)
        return found.share, found.both_converged

    assert [agreement(seed, True, 3, 4) for seed in range(3)] == [(1, 1)] * 3
    # one seed that shows both is enough, and the first of them does
    assert any(max(agreement(seed, False, 12, 4)) < 0.95 for seed in range(3))


def test_bad_input_is_one_sentence() -> None:
    model = small_model("ExplicitMamba2ForCausalLM")
    with pytest.raises(InputError, match="model is ExplicitMamba2ForCausalLM, which has one mode only"):
        mode_agreement(model, tokens_of(1, 4))
    with pytest.raises(InputError, match=r"text has shape \(1,\); give at least two tokens"):
        evaluate_text(model, torch.tensor([1]))
    with pytest.raises(InputError, match=r"text has shape \(1, 4\)"):
        evaluate_text(model, tokens_of(1, 4))
    with pytest.raises(InputError, match="context is 1"):
        evaluate_text(model, torch.tensor([1, 2]), context=1)
    with pytest.raises(InputError, match="model is in training mode"):
        evaluate_text(model.train(), torch.tensor([1, 2]))
    assert TextEvaluation(1e6, tokens=1).perplexity == math.inf
