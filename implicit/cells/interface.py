"""The interface of every cell: one recurrent layer, over whole sequences and over single tokens.

A state is named tensors with a leading batch axis. An injection is what an implicit model adds to the input
projection.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from automata.checks import check_integer
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from theory.transition import State

Given = TypeVar("Given", Tensor, None, Tensor | None)


class CellSizes(CheckedConfig):
    """The sizes and options of a cell, beside the width of the model; every cell class has its own.

    The fields are the keyword arguments of the cell's constructor; each has a default and a description.

    Example:
        >>> class Sizes(CellSizes):
        ...     d_state: int = 16
        >>> Sizes(d_state=8)
        Sizes(d_state=8)
    """


def check_at_least_one(**sizes: int) -> None:
    """Refuse sizes below 1, naming the first."""
    for name, size in sizes.items():
        check_integer(name, size, 1)


class Cell(nn.Module, ABC):
    """One recurrent layer, a map of (inputs, state) to (outputs, state).

    `forward` over a sequence equals the scan of `step` over its tokens, from any state. A stack of cells run
    once is an explicit model; iterated to a fixed point, with injections, it is the implicit twin.

    Class attributes:
        sizes_class: the `CellSizes` whose fields are the keyword arguments of the constructor.
        recurrent_parts: the parts of the state that make up h, the state of Theorem 1; the others, such as
            the window of a short convolution, are held fixed where the theorem is checked.
        state_grows: whether the state grows with every token, as that of attention does.
        linear_in_state: whether the recurrent parts after a step are affine in those before it, the inputs
            and the other parts held fixed: h ← A h + b.

    Attributes:
        injection_size: features of the injection.

    Example:
        >>> from implicit.cells import Mamba2Cell
        >>> cell = Mamba2Cell(8, d_state=4, head_size=4)
        >>> outputs, state = cell(torch.ones(2, 5, 8), cell.init_state(2))
        >>> outputs.shape, sorted(state), cell.recurrent_parts
        (torch.Size([2, 5, 8]), ['conv', 'ssm'], ('ssm',))
    """

    sizes_class: ClassVar[type[CellSizes]]
    recurrent_parts: ClassVar[tuple[str, ...]]
    state_grows: ClassVar[bool] = False
    linear_in_state: ClassVar[bool] = False
    injection_size: int

    @abstractmethod
    def init_state(self, batch_size: int) -> State:
        """Return the state before the first token: named tensors with a leading batch axis."""

    def forward(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run the cell over whole sequences: here the scan of `step`, which a faster form overrides.

        Args:
            inputs: ``[batch, length, d_model]``.
            state: before the first token.
            injection: ``[batch, length, injection_size]``, added to the input projection; nothing if None.
            mask: which tokens are real, ``[batch, length]``, bool, False only behind the last real token of
                a sequence; all of them if None. Padding leaves the state as it is; its outputs are finite
                and of no meaning.

        Returns:
            Outputs, ``[batch, length, d_model]``, and the state after the last real token.
        """
        if self.state_grows and mask is not None:
            name = type(self).__name__
            raise InputError(f"the state of {name} grows, so its scan takes no padding; write a forward")
        outputs = []
        for t in range(inputs.shape[1]):
            given = for_code_of(self, state, None if injection is None else injection[:, t])
            output, after = self.step(inputs[:, t], *given)
            state = after if mask is None else keep_where(mask[:, t], after, state)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state

    @abstractmethod
    def step(self, inputs: Tensor, state: State, injection: Tensor | None = None) -> tuple[Tensor, State]:
        """Run the cell on one token: `forward` without the axis of length and without a mask.

        Return the outputs, ``[batch, d_model]``, and the state after the token.
        """

    def states(
        self, inputs: Tensor, state: State, injection: Tensor | None = None, mask: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last, each part ``[batch, length + 1, …]``.

        Here the scan of `step`; a cell with a faster form overrides it. It takes what `forward` takes.
        """
        visited = [state]
        for t in range(inputs.shape[1]):
            after = step_of(self, inputs[:, t], state, None if injection is None else injection[:, t])[1]
            state = after if mask is None else keep_where(mask[:, t], after, state)
            visited.append(state)
        return {name: torch.stack([entry[name] for entry in visited], dim=1) for name in state}

    def output_with_derivative(
        self, inputs: Tensor, state: State, injection: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """Return the output of `step`, ``[batch, d_model]``, and its derivative in the inputs, written out.

        The derivative is ``[batch, d_model, d_model]``, rows for outputs, the state held fixed. Return None
        where automatic differentiation has to find it.
        """
        del inputs, state, injection
        return None


def has_hooks(module: nn.Module) -> bool:
    """Return whether calling a module does more than its class says.

    Example:
        >>> layer = nn.Linear(1, 1)
        >>> hook = layer.register_forward_hook(lambda *_: None)
        >>> has_hooks(layer), has_hooks(nn.Linear(1, 1))
        (True, False)
    """
    return has_own_hooks(module) or bool(_has_any_global_hook())


def has_own_hooks(module: nn.Module) -> bool:
    """Return whether hooks were given to this module, or its ``forward`` was replaced on the object."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or "forward" in module.__dict__  # as accelerate does
    )


