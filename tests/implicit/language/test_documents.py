"""Documents packed into one row: each is read as if it were alone, in whole and one token at a time."""

from typing import Any

import pytest
import torch
from transformers import DataCollatorWithFlattening

from automata.errors import InputError
from implicit.language import LanguageModel
from tests.implicit.language.small_language_models import MODELS, TIGHT, small_model, tokens_of

LENGTHS = (2, 1, 3, 1)
ATOL = 1e-8  # the tolerance of the fixed points, relative to latents of order one, over a few tokens


def model_and_documents(name: str) -> tuple[LanguageModel, list[torch.Tensor]]:
    return small_model(name).double(), list(tokens_of(1, sum(LENGTHS))[0].split(LENGTHS))


def positions_of(*lengths: int) -> torch.Tensor:
    return torch.cat([torch.arange(length) for length in lengths])[None]


def alone(model: LanguageModel, documents: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([model(one[None], solve=TIGHT).logits[0] for one in documents])


PACKS: list[dict[str, Any]] = [
    {},
    {"return_position_ids": False, "return_flash_attn_kwargs": True},
    {"return_position_ids": False, "return_seq_idx": True},
    {"return_flash_attn_kwargs": True, "return_seq_idx": True, "position_ids_start": 2},
]


# One way per model: what they are read into is the same for all.
@pytest.mark.parametrize(("name", "options"), list(zip(MODELS, PACKS, strict=True)))
def test_what_a_collator_packs_is_read_as_single_documents(name: str, options: dict[str, Any]) -> None:
    model, documents = model_and_documents(name)
    batch = DataCollatorWithFlattening(**options)([{"input_ids": one.tolist()} for one in documents])
    labels = batch.pop("labels")
    found = model(**batch, labels=batch["input_ids"], solve=TIGHT)  # with labels at borders, too
    torch.testing.assert_close(found.logits[0], alone(model, documents), rtol=0, atol=ATOL)
    assert torch.equal(found.loss, model(**batch, labels=labels, solve=TIGHT).loss)
    assert found.status is None or bool((found.status == 0).all())


@pytest.mark.parametrize("name", MODELS)
def test_rows_with_padding_hold_documents_of_their_own(name: str) -> None:
    model, documents = model_and_documents(name)
    tokens = torch.stack([torch.cat(documents[:3]), torch.cat([torch.zeros(3).long(), *documents[2:]])[:6]])
    mask = torch.ones_like(tokens)
    mask[1, :3] = 0
    positions = torch.cat([positions_of(*LENGTHS[:3]), torch.tensor([[1, 1, 1, *range(3)]])])
    found = model(tokens, attention_mask=mask, position_ids=positions, solve=TIGHT).logits
    torch.testing.assert_close(found[0], alone(model, documents[:3]), rtol=0, atol=ATOL)
    torch.testing.assert_close(found[1, 3:], alone(model, documents[2:3]), rtol=0, atol=ATOL)


@pytest.mark.parametrize(("name", "piece"), list(zip(MODELS, (1, 3, 3, 1), strict=True)))
def test_a_border_is_one_in_later_pieces_too(name: str, piece: int) -> None:
    model, documents = model_and_documents(name)
    tokens = torch.cat(documents).expand(2, -1)  # one row begins anew where the other goes on
    positions = torch.cat([positions_of(*LENGTHS), positions_of(sum(LENGTHS))])
    held, logits = None, []
    for start in range(0, tokens.shape[1], piece):
        here = slice(start, start + piece)
        options = {"cache": held, "use_cache": True, "solve": TIGHT}
        output = model(tokens[:, here], position_ids=positions[:, here], **options)
        held = output.cache
        logits.append(output.logits)
    expected = torch.stack([alone(model, documents), alone(model, [torch.cat(documents)])])
    torch.testing.assert_close(torch.cat(logits, 1), expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("use_cache", [True, False])
def test_generation_goes_on_with_the_last_document(name: str, use_cache: bool) -> None:
    model, documents = model_and_documents(name)
    options: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "eos_token_id": None}
    expected = model.generate(documents[2][None], **options)[0, LENGTHS[2] :]
    packed = torch.cat(documents[:3])[None]
    found = model.generate(packed, position_ids=positions_of(*LENGTHS[:3]), use_cache=use_cache, **options)
    assert torch.equal(found[0, packed.shape[1] :], expected)


@pytest.mark.parametrize(
    ("borders", "sentence"),
    [
        ({"position_ids": torch.tensor([[0, 1, 7]])}, "position_ids leaves positions out"),
        ({"position_ids": torch.zeros(1, 2).long()}, r"position_ids has shape \(1, 2\)"),
        ({"position_ids": torch.zeros(1, 3)}, "position_ids has dtype torch.float32"),
        ({"cu_seq_lens_q": torch.tensor([0, 2])}, "cu_seq_lens_q is .*; give where documents end"),
        ({"cu_seq_lens_k": torch.tensor([0, 2, 1, 3])}, "cu_seq_lens_k is .*; give where documents end"),
    ],
)
def test_borders_that_do_not_fit_are_one_sentence(borders: dict[str, Any], sentence: str) -> None:
    model = small_model("ExplicitMamba2ForCausalLM")
    with pytest.raises(InputError, match=sentence):
        model(tokens_of(1, 3), **borders)


def test_only_positions_tell_if_a_document_goes_on() -> None:
    model = small_model("ExplicitMamba2ForCausalLM")
    held = model(tokens_of(1, 3), use_cache=True).cache
    with pytest.raises(InputError, match="seq_idx does not tell"):
        model(tokens_of(1, 3), cache=held, seq_idx=torch.zeros(1, 3).long())
