"""A penalty that asks, at the states of a batch, that Φ maps all latents into a small ball.

Centres and radii enclose what the block computes for all latents at once (Gowal et al. 2018, arXiv
1810.12715). It is the first of the two bounds of `implicit.enclosed.image_ball`, without the ε of the norms;
a penalty of 0 proves nothing.
"""

import math

import torch
from pydantic import Field, NonNegativeFloat
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.penalties.interface import Penalty, Solved
from theory.transition import State

SILU_SLOPE = 1.1
"""|silu'| is nowhere larger than 1.0999."""
GOAL = 0.2
"""Ratio below which a ball costs nothing: the latents have to tell the answers apart."""
TINY = 1e-6
"""Instead of a norm of zero in a quotient."""
Interval = tuple[Tensor, Tensor]
"""Centres and radii."""


class ImageBall(Penalty):
    """How far the images of all latents lie apart, for the size of what the block adds to its stream.

    With u(z) what the block adds to its residual stream at the state before a token, let R bound |z + u(z) −
    u(0)| / |u(0)| over all latents z that the last norm can give, the ε of the norms left out. The penalty is
    the mean over real tokens of the logarithm of R / 0.2 where that is positive. States are taken as given,
    from latents that are fixed points without gradient.
    """

    weight: NonNegativeFloat = Field(
        default=0.0,
        description="weight of the image ball penalty, which bounds the images of all latents, the epsilon "
        "of the norms left out, in the free phase; for implicit-mamba2 with one layer and no MLP; 0 for none",
    )

    def check(self, model: SequenceModel) -> None:
        """Refuse models without a bound."""
        one_mamba2_layer(model)

    def measure(self, solved: Solved) -> Tensor:
        """Return the mean logarithm of the bound."""
        model, cell = one_mamba2_layer(solved.model)
        tokens, mask = solved.tokens, solved.solution.mask
        with torch.no_grad():
            states = model.states_at(tokens, solved.latents, solved.state, solved.lengths)
            visited = {name: part[:, :-1] for name, part in states.items()}
        (norm,), (injection,) = model.norms, model.injections
        entering = injection(model.embedding_norm(model.embedding(tokens)))
        rows = (cell.in_proj.weight * norm.weight).norm(dim=1) * math.sqrt(cell.in_proj.in_features)
        gated, off = _gated(cell, (entering, rows.expand_as(entering)), visited)
        groups = (*gated.shape[:-1], cell.groups, -1)
        size = gated.reshape(groups).norm(dim=-1, keepdim=True)
        # |v/|v| − v₀/|v₀|| ≤ 2 |v − v₀| / |v₀|
        turned = 2 * off.reshape(groups).norm(dim=-1) / size[..., 0].clamp_min(TINY)
        spread = turned.norm(dim=-1) * math.sqrt(cell.d_inner / cell.groups)
        weighted = (cell.out_proj.weight * cell.norm.weight).to(gated)  # of a state in float32
        added = functional.linear((gated.reshape(groups) / size.clamp_min(TINY)).flatten(-2), weighted)
        added = added * math.sqrt(cell.d_inner / cell.groups)
        moved = torch.linalg.matrix_norm(weighted, 2) * spread
        if model.residual:
            moved = moved + model.latent_norm.weight.abs().max() * math.sqrt(cell.in_proj.in_features)
        ratio = moved / added.norm(dim=-1).clamp_min(TINY)
        penalty = torch.log((ratio / GOAL).clamp_min(1.0))
        return penalty.mean() if mask is None else penalty[mask].mean()


PENALTY = ImageBall


def one_mamba2_layer(model: SequenceModel) -> tuple[ImplicitModel, Mamba2Cell]:
    """Return an implicit model of one Mamba-2 layer, and its cell; refuse others, which have no bounds."""
    cells = model.cells if isinstance(model, ImplicitModel) else []
    found = f"{getattr(model, 'name', type(model).__name__)} with {len(cells)} layers"
    if isinstance(model, ImplicitModel) and len(cells) == 1 and isinstance(cells[0], Mamba2Cell):
        if not model.mlps:
            return model, cells[0]
        found = f"{model.name} with an MLP"
    raise InputError(
        f"image_ball_weight is set, but the model is {found}; give implicit-mamba2 with a single layer and "
        "no MLP, or leave it out"
    )


def _gated(cell: Mamba2Cell, projected: Interval, state: State) -> Interval:
    """Return the input of the gated norm, y silu(gate), ``[batch, length, d_inner]``."""
    centre, radius = projected
    widths = [cell.d_inner, cell.conv_channels, cell.heads]
    (gate, channels, dt), (gate_off, channels_off, dt_off) = (
        part.split(widths, dim=-1) for part in (centre, radius)
    )
    taps = cell.conv1d.weight[:, 0]
    convolved = channels * taps[:, -1] + cell.conv_bias
    if cell.d_conv > 1:
        convolved = convolved + (state["conv.0"] * taps[:, :-1]).sum(-1)
    parts = [cell.d_inner, cell.groups * cell.d_state, cell.groups * cell.d_state]
    values = functional.silu(convolved).split(parts, dim=-1)
    offs = (SILU_SLOPE * taps[:, -1].abs() * channels_off).split(parts, dim=-1)
    shape = (*centre.shape[:-1], cell.heads, 1, 1)
    step = functional.softplus(dt + cell.dt_bias).reshape(shape), dt_off.reshape(shape)
    rate = cell.A_log.exp().reshape(-1, 1, 1)
    decay = torch.exp(-rate * step[0]), rate * step[1]
    heads = (*centre.shape[:-1], cell.heads, cell.head_size, 1)
    x = values[0].reshape(heads), offs[0].reshape(heads)
    per_group = cell.heads // cell.groups
    grouped = (*centre.shape[:-1], cell.groups, 1, cell.d_state)
    B, C = (
        tuple(part.reshape(grouped).repeat_interleave(per_group, dim=-3) for part in (values[k], offs[k]))
        for k in (1, 2)
    )
    h = state["ssm.0"]
    kept = decay[0] * h, decay[1] * h.abs()
    written = _times(_times(step, x), (B[0], B[1]))
    read = _times((kept[0] + written[0], kept[1] + written[1]), (C[0], C[1]))
    skip = cell.D.reshape(-1, 1)
    y = read[0].sum(-1) + skip * x[0][..., 0], read[1].sum(-1) + skip.abs() * x[1][..., 0]
    flat = y[0].flatten(-2), y[1].flatten(-2)
    return _times(flat, (functional.silu(gate), SILU_SLOPE * gate_off))


def _times(left: Interval, right: Interval) -> Interval:
    """Return the product."""
    (a, r), (b, s) = left, right
    return a * b, a.abs() * s + b.abs() * r + r * s
