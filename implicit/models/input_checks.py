"""Checks of tokens, lengths and states that `run`, `step` and `transitions` of a model are given."""

from typing import Any

import torch
from torch import Tensor

from automata.checks import check_memory, check_type, shown
from automata.errors import InputError
from implicit.fixed_point.loop import autocasts
from implicit.ops.hand_written_passes import is_recorded
from theory.transition import State


def check_is_tensor(field: str, value: object) -> None:
    """Refuse what is no tensor, and say how to make one."""
    check_type(field, value, Tensor, f"give an int64 tensor, torch.as_tensor({field})")


def check_tokens(tokens: Tensor, vocabulary_size: int, device: torch.device) -> None:
    """Refuse tokens that a model cannot read."""
    check_is_tensor("tokens", tokens)
    if tokens.dtype not in (torch.int64, torch.int32):
        raise InputError(f"tokens has dtype {tokens.dtype}; give int64, tokens.long()")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise InputError(
            f"tokens has shape {tuple(tokens.shape)}; give [batch, length] with at least one of each"
        )
    _check_device("tokens", tokens, device)
    if tokens.is_meta or is_recorded():  # there are no numbers
        return
    smallest, largest = (int(bound) for bound in torch.aminmax(tokens))
    if smallest < 0 or largest >= vocabulary_size:
        wrong = smallest if smallest < 0 else largest
        raise InputError(
            f"token {wrong} is outside the vocabulary; give tokens from 0 to {vocabulary_size - 1}"
        )


def as_column(token: Tensor) -> Tensor:
    """Return the tokens of one step, ``[batch]``, as sequences of one token, ``[batch, 1]``."""
    check_is_tensor("token", token)
    if token.ndim != 1:
        raise InputError(f"token has shape {tuple(token.shape)}; give one token per sequence, [batch]")
    return token[:, None]


def mask_of(tokens: Tensor, lengths: Tensor | list[int] | tuple[int, ...] | None) -> Tensor | None:
    """Return which tokens are real, bool ``[batch, length]``, or None if all are; lengths may be a list."""
    if lengths is None:
        return None
    batch, length = tokens.shape
    if isinstance(lengths, list | tuple):
        for number in lengths:
            if type(number) is not int or not 1 <= number <= length:
                raise InputError(f"lengths holds {shown(number)}; give numbers in 1 … {length}")
        lengths = torch.tensor(lengths, dtype=torch.int64)
    check_is_tensor("lengths", lengths)
    if lengths.shape == tokens.shape and bool(((lengths == 0) | (lengths == 1)).all()):
        lengths = lengths.bool()  # an attention mask, as tokenizers give it
    if lengths.dtype == torch.bool:
        if lengths.shape != tokens.shape:
            raise InputError(
                f"lengths is a mask of shape {tuple(lengths.shape)}; give that of tokens, {(batch, length)}"
            )
        counts = lengths.sum(dim=1)
        if not bool((lengths.cummin(dim=1).values == lengths).all()):
            raise InputError(
                "lengths is a mask with padding before a real token; put padding behind the sequences"
            )
    else:
        counts = lengths
        if lengths.shape != (batch,) or lengths.is_floating_point():
            raise InputError(
                f"lengths has shape {tuple(lengths.shape)} and dtype {lengths.dtype}; "
                f"give int64 of shape {(batch,)}, or a mask of that of tokens"
            )
    if not bool(((counts >= 1) & (counts <= length)).all()):
        wrong = counts[(counts < 1) | (counts > length)][0].item()
        raise InputError(f"lengths holds {wrong}; give numbers in 1 … {length}")
    if bool((counts == length).all()):
        return None
    return torch.arange(length, device=tokens.device) < counts[:, None].to(tokens.device)


def check_state(state: State, expected: State, model: str, *, grows: bool) -> None:
    """Refuse a state that is not one of a model for a batch; ``expected`` is its initial one.

    Parts of a state that grows, as those of attention do, may have other sizes than at first.
    """
    remedy = f"give a state that {model} returned, or leave it out for the initial one"
    check_type("state", state, dict, remedy)
    for name in (*expected, *state):
        if name not in state or name not in expected:
            raise InputError(
                f"state has the parts {', '.join(sorted(map(str, state))) or 'none'}; "
                f"a state of {model} has {', '.join(sorted(expected))}"
            )
    for name, part in state.items():
        like = expected[name]
        if not isinstance(part, Tensor):
            raise InputError(f"state: part {name} is {shown(part)}; {remedy}")
        fits = part.ndim > 0 and len(part) == len(like) and (grows or part.shape == like.shape)
        if not fits:
            raise InputError(
                f"state holds {name} of shape {tuple(part.shape)}; "
                f"{model} needs {tuple(like.shape)} for {len(like)} sequences"
            )
        # Under autocast a model returns states of a lower precision than its weights.
        if part.dtype != like.dtype and not autocasts(like):
            raise InputError(
                f"state holds {name} of dtype {part.dtype}, and init_state of {model} returns {like.dtype}; "
                "let an init_state of your own make the dtype of the weights, or convert the state with "
                f".to({like.dtype})"
            )
        _check_device(f"state part {name}", part, like.device)


def check_fits(tokens: Tensor, config: Any, device: torch.device) -> None:
    """Refuse sequences whose outputs alone do not fit into the memory of the device.

    The ``output_size`` of the configuration, and its ``d_model`` if it has one, are counted.
    """
    numbers = config.output_size + int(getattr(config, "d_model", 0))
    available = None
    if device.type == "cuda":
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        available = torch.cuda.mem_get_info(device)[0] + reserved
    check_memory(
        f"tokens of shape {tuple(tokens.shape)}",
        tokens.numel() * numbers * torch.finfo(torch.float32).bits // 8,
        "give fewer sequences at a time, or read them in parts: run takes the state that it returned",
        available,
    )


def _check_device(field: str, tensor: Tensor, device: torch.device) -> None:
    if tensor.device.type != device.type or (device.index is not None and tensor.device != device):
        raise InputError(
            f"{field} is on {tensor.device} and the model on {device}; move one of them with .to(...)"
        )