def step_of(
    cell: Cell, inputs: Tensor, state: State, injection: Tensor | None = None
) -> tuple[Tensor, State]:
    """Run `Cell.step`; a cell with hooks is called instead, on sequences of one token, so that they fire."""
    state, injection = for_code_of(cell, state, injection)
    if not has_hooks(cell):
        return cell.step(inputs, state, injection)
    outputs, after = cell(inputs[:, None], state, None if injection is None else injection[:, None])
    return outputs[:, 0], after


def is_ours(thing: object) -> bool:
    """Return whether the class of an object is one of this package, which its tests hold to the contract."""
    return type(thing).__module__.startswith("implicit.")


def check_methods(kind: type) -> None:
    """Refuse a class of a user's that lacks methods of the class of this package that it extends.

    Example:
        >>> check_methods(type("Mine", (Cell,), {"step": None, "__module__": "mine"}))
        Traceback (most recent call last):
        automata.errors.InputError: Mine lacks init_state; a Cell has the methods init_state, step ...
    """
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        base: Any = next(base for base in kind.__mro__ if base.__module__.startswith("implicit."))
        page = "your_own_cell" if issubclass(base, Cell) else "extending"
        raise InputError(
            f"{kind.__name__} lacks {', '.join(missing)}; a {base.__name__} has the methods "
            f"{', '.join(sorted(base.__abstractmethods__))} (docs/{page}.md)"
        )


def for_code_of(owner: object, state: State, read: Given) -> tuple[State, Given]:
    """Return a state, and what is read beside it, as they may be given to the methods of an object.

    A user's class may write into them and gets copies. Classes of this package write into neither.

    Example:
        >>> given = {"h": torch.zeros(1)}
        >>> for_code_of(nn.Linear(1, 1), given, None)[0]["h"].add_(1), given["h"]
        (tensor([1.]), tensor([0.]))
    """
    if is_ours(owner):
        return state, read
    copies = {name: part.clone() for name, part in state.items()}
    return copies, read.clone() if isinstance(read, Tensor) else read


def keep_where(real: Tensor, after: State, before: State) -> State:
    """Return the state after a token where the token is real, ``[batch]`` bool, and the one before elsewhere.

    Example:
        >>> keep_where(torch.tensor([True, False]), {"h": torch.ones(2)}, {"h": torch.zeros(2)})
        {'h': tensor([1., 0.])}
    """
    return {
        name: torch.where(real.view(-1, *[1] * (part.ndim - 1)), part, before[name])
        for name, part in after.items()
    }
