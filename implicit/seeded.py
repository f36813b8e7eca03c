"""Random weights from a generator of their own: the global one is shared by all threads."""

import math
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_ONE_AT_A_TIME = threading.RLock()


class Seeded(TorchDispatchMode):
    """A context whose draws are those after ``torch.manual_seed``, with the global generator left alone.

    It holds for its own thread, and for operations that take a generator, as those of initial weights do.
    Others raise; a user's code, which may call them or seed itself, is run in `seeded_code`.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # asked by PyTorch, which would import its compiler: 1.5 s
        return False

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = seed
        self.generators: dict[torch.device, Generator] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an operation of PyTorch, one that draws with the generator of its device."""
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded in func.tags and options.get("generator") is None:
            like = next((value.device for value in args if isinstance(value, Tensor)), "cpu")
            device = torch.device(options.get("device") or like)
            if device.type != "meta":
                if device not in self.generators:
                    self.generators[device] = Generator(device).manual_seed(self.seed)
                options["generator"] = self.generators[device]
                name = func._overloadname
                name = "generator" if name == "default" else f"{name}_generator"
                func = getattr(func.overloadpacket, name, func)  # the form that takes a generator
        return func(*args, **options)


MOST_ENTRIES = 2**26
"""The entries of the largest tensor that is made without its numbers: some are filled with ones, 256 MiB."""


class Undrawn(Seeded):
    """A context in which nothing is drawn: weights have shapes, and little memory that anybody has touched.

    RuntimeError for a tensor of more than `MOST_ENTRIES`.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an operation of PyTorch, unless it draws."""
        options = dict(kwargs or {})
        sizes = args[0] if args and isinstance(args[0], list | tuple) else args
        if math.prod(number for number in sizes if isinstance(number, int)) > MOST_ENTRIES:
            raise RuntimeError("a tensor of so many entries is not made to see its shape")
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **options)
        if isinstance(args[0], Tensor):  # in place, as `normal_`
            return args[0]
        return torch.empty(args[0], dtype=options.get("dtype"), device=options.get("device"))


@contextmanager
def seeded_code(seed: int) -> Iterator[None]:
    """Seed the draws of a user's code, from the global generators of PyTorch, NumPy and Python.

    Their states are given back at the end. One context at a time is open in a process, and other threads wait
    for it. A thread that draws from a global generator outside of such a context takes from its draws.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices):
        before = random.getstate(), np.random.get_state()  # noqa: NPY002
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002
