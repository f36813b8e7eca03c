"""Generation by language models, with a cache and without, and padding wherever it stands."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.fixed_point import FixedPointError, Stopping
from implicit.modes import Solve
from tests.implicit.language.small_language_models import (
    END,
    IMPLICIT,
    MODELS,
    PAD,
    TIGHT,
    small_model,
    tokens_of,
)

SEARCHES: list[dict[str, Any]] = [{"do_sample": False}, {"num_beams": 3}, {"do_sample": True, "top_k": 5}]


# Every model with one way to search, and the implicit Mamba-2 with all.
@pytest.mark.parametrize(
    ("name", "search"),
    [*zip(MODELS, [*SEARCHES, SEARCHES[1]], strict=True), *((IMPLICIT[0], way) for way in SEARCHES[1:])],
)
def test_generation_with_the_cache_is_generation_without(name: str, search: dict[str, Any]) -> None:
    model, tokens = small_model(name).double(), tokens_of(2, 5)
    found = []
    for use_cache in (True, False):
        torch.manual_seed(3)
        found.append(model.generate(tokens, max_new_tokens=7, use_cache=use_cache, **search))
    assert found[0].shape[1] > 5
    assert torch.equal(*found)


def test_what_forward_takes_can_be_given_to_generate() -> None:
    """A solve, as warnings of lost fixed points advise, and labels, as `Seq2SeqTrainer` does."""
    model, tokens = small_model(IMPLICIT[0]).double(), tokens_of(2, 5)
    found = model.generate(tokens, max_new_tokens=4, do_sample=False, solve=TIGHT, labels=tokens)
    assert torch.equal(found, model.generate(tokens, max_new_tokens=4, do_sample=False))
    model.config.unconverged = "raise"
    short = Solve("sequential", stopping=Stopping(rtol=1e-11, max_iterations=1))
    with pytest.raises(FixedPointError):
        model.generate(tokens, max_new_tokens=4, do_sample=False, solve=short)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("left", [True, False])
def test_padding_on_either_side_changes_nothing(name: str, left: bool) -> None:
    model, tokens = small_model(name).double(), tokens_of(2, 6)
    mask = torch.ones_like(tokens)
    mask[1, slice(0, 2) if left else slice(4, 6)] = 0
    padded = tokens.masked_fill(mask == 0, PAD)
    alone = [model(tokens[row : row + 1, mask[row] == 1]) for row in range(2)]
    together = model(padded, attention_mask=mask)
    for row, one in enumerate(alone):
        # rounding of float64, which the iteration does not amplify where it contracts
        torch.testing.assert_close(together.logits[row, mask[row] == 1], one.logits[0], rtol=0, atol=1e-10)
        if one.iterations is not None:
            assert torch.equal(together.iterations[row, mask[row] == 1], one.iterations[0])
            assert (together.iterations[row, mask[row] == 0] == 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_with_padding_generates_what_each_sequence_does(name: str) -> None:
    model, tokens = small_model(name).double(), tokens_of(3, 7)
    lengths = (7, 4, 1)
    mask = torch.stack([torch.arange(7) >= 7 - length for length in lengths]).long()
    padded = tokens.masked_fill(mask == 0, PAD)
    for beams in (1, 3):  # which reorder the rows of the cache
        options: dict[str, Any] = {"max_new_tokens": 4, "num_beams": beams, "eos_token_id": None}
        together = model.generate(padded, attention_mask=mask, do_sample=False, **options)
        for row, length in enumerate(lengths):
            alone = model.generate(tokens[row : row + 1, 7 - length :], do_sample=False, **options)
            assert torch.equal(together[row, 7 - length :], alone[0])


@torch.no_grad()
def test_tokens_behind_one_without_a_fixed_point_are_told_across_a_cache() -> None:
    """Untrained weights, of which some tokens have no fixed point; beams and padding move rows."""
    model = small_model("ImplicitMamba2ForCausalLM", 1.0, max_iterations=60, unconverged="ignore")
    tokens = tokens_of(16, 10)
    mask = torch.ones_like(tokens)
    mask[3, :2] = 0
    whole = model(tokens, attention_mask=mask).status
    first = model(tokens[:, :5], attention_mask=mask[:, :5], use_cache=True)
    order = torch.arange(16).flip(0)
    first.cache.reorder_cache(order)
    second = model(tokens[order, 5:], cache=first.cache, use_cache=True)
    third = model(tokens[order, :1], cache=second.cache)
    assert torch.equal(second.status, whole[order, 5:])
    lost = whole[order, -1] != 0
    assert bool(lost.any())
    assert bool((third.status[lost, 0] != 0).all())


def test_generation_ends_with_the_end() -> None:
    model, tokens = small_model("ExplicitMamba2ForCausalLM"), tokens_of(1, 3)
    with torch.no_grad():
        model.model.embedding.weight[END] = 100 * model(tokens, output_latents=True).latents[0, -1]
    assert model.generate(tokens, max_new_tokens=9, do_sample=False).tolist() == [[*tokens[0].tolist(), END]]


@torch.no_grad()
def test_the_implicit_llama_reads_a_prompt_at_once_where_that_converges() -> None:
    model, tokens = small_model("ImplicitLlamaForCausalLM", 3.0).double(), tokens_of(3, 12, seed=2)
    sweeps: list[int] = []
    assert model.model.latent_norm is not None
    model.model.latent_norm.register_forward_hook(lambda *given: sweeps.append(given[1][0].shape[1]))
    found = model(tokens)
    assert set(sweeps) == {12}
    sequential = model(tokens, solve=replace(model.solve, mode="sequential"))
    torch.testing.assert_close(found.logits, sequential.logits, rtol=0, atol=0.02)  # of order one, to 0.001
    # too few iterations for all tokens together: those sequences have the answer of the sequential mode
    few = Stopping(rtol=1e-3, max_iterations=int(sequential.iterations.max()))
    cut = model(tokens, solve=Solve(stopping=few))
    sequential = model(tokens, solve=Solve("sequential", stopping=few))
    assert (found.iterations > few.max_iterations).any(1).tolist() == [True, False, False]
    assert bool((cut.status == 0).all())
    torch.testing.assert_close(cut.logits, sequential.logits, rtol=0, atol=0.02)


@torch.no_grad()
def test_a_prompt_has_the_answer_that_its_tokens_have_one_by_one() -> None:
    """Weights of more fixed points than one, and tokens without any; padding on both sides."""
    model = small_model(
        "ImplicitLlamaForCausalLM", 3.0, rtol=1e-7, max_iterations=80, unconverged="ignore"
    ).double()
    for name, parameter in model.named_parameters():
        if "mixers" in name or "mlp" in name:
            parameter.mul_(1.6)
    tokens = tokens_of(12, 8, seed=8)
    mask = torch.ones_like(tokens)
    mask[3, :4] = mask[5, :1] = mask[7, -3:] = 0
    evaluations: list[int] = []
    assert model.model.latent_norm is not None
    model.model.latent_norm.register_forward_hook(lambda *_: evaluations.append(1))
    found = model(tokens, attention_mask=mask)
    taken = len(evaluations)
    together = model(tokens, attention_mask=mask, solve=replace(model.solve, mode="simultaneous"))
    evaluations.clear()
    sequential = model(tokens, attention_mask=mask, solve=replace(model.solve, mode="sequential"))
    # all tokens together, each on its own, and rows that fail in one batch: not row by row
    assert taken <= 80 + 80 + len(evaluations) + 10
    assert torch.equal(found.status, sequential.status)
    converged = found.status == 0
    assert 0.2 < converged.double().mean() < 0.9
    other = (together.logits - sequential.logits).abs().amax(-1)[converged & (together.status == 0)]
    assert other.max() > 0.01  # so that something is to be told apart
    # 20 tolerances of 1e-7, and what the head makes of them
    close: Any = {"rtol": 0, "atol": 1e-4}
    torch.testing.assert_close(found.logits[converged], sequential.logits[converged], **close)
    shorter = model(tokens[:, :6], attention_mask=mask[:, :6])
    same = shorter.status == 0
    torch.testing.assert_close(shorter.logits[same], found.logits[:, :6][same], **close)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_a_mask_of_what_was_read_has_to_be_that_of_the_reading(name: str) -> None:
    model, tokens = small_model(name).double(), tokens_of(2, 9)
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    options = {"use_cache": True, "solve": TIGHT}
    first = model(tokens[:, :5], attention_mask=mask[:, :5], **options)
    assert first.cache is not None
    rest = model(tokens[:, 5:], attention_mask=mask, cache=first.cache, **options)
    alone = model(tokens[1:, 2:], solve=TIGHT)
    torch.testing.assert_close(rest.logits[1], alone.logits[0, 3:], rtol=0, atol=1e-8)
    assert rest.cache is not None
    assert torch.equal(rest.cache.mask, mask.bool())
    other = mask.clone()
    other[0, 4] = 0
    with pytest.raises(InputError, match="says otherwise of tokens read before"):
        model(tokens[:, 5:], attention_mask=other, cache=first.cache)


def test_generation_refuses_padding_on_the_right_and_texts_already_read() -> None:
    model, tokens = small_model("ExplicitMamba2ForCausalLM"), tokens_of(2, 5)
    mask = torch.ones_like(tokens)
    mask[1, 3:] = 0
    with pytest.raises(InputError, match="attention_mask ends with padding; to generate, pad on the left"):
        model.generate(tokens, attention_mask=mask, max_new_tokens=2)
    held = model(tokens, use_cache=True).cache
    with pytest.raises(InputError, match="input_ids has 5 tokens, of which cache has read 5"):
        model.generate(tokens, cache=held, max_new_tokens=2)


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_padding_is_in_no_loss_nor_is_what_is_predicted_from_it(name: str) -> None:
    model, tokens = small_model(name), tokens_of(1, 5)
    alone = float(model(tokens, labels=tokens).loss)
    for left in (True, False):
        pad = torch.zeros(1, 2, dtype=torch.int64)
        padded = torch.cat([pad, tokens] if left else [tokens, pad], 1)
        mask = torch.cat([pad, torch.ones_like(tokens)] if left else [torch.ones_like(tokens), pad], 1)
        loss = float(model(padded, attention_mask=mask, labels=padded).loss)
        assert loss == pytest.approx(alone, rel=1e-5)  # float32


@pytest.mark.parametrize("name", IMPLICIT)
def test_a_start_is_that_of_its_token_wherever_padding_stands(name: str) -> None:
    model, tokens = small_model(name), tokens_of(2, 6)
    mask = torch.ones_like(tokens)
    mask[1, :3] = 0
    with torch.no_grad():
        found = model(tokens, attention_mask=mask, output_latents=True)
        solve = Solve("sequential", stopping=Stopping(rtol=1e-2), start=found.latents)
        again = model(tokens, attention_mask=mask, solve=solve)
    assert again.iterations[mask == 1].max() == 1


@torch.no_grad()
def test_a_loose_tolerance_does_not_pass_for_the_sequential_answer() -> None:
    """Twenty tolerances of 0.05 are as long as a latent, and tell no fixed points apart."""
    options: dict[str, Any] = {"rtol": 0.05, "max_iterations": 60, "unconverged": "ignore"}
    model = small_model("ImplicitLlamaForCausalLM", 3.0, **options)
    assert model.solve is not None
    tokens = tokens_of(4, 8)
    sequential = model(tokens, solve=replace(model.solve, mode="sequential"))
    assert torch.equal(model(tokens).logits, sequential.logits)
