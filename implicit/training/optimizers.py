"""The optimisers of training: AdamW, or Muon for the matrices between embedding and head."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Muon, Optimizer

from automata.errors import InputError
from implicit.cells.window import WindowConvolution
from implicit.config.run import TrainConfig


class MuonAndAdamW(Optimizer):
    """Muon for matrices, AdamW for all other parameters: one optimiser with the groups of both.

    The steps of Muon are scaled to the size of AdamW's (``match_rms_adamw``), which is meant to let one
    learning rate serve both; its momentum is the default of `torch.optim.Muon`. The betas are AdamW's.

    Sources:
        Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; Liu et al. 2025,
        arXiv 2502.16982, for the scale.
    """

    def __init__(
        self,
        matrices: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
        betas: tuple[float, float],
        weight_decay: float,
    ) -> None:
        self._parts: list[Optimizer] = [
            Muon(matrices, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
            AdamW(others, betas=betas, weight_decay=weight_decay),
        ]
        super().__init__([group for part in self._parts for group in part.param_groups], {})
        self._share()

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Take a step of both; a closure is called once, before."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for part in self._parts:
            part.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over groups and states."""
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Let both work on the groups and the state of this one."""
        begin = 0
        for part in self._parts:
            end = begin + len(part.param_groups)
            part.param_groups, part.state = self.param_groups[begin:end], self.state
            begin = end


def make_optimizer(config: TrainConfig, model: nn.Module) -> Optimizer:
    """Return the optimiser of a run.

    Muon takes the matrices that map features to features: parameters of two axes, but for embeddings, for
    short convolutions, whose channels are apart, and for the model's ``head``.
    """
    settings = config.optimizer
    if config.algorithm == "AdamW":
        return AdamW(model.parameters(), betas=settings.betas, weight_decay=settings.weight_decay)
    excluded = {
        id(parameter)
        for name, module in model.named_modules()
        if isinstance(module, nn.Embedding | WindowConvolution) or name == "head"
        for parameter in module.parameters()
    }
    matrices = [part for part in model.parameters() if part.ndim == 2 and id(part) not in excluded]
    if not matrices:
        raise InputError(f"algorithm is Muon, and {config.model} has no matrices for it; give AdamW")
    chosen = {id(part) for part in matrices}
    others = [part for part in model.parameters() if id(part) not in chosen]
    return MuonAndAdamW(matrices, others, settings.betas, settings.weight_decay)
