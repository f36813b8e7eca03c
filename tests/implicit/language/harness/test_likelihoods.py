"""Log-likelihoods of `lm-eval` are those that a plain forward pass gives, whatever is read together."""

from functools import cache
from typing import Any

import pytest
import torch

from automata.errors import InputError
from tests.implicit.language.harness.small_harness_models import byte_tokenizer, small_byte_model

NAMES = ("ImplicitMamba2ForCausalLM", "ImplicitLlamaForCausalLM", "ExplicitMamba2ForCausalLM")
REQUESTS = [
    ("The lamp is", " on"),
    ("The lamp is", " up"),
    ("A longer context, padding", " yes"),
    ("A", " b"),
    ("1 + 1?", " 2"),
    ("1 + 1?", " 3 or so"),
    ("Straße", " ä"),
]
TOLERANCE = 1e-9
"""In nats: the same is computed, and the rest of a batch changes rounding alone, 4e-15 when tried."""


@cache
def exact_model(name: str) -> Any:
    changes: dict[str, Any] = {"rtol": 1e-7, "max_iterations": 500} if name.startswith("Implicit") else {}
    return small_byte_model(name, **changes).double()


def adapted_model(model: Any, tokenizer: Any = None, batch_size: int = 1) -> Any:
    from implicit.language.harness.adapter import HarnessModel

    return HarnessModel(model, tokenizer=tokenizer or byte_tokenizer(), batch_size=batch_size)


def asked(requests: list[tuple[str, str]]) -> list[Any]:
    from lm_eval.api.instance import Instance

    return [
        Instance(request_type="loglikelihood", doc={}, arguments=pair, idx=index)
        for index, pair in enumerate(requests)
    ]


@cache
def direct(name: str, context: str, continuation: str) -> tuple[float, bool]:
    """The log-probability of the bytes of the continuation, and whether each is the likeliest."""
    model, tokenizer = exact_model(name), byte_tokenizer()
    before, after = (tokenizer.encode(text, add_special_tokens=False) for text in (context, continuation))
    with torch.no_grad():
        logits = model(torch.tensor([before + after])).logits
    assert logits.dtype == torch.float64
    predictions = logits[0, len(before) - 1 : -1].log_softmax(-1)
    found = predictions[torch.arange(len(after)), torch.tensor(after)].sum()
    return float(found), predictions.argmax(-1).tolist() == after


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_log_likelihoods_are_those_of_a_forward_pass(name: str, batch_size: int) -> None:
    adapted = adapted_model(exact_model(name), batch_size=batch_size)
    found = adapted.loglikelihood(asked(REQUESTS), disable_tqdm=True)
    for answer, request in zip(found, REQUESTS, strict=True):
        expected = direct(name, *request)
        assert answer[0] == pytest.approx(expected[0], abs=TOLERANCE)
        assert answer[1] == expected[1]
        assert expected[0] < -1  # an untrained model expects none of this


@pytest.mark.parametrize("name", NAMES)
def test_the_backend_as_it_is_pads_and_says_the_same(name: str) -> None:
    from lm_eval.models.huggingface import HFLM

    model = exact_model(name)
    seen: list[torch.Tensor] = []
    hook = model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    found = HFLM(model, tokenizer=byte_tokenizer(), batch_size=3).loglikelihood(
        asked(REQUESTS), disable_tqdm=True
    )
    hook.remove()
    assert any(bool((tokens[:, -1] == 0).any()) for tokens in seen)  # token 0 is "!", which nobody wrote
    for answer, request in zip(found, REQUESTS, strict=True):
        assert answer[0] == pytest.approx(direct(name, *request)[0], abs=TOLERANCE)


def test_the_length_of_the_tokenizer_is_read_at_once_and_no_answer_is_too_long() -> None:
    name, tokenizer = "ExplicitMamba2ForCausalLM", byte_tokenizer()
    tokenizer.model_max_length = 8
    adapted = adapted_model(exact_model(name), tokenizer)
    ((cut, _),) = adapted.loglikelihood(asked([("A longer context", " yes")]), disable_tqdm=True)
    assert (adapted.max_length, adapted.shortened) == (8, 1)
    # eight tokens before the last one
    assert cut == pytest.approx(direct(name, "ntext", " yes")[0], abs=TOLERANCE)
    ((answer, _),) = adapted.loglikelihood(asked([("A", " longer answer")]), disable_tqdm=True)
    assert answer == pytest.approx(direct(name, "A", " longer answer")[0], abs=TOLERANCE)


def test_an_implicit_model_reads_no_padding_and_its_tokens_are_counted() -> None:
    model = exact_model("ImplicitMamba2ForCausalLM")
    adapted = adapted_model(model, batch_size=3)
    seen: list[torch.Tensor] = []
    hook = model.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    adapted.loglikelihood(asked(REQUESTS), disable_tqdm=True)
    hook.remove()
    tokenizer = byte_tokenizer()
    wanted = {tuple(tokenizer.encode(context + continuation)[:-1]) for context, continuation in REQUESTS}
    rows = [tuple(row) for tokens in seen for row in tokens.tolist()]
    assert set(rows) == wanted
    assert max(len(tokens) for tokens in seen) == 3  # so many are of one length
    account = adapted.account.summary()
    assert account is not None
    assert account["tokens"] == sum(map(len, rows))
    assert account["share_converged"] == 1
    assert account["mean_iterations"] > 1


def test_likelihoods_that_are_not_numbers_are_refused() -> None:
    """An implicit model has no NaN: its tokens without a fixed point are counted."""
    model = small_byte_model("ExplicitMamba2ForCausalLM")
    with torch.no_grad():
        model.get_parameter("model.mixers.0.in_proj.weight")[0, 0] = torch.nan
    adapted = adapted_model(model, batch_size=2)
    with pytest.raises(InputError, match="log-likelihood of an answer is nan; give a model of finite"):
        adapted.loglikelihood(asked(REQUESTS), disable_tqdm=True)


def test_a_text_that_is_empty_asks_the_tokenizer_for_a_first_token() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.eos_token = None
    adapted = adapted_model(small_byte_model("ExplicitMamba2ForCausalLM"), tokenizer)
    with pytest.raises(InputError, match="neither bos_token nor eos_token"):
        adapted.loglikelihood(asked([("", " on")]), disable_tqdm=True)
