"""Our Mamba-2 cell against the mixer of `transformers` with the same weights, on a CPU.

Beside them the two projections alone, as `torch.nn.Linear` computes them: a cell that does nothing else. One
thread, as in every benchmark here; the mixer runs its PyTorch fallback, the only one that a CPU has.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.cells import PASSES, TOLERANCE, Run, forward, from_rest
from benchmarks.frame import Benchmark, Case, Contender, Headline, require_close
from implicit.cells import Mamba2Cell

SIZES = (
    {"batch": 8, "length": 256, "d_model": 256, "expand": 2, "d_state": 64, "head_size": 64},
    {"batch": 64, "length": 32, "d_model": 32, "expand": 2, "d_state": 16, "head_size": 16},
)
"""A layer of a small language model, and that of the parity recipe."""


def cases() -> Iterator[Case]:
    for sizes in SIZES:
        cell, mixer, inputs = contenders(**sizes)
        projections = Projections(cell)
        for passes in PASSES:
            work: Callable[..., object] = forward if passes == "forward" else forward_backward
            yield Case(
                parameters={"passes": passes, **sizes},
                check=partial(check, cell, mixer, inputs),
                contenders=(
                    Contender("ours", partial(work, cell, from_rest(cell), inputs)),
                    Contender("transformers", partial(work, mixer, mixer, inputs)),
                    Contender("projections alone", partial(work, projections, projections, inputs)),
                ),
                turns=15,
            )


class Projections(nn.Module):
    """The input and the output projection of a cell, one after the other, with the cell's own weights."""

    def __init__(self, cell: Mamba2Cell) -> None:
        super().__init__()
        self.in_proj, self.out_proj, self.d_inner = cell.in_proj, cell.out_proj, cell.d_inner

    def forward(self, inputs: Tensor) -> Tensor:
        return self.out_proj(self.in_proj(inputs)[..., : self.d_inner])


def contenders(
    batch: int, length: int, d_model: int, expand: int, d_state: int, head_size: int
) -> tuple[Mamba2Cell, nn.Module, Tensor]:
    # Imported where it is used: it takes seconds, and the other benchmarks do without.
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    torch.manual_seed(0)
    cell = Mamba2Cell(d_model, d_state, expand=expand, head_size=head_size)
    config = Mamba2Config(
        hidden_size=d_model,
        state_size=d_state,
        expand=expand,
        num_heads=cell.heads,
        head_dim=head_size,
        n_groups=1,
        chunk_size=64,  # ours; the default of 256 would pad short sequences to 256 tokens
        num_hidden_layers=1,
    )
    mixer = Mamba2Mixer(config, 0)
    mixer.load_state_dict(cell.state_dict())
    return cell, mixer, torch.randn(batch, length, d_model)


def forward_backward(layer: nn.Module, run: Run, inputs: Tensor) -> dict[str, Tensor]:
    outputs = run(inputs)
    names, parameters = zip(*layer.named_parameters(), strict=True)
    return {
        "outputs": outputs,
        **dict(zip(names, torch.autograd.grad((outputs**2).sum(), parameters), strict=True)),
    }


def check(cell: Mamba2Cell, mixer: nn.Module, inputs: Tensor) -> None:
    theirs = forward_backward(mixer, mixer, inputs)
    for name, ours in forward_backward(cell, from_rest(cell), inputs).items():
        require_close(f"{name} differs from that of transformers", ours, theirs[name], TOLERANCE)


BENCHMARK = Benchmark(
    "mamba2_cell",
    "Our Mamba-2 cell, the mixer of transformers with its weights, and its projections",
    cases,
    checked="outputs and gradients of all parameters equal to 1e-4",
    headlines=tuple(
        Headline(
            f"Mamba-2 cell, {passes}, {sizes['batch']} x {sizes['length']} tokens, d = {sizes['d_model']}",
            more,
            less,
            {"passes": passes, **sizes},
            aim=aim,
        )
        for more, less, of, aim in (
            ("transformers", "ours", SIZES, "at least 2"),
            ("ours", "projections alone", SIZES[:1], "at most 1.6"),
        )
        for sizes in of
        for passes in PASSES
    ),
)
