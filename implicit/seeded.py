"""Random weights from a generator of their own: the global one is shared by all threads."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

_DRAWS = frozenset(
    (
        *("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"),
        *("rand_like", "randn_like", "randint_like"),
        *("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "geometric_"),
        *("log_normal_", "kaiming_uniform_"),  # of torch.nn.init, which hides the draw within
    )
)


class Seeded(TorchFunctionMode):
    """A context whose draws are those after ``torch.manual_seed``, with the global generator left alone.

    It holds for its own thread. Draws that PyTorch makes within other operations, as dropout does, are not
    among them.

    Args:
        seed: of the draws.

    Example:
        >>> with Seeded(3):
        ...     drawn = torch.nn.Linear(2, 2).weight
        >>> _ = torch.manual_seed(3)
        >>> torch.equal(torch.nn.Linear(2, 2).weight, drawn)
        True
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.generators: dict[torch.device, torch.Generator] = {}

    def __torch_function__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of PyTorch, one that draws with the generator of its device."""
        del types
        options = dict(kwargs or {})
        if getattr(func, "__name__", None) in _DRAWS and options.get("generator") is None:
            tensors = (value for value in (*args, *options.values()) if isinstance(value, Tensor))
            first = next(tensors, None)
            device = options.get("device") or torch.get_default_device() if first is None else first.device
            if torch.device(device).type != "meta":
                options["generator"] = self._generator(torch.device(device))
        return func(*args, **options)

    def _generator(self, device: torch.device) -> torch.Generator:
        if device not in self.generators:
            self.generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self.generators[device]
