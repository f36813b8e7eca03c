"""Padding and packed documents: stacks read documents in rows of their own, real tokens first."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from automata.checks import check_type, shown
from automata.errors import InputError
from theory.transition import State

LOST = "lost"
"""In a state: whether some token so far has no fixed point, bool ``[batch]``; later tokens rest on it."""


@dataclass
class SequenceState:
    """The state of a batch after its last real tokens: recurrent states, or keys and values.

    `transformers` hands it on as ``cache`` and reorders its rows in a beam search. The state is named tensors
    with a leading batch axis, `LOST` among them; ``seen`` counts tokens so far, padding included; ``mask`` is
    True at real ones, ``[batch, seen]``, or None where all are.

    Example:
        >>> import torch
        >>> held = SequenceState({"ssm.0": torch.tensor([[1.0], [2.0]])}, seen=3)
        >>> held.reorder_cache(torch.tensor([1, 1]))
        >>> held.state["ssm.0"].flatten().tolist(), held.get_seq_length()
        ([2.0, 2.0], 3)
    """

    state: State
    seen: int
    mask: Tensor | None = None

    is_compileable = False
    is_linear = (True,)  # of all layers: `generate` then hands over the whole text, and the model cuts it

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of tokens so far, padding included."""
        del layer_idx
        return self.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep these rows, in this order."""
        self.state = {name: part[beam_idx.to(part.device)] for name, part in self.state.items()}
        if self.mask is not None:
            self.mask = self.mask[beam_idx.to(self.mask.device)]

    def crop(self, max_length: int) -> None:
        """Refuse: a state does not tell what it was some tokens ago.

        Always an InputError.
        """
        raise InputError(
            f"max_length is {max_length}, and a state cannot be cut back; give another assistant_model"
        )


@dataclass(frozen=True)
class Rows:
    """Documents that are read together, one in a row; without fields the batch as it is.

    ``places`` are those of each token in the flattened batch, ``[documents, longest]``, behind a document
    any; ``lengths`` those of the documents; ``sequence`` says in which each stands, and ``fresh`` which begin
    without the state from before.
    """

    places: Tensor | None = None
    lengths: Tensor | None = None
    sequence: Tensor | None = None
    fresh: Tensor | None = None

    def take(self, values: Tensor) -> Tensor:
        """Return the values of a batch, ``[batch, length, …]``, in these rows."""
        return values if self.places is None else values.flatten(0, 1)[self.places]

    def begin(self, earlier: SequenceState | None) -> State | None:
        """Return the state before these documents; 0 is the initial state of every stack here."""
        if earlier is None or self.sequence is None or self.fresh is None:
            return None if earlier is None else {**earlier.state}
        return {
            name: part[self.sequence].masked_fill(self.fresh.view(-1, *[1] * (part.ndim - 1)), 0)
            for name, part in earlier.state.items()
        }


@dataclass(frozen=True)
class Reading:
    """How a batch is read: which tokens are real, which documents they make up, and in which rows those go.

    Documents of like lengths, at most twice as long as the shortest of them, are read together.
    """

    rows: tuple[Rows, ...] = (Rows(),)
    mask: Tensor | None = None  # which tokens are real, bool ``[batch, length]``; None where all are
    predicted: Tensor | None = None  # tokens that follow a real one of their document, likewise

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        attention_mask: Tensor | None = None,
        earlier: SequenceState | None = None,
        **borders: Tensor | None,
    ) -> "Reading":
        """Read a mask, of these tokens or of those read before as well, and where documents begin.

        Borders are ``position_ids``, ``seq_idx``, ``cu_seq_lens_q`` or ``cu_seq_lens_k``.
        """
        given = {name: value for name, value in borders.items() if value is not None}
        if attention_mask is None and not given:
            return cls()
        if not isinstance(tokens, Tensor) or tokens.ndim != 2:
            raise InputError(f"input_ids is {shown(tokens)}; give a tensor, [batch, length]")
        real = torch.ones_like(tokens, dtype=torch.bool)
        if attention_mask is not None:
            real = _real_tokens(tokens, attention_mask, earlier)
        place = real.flatten().nonzero()[:, 0]  # of every real token, in the flattened batch
        sequence = place // tokens.shape[1]
        first = sequence != sequence.roll(1)
        first[:1] = True
        border = torch.zeros_like(first)
        for name, value in given.items():
            border |= _borders(name, value, tokens, place, first, earlier)
        if bool(real.all()) and not bool(border.any()):
            return cls()
        begins = (first | border).nonzero()[:, 0]
        lengths = torch.cat([begins[1:], begins.new_tensor([len(place)])]) - begins
        packed = len(begins) > len(tokens)
        size = lengths.double().frexp().exponent if packed else torch.zeros_like(lengths)
        rows = []
        for one in size.unique():
            chosen = size == one
            inside = torch.arange(int(lengths[chosen].max()), device=tokens.device)
            inside = torch.minimum(inside, lengths[chosen, None] - 1) + begins[chosen, None]
            start = begins[chosen]
            rows.append(Rows(place[inside], lengths[chosen], sequence[start], border[start]))
        goes_on = torch.zeros_like(real).flatten()
        goes_on[place] = ~(first | border)
        goes_on[1:] &= real.flatten()[:-1]  # what is predicted from padding is of no meaning
        return cls(tuple(rows), None if bool(real.all()) else real, goes_on.view_as(real))

    def read_so_far(self, tokens: Tensor, earlier: SequenceState | None) -> Tensor | None:
        """Return which tokens are real, those read before in front, ``[batch, seen]``; None where all are."""
        before = None if earlier is None else earlier.mask
        if before is None and self.mask is None:
            return None
        ones = torch.ones_like(tokens, dtype=torch.bool)
        if earlier is None:
            return self.mask
        if before is None:
            before = ones.new_ones(len(tokens), earlier.seen)
        return torch.cat([before, ones if self.mask is None else self.mask], dim=1)

    def back(self, values: Sequence[Tensor], tokens: Tensor) -> Tensor:
        """Return values of `rows`, ``[documents, longest, …]``, as ``[batch, length, …]``, 0 at padding."""
        if self.rows[0].places is None:
            return values[0]
        flat, places = [], []
        for rows, part in zip(self.rows, values, strict=True):
            assert rows.places is not None and rows.lengths is not None  # noqa: PT018
            real = torch.arange(part.shape[1], device=part.device) < rows.lengths[:, None]
            flat.append(part[real])
            places.append(rows.places[real])
        together = torch.cat(flat)
        there = together.new_zeros(tokens.numel(), *together.shape[1:])
        return there.index_copy(0, torch.cat(places), together).unflatten(0, tokens.shape)

    def after(self, states: Sequence[State], tokens: Tensor) -> State:
        """Return the state after the last document of each sequence, from those after all of `rows`."""
        if self.rows[0].places is None or (len(states) == 1 and len(self.rows[0].places) == len(tokens)):
            return states[0]
        begins = torch.cat([rows.places[:, 0] for rows in self.rows if rows.places is not None])
        sequence = begins // tokens.shape[1]
        order = begins.argsort()
        last = order[torch.bincount(sequence).cumsum(0) - 1]
        return {name: _below([state[name] for state in states])[last] for name in states[0]}


def _below(parts: list[Tensor]) -> Tensor:
    """Parts of states one below the other; keys and values of fewer tokens get others that are not valid."""
    if parts[0].ndim < 2:
        return torch.cat(parts)
    most = max(part.shape[1] for part in parts)
    return torch.cat(
        [functional.pad(part, (0, 0) * (part.ndim - 2) + (0, most - part.shape[1])) for part in parts]
    )


def _real_tokens(tokens: Tensor, attention_mask: Tensor, earlier: SequenceState | None) -> Tensor:
    check_type("attention_mask", attention_mask, Tensor, "give a tensor of 0 and 1, [batch, length]")
    batch, length = tokens.shape
    seen = 0 if earlier is None else earlier.seen
    shapes = {(batch, length), (batch, seen + length)}
    if tuple(attention_mask.shape) not in shapes:
        raise InputError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; give one entry for every token, "
            f"{' or '.join(map(str, sorted(shapes)))}"
        )
    if not bool(((attention_mask == 0) | (attention_mask == 1)).all()):
        raise InputError("attention_mask holds other values than 0 and 1; give 1 for real tokens")
    before, real = attention_mask.bool().split([attention_mask.shape[1] - length, length], dim=1)
    if earlier is not None and before.shape[1]:
        read = torch.ones_like(before) if earlier.mask is None else earlier.mask
        if not torch.equal(before, read):
            raise InputError(
                "attention_mask says otherwise of tokens read before than the mask that they were read "
                "with; read the whole text anew, without cache"
            )
    if not bool(real.any(1).all()):
        row = int((~real.any(1)).nonzero()[0])
        raise InputError(f"attention_mask has no real token in sequence {row}; read it in another batch")
    return real


def _borders(
    name: str, value: Tensor, tokens: Tensor, place: Tensor, first: Tensor, earlier: SequenceState | None
) -> Tensor:
    """Which real tokens begin a document and forget what was before, ``[real tokens]``."""
    check_type(name, value, Tensor, "give a tensor of integers")
    if value.is_floating_point() or value.dtype == torch.bool:
        raise InputError(f"{name} has dtype {value.dtype}; give integers")
    if name != "position_ids" and earlier is not None:
        raise InputError(f"{name} does not tell if the first token goes on with cache; give position_ids")
    if name.startswith("cu_seq_lens"):
        ends = value.tolist() if value.ndim == 1 else []
        if ends[:1] != [0] or ends[-1:] != [tokens.numel()] or ends != sorted(ends):
            raise InputError(f"{name} is {shown(ends)}; give where documents end, 0, …, {tokens.numel()}")
        number = torch.bucketize(place, value.to(place.device), right=True)
    elif value.ndim != 2 or value.shape[1] != tokens.shape[1] or len(value) not in (1, len(tokens)):
        raise InputError(
            f"{name} has shape {tuple(value.shape)}; give one number for every token, {tuple(tokens.shape)}"
        )
    else:
        number = value.to(place.device).expand_as(tokens).flatten()[place]
    step = number - number.roll(1)
    if name != "position_ids":
        return (step != 0) & ~first
    if bool(((step > 1) & (step != place - place.roll(1)) & ~first).any()):  # padding may count
        raise InputError(
            "position_ids leaves positions out, and models here count tokens; let positions grow by 1, and "
            "begin anew with each document"
        )
    anew = (step < 1) & ~first
    return anew if earlier is None else anew | ((number == 0) & first)
