"""The attention of a Llama block: causal, with rotary positions and heads that share keys and values.

| part of the state | meaning                                                                        |
|-------------------|--------------------------------------------------------------------------------|
| ``keys``          | so far, turned by position, ``[batch, tokens, key_value_heads, head_size]``    |
| ``values``        | likewise, not turned                                                           |
| ``valid``         | real tokens, not padding, ``[batch, tokens]``, bool                            |
| ``position``      | real tokens so far, so the position of the next one, ``[batch]``, int64        |
"""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from automata.checks import by_known_names
from automata.errors import InputError
from implicit.cells.interface import Cell, CellSizes, check_at_least_one
from implicit.cells.plain import like, project
from implicit.ops.hand_written_passes import is_transformed
from theory.transition import State


class AttentionSizes(CellSizes):
    """The sizes of an attention cell."""

    heads: int = Field(4, ge=1, description="heads of queries")
    key_value_heads: int = Field(2, ge=1, description="heads of keys and values; divides heads")
    head_size: int = Field(16, ge=1, description="features of a head, even")
    rope_base: float | None = Field(
        10_000.0, gt=0, description="base of the rotary position embedding; none for no positions"
    )


class AttentionCell(Cell):
    """Scaled dot-product attention over all tokens so far; its state grows by one token with each.

    `AttentionSizes` has the arguments beside ``d_model``, the features of input and output. Each head of keys
    and values serves heads / key_value_heads of the queries. InputError for sizes below 1, that do not
    divide, or an odd head_size.

    Source: Vaswani et al. 2017, arXiv 1706.03762; Ainslie et al. 2023, arXiv 2305.13245 (shared heads).

    Example:
        >>> cell = AttentionCell(8, heads=2, key_value_heads=1, head_size=4)
        >>> outputs, state = cell(torch.ones(3, 5, 8), cell.init_state(3))
        >>> outputs.shape, state["keys"].shape, state["position"]
        (torch.Size([3, 5, 8]), torch.Size([3, 5, 1, 4]), tensor([5, 5, 5]))
    """

    sizes_class = AttentionSizes
    recurrent_parts = ("keys", "values")
    state_grows = True

    @by_known_names
    def __init__(
        self,
        d_model: int,
        heads: int = 4,
        key_value_heads: int = 2,
        head_size: int = 16,
        rope_base: float | None = 10_000.0,
    ) -> None:
        super().__init__()
        check_at_least_one(d_model=d_model, heads=heads, key_value_heads=key_value_heads, head_size=head_size)
        if heads % key_value_heads:
            raise InputError(f"key_value_heads is {key_value_heads}; it must divide heads = {heads}")
        if head_size % 2:
            raise InputError(f"head_size is {head_size}; give an even one, positions turn pairs of features")
        self.heads, self.key_value_heads, self.head_size = heads, key_value_heads, head_size
        self.rope_base = rope_base
        self.injection_size = (heads + 2 * key_value_heads) * head_size
        self.in_proj = nn.Linear(d_model, self.injection_size, bias=False)  # rows: queries, keys, values
        self.out_proj = nn.Linear(heads * head_size, d_model, bias=False)

    def init_state(self, batch_size: int) -> State:
        """Return the state of no tokens."""
        weight = like(self.in_proj, self)
        nothing = weight.new_zeros(batch_size, 0, self.key_value_heads, self.head_size)
        return {
            "keys": nothing,
            "values": nothing.clone(),
            "valid": weight.new_zeros(batch_size, 0, dtype=torch.bool),
            "position": weight.new_zeros(batch_size, dtype=torch.int64),
        }

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences; see `Cell.forward`."""
        length, earlier = inputs.shape[1], state["keys"].shape[1]
        queries, keys, values = self._project(inputs, state, injection)
        real = inputs.new_ones(inputs.shape[:2], dtype=torch.bool) if mask is None else mask
        if mask is not None:  # nothing reads those of padding; so they do not depend on how it was solved
            keys, values = (part.masked_fill(~mask[..., None, None], 0) for part in (keys, values))
        after = {
            "keys": torch.cat([state["keys"], keys], dim=1),
            "values": torch.cat([state["values"], values], dim=1),
            "valid": torch.cat([state["valid"], real], dim=1),
            "position": state["position"] + real.sum(1),
        }
        allowed = None
        if earlier or mask is not None:
            places = torch.arange(earlier + length, device=inputs.device)
            own = places[earlier:, None]
            # Itself too where it is padding: a softmax over nothing is NaN.
            allowed = (after["valid"][:, None] & (places < own)) | (places == own)  # [batch, length, tokens]
        y = attend(queries, after["keys"], after["values"], allowed)
        return project(self.out_proj, y.flatten(2)), after

    def alone(self, inputs: Tensor, state: State, after: State, injection: Tensor | None = None) -> Tensor:
        """Run the cell on every token by itself, behind the keys and values that ``after`` holds before it.

        Inputs and outputs are ``[batch, length, d_model]``.

        Example:
            >>> cell, inputs = AttentionCell(8), torch.ones(1, 3, 8)
            >>> state = cell.init_state(1)
            >>> outputs, after = cell(inputs, state)
            >>> torch.allclose(cell.alone(inputs, state, after), outputs, atol=1e-6)  # float32
            True
        """
        length, earlier = inputs.shape[1], state["keys"].shape[1]
        queries, keys, values = self._project(inputs, state, injection)
        places = torch.arange(earlier + length, device=inputs.device)
        own = places[earlier:, None]
        allowed = torch.cat(
            [after["valid"][:, None] & (places < own), (places[earlier:] == own).expand(len(inputs), -1, -1)],
            dim=-1,
        )
        keys, values = torch.cat([after["keys"], keys], 1), torch.cat([after["values"], values], 1)
        return project(self.out_proj, attend(queries, keys, values, allowed).flatten(2))

    def _project(
        self, inputs: Tensor, state: State, injection: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of the inputs; the first two turned by position, if any."""
        projected = project(self.in_proj, inputs, injection)
        of_heads = projected.unflatten(-1, (-1, self.head_size))
        turned, values = of_heads.split([self.heads + self.key_value_heads, self.key_value_heads], dim=2)
        if self.rope_base is not None:
            positions = state["position"][:, None] + torch.arange(inputs.shape[1], device=inputs.device)
            turned = rotate(turned, rotary_angles(positions, self.head_size, self.rope_base, inputs.dtype))
        queries, keys = turned.split([self.heads, self.key_value_heads], dim=2)
        return queries, keys, values

    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token; see `Cell.step`."""
        outputs, after = self(inputs[:, None], state, None if injection is None else injection[:, None])
        return outputs[:, 0], after

    def states(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        """Refuse: states of different sizes cannot be stacked.

        Always an InputError.
        """
        del inputs, state, injection, mask
        raise InputError(
            "cell is attention, whose state grows with every token, so that its states cannot be stacked; "
            "choose a cell with a state of constant size"
        )


def attend(queries: Tensor, keys: Tensor, values: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Compute softmax(q kᵀ / sqrt(head_size)) v, each head of keys and values for a group of queries' heads.

    Differentiable to any order where gradients are on; without, PyTorch's own op, which keeps no scores. Keys
    and values are ``[batch, tokens, key_value_heads, head_size]``. ``allowed`` says which tokens a query
    attends to, ``[batch, length, tokens]``, at least one; itself and those before it if None.
    """
    length, heads, head_size = queries.shape[1:]
    queries, keys, values = (part.transpose(1, 2) for part in (queries, keys, values))
    group = heads // keys.shape[1]
    if not torch.is_grad_enabled() and not is_transformed((queries, keys, values)):
        keys, values = (part.repeat_interleave(group, dim=1) for part in (keys, values))
        mask = None if allowed is None else allowed[:, None]
        y = functional.scaled_dot_product_attention(queries, keys, values, mask, is_causal=allowed is None)
        return y.transpose(1, 2)
    if allowed is None:
        allowed = torch.ones(length, length, dtype=torch.bool, device=queries.device).tril()[None]
    # The queries of a group stand one after the other, so that keys and values are not copied for each.
    together = queries.reshape(len(queries), -1, group * length, head_size) * head_size**-0.5
    scores = (together @ keys.mT).unflatten(2, (group, length))
    weights = scores.masked_fill(~allowed[:, None, None], -torch.inf).softmax(-1)
    y = weights.flatten(2, 3) @ values
    return y.view(len(y), heads, length, head_size).transpose(1, 2)


def rotary_angles(positions: Tensor, head_size: int, base: float, dtype: torch.dtype) -> Tensor:
    """Return the angles position · base^(−2 i / head_size), ``[..., head_size / 2]``: arXiv 2104.09864."""
    dtype = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, head_size, 2, dtype=dtype, device=positions.device) / head_size
    return positions[..., None].to(dtype) * base**-exponents


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn feature i and feature i + head_size / 2 as one pair, the order of Llama; angles as above."""
    cos, sin = (part.to(x.dtype)[..., None, :] for part in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
