"""The interface of every recurrent model: a map (state, token) → state, and its whole-sequence form.

A state is named tensors with a leading batch axis: all that the tokens before leave behind.
"""

import copy
import inspect
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Self

import torch
from pydantic import PositiveInt
from pydantic.fields import FieldInfo
from torch import Tensor, nn

from automata.checks import check_integer, check_type
from automata.errors import InputError, warn_caller
from implicit.cells.contract import check_derived, check_reading, evaluating, is_checked, words_of
from implicit.cells.interface import check_methods
from implicit.checked_config import CheckedConfig, validated
from implicit.fixed_point import DampedPicard, FixedPointProblem, NotConvergedWarning, Stopping
from implicit.models.input_checks import (
    as_column,
    check_fits,
    check_is_tensor,
    check_state,
    check_tokens,
    mask_of,
)
from implicit.modes import SequenceSolution, Solve
from implicit.ops.hand_written_passes import uncompiled
from theory.transition import State, Transition, TransitionBatch

ALPHABETS = ("vocabulary_size", "output_size")
"""The fields of a model's configuration that follow from the task."""


MOST_LAYERS = 1000


class ModelConfig(CheckedConfig):
    """The configuration of every model: the sizes of its input and output alphabets.

    Example:
        >>> ModelConfig(vocabulary_size=2, output_size=3).output_size
        3
    """

    vocabulary_size: PositiveInt
    output_size: PositiveInt

    @classmethod
    def size_fields(cls) -> dict[str, FieldInfo]:
        """Return the sizes, by name: all fields but the alphabets, which follow from the task."""
        return {name: field for name, field in cls.model_fields.items() if name not in ALPHABETS}


@dataclass(frozen=True, eq=False, repr=False)
class ModelOutput:
    """The outputs of a model for a batch of sequences.

    Attributes:
        logits: after every token, ``[batch, length, output_size]``; 0 at padding.
        state: after the last real token of each sequence.
        solution: the fixed points of an implicit model; None for an explicit one.

    Example:
        >>> from implicit import load_run
        >>> output = load_run("parity").model.run(torch.tensor([[0, 1, 1]]))
        >>> output.answers, sorted(output.state), output.solution.share_converged
        (tensor([[0, 1, 0]]), ['conv.0', 'ssm.0'], 1.0)
    """

    logits: Tensor
    state: State
    solution: SequenceSolution | None = None

    @property
    def answers(self) -> Tensor:
        """The answers with the greatest logit, int64 ``[batch, length]``; see `answers_of`."""
        return answers_of(self.logits)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {[*part.shape]}" for name, part in self.state.items())
        solved = "" if self.solution is None else f"\n  solution: {self.solution!r}"
        return f"ModelOutput\n  logits: {[*self.logits.shape]}\n  state: {parts or 'none'}{solved}"


def answers_of(logits: Tensor) -> Tensor:
    """Return the numbers of the greatest logits over the last axis; −1, no answer, where one is NaN.

    A RuntimeWarning tells of those: an overflow would count as answer 0, which may be right.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     answers_of(torch.tensor([[0.0, 1.0], [torch.nan, 0.0]]))
        tensor([ 1, -1])
    """
    greatest, answers = logits.max(dim=-1)
    if not bool((none := greatest.isnan()).any()):
        return answers
    warn_caller("logits of some tokens are NaN, which is no answer: it is wrong", RuntimeWarning)
    return answers.masked_fill(none, -1)


class _BySizes(ABCMeta):
    """Lets a model be made from its sizes by name, in place of a configuration, and checks it then."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        check_methods(cls)
        made_of = list(inspect.signature(cls.__init__).parameters)[1:]  # type: ignore[misc]
        if not args and "config" not in values and made_of == ["config"]:
            config_class: type[ModelConfig] = cls.config_class  # type: ignore[attr-defined]
            args, values = (validated(config_class, values, field="size"),), {}
        model = super().__call__(*args, **values)
        model.check_made()
        return model


class SequenceModel(nn.Module, metaclass=_BySizes):
    """A model that reads tokens and predicts, after each of them, a class.

    `run` over a sequence equals the scan of `step` over its tokens, from any state, in one call or cut
    anywhere, alone or padded. tests/implicit/models/test_contract.py has the tests that every model inherits.

    Class attributes:
        name: the name that commands know the model by.
        description: one line.
        config_class: the model's own `ModelConfig`.
        state_grows: whether the state grows with every token, as that of attention does.
        linear_in_state: whether the recurrent state of every layer is affine in its own value before, what
            the layer reads held fixed; False where that is not known.

    Example:
        >>> from implicit.models.torch_rnn import LSTM, LSTMConfig
        >>> model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=4))
        >>> state, logits = model.step(model.init_state(3), torch.tensor([0, 1, 1]))
        >>> logits.shape, model(torch.tensor([[0, 1, 1, 0]])).shape
        (torch.Size([3, 2]), torch.Size([1, 4, 2]))
    """

    name: ClassVar[str]
    description: ClassVar[str] = ""
    config_class: ClassVar[type[ModelConfig]] = ModelConfig
    state_grows: ClassVar[bool] = False
    linear_in_state: ClassVar[bool] = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        # a subclass may give its parent a configuration of the parent's
        bases = [base for base in type(self).__mro__ if base is not SequenceModel]
        kinds = tuple(vars(base)["config_class"] for base in bases if "config_class" in vars(base))
        remedy = f"give {type(self).__name__}.config_class(vocabulary_size=..., output_size=...)"
        check_type("config", config, kinds or ModelConfig, remedy)
        self.config = config

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy; what hooks compute, as of `nn.utils.weight_norm`, is constant in it until a call."""
        held = chain.from_iterable(vars(module).values() for module in self.modules())
        computed = [part for part in held if isinstance(part, Tensor) and not part.is_leaf]
        memo.update({id(part): part.detach().clone() for part in computed})
        copied = memo[id(self)] = self.__new__(type(self))
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    def check_made(self) -> None:
        """Refuse a user's class that reads a sequence otherwise than step by step; called when it is made."""
        if is_checked(self) and self.implicit is None and not self.state_grows:
            with evaluating(self), torch.random.fork_rng([]):
                check_reading(self, words_of(self, 0))
                check_derived(self)

    @property
    def implicit(self) -> "FixedPointModel | None":
        """The model itself where it seeks a fixed point at every token; None for an explicit model."""
        return None

    @abstractmethod
    def init_state(self, batch_size: int) -> State:
        """Return the state before the first token: named tensors with a leading batch axis."""

    @abstractmethod
    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences.

        InputError for tokens that the model cannot read, lengths that do not fit them, or a state that is not
        one of this model for this batch.

        Args:
            tokens: int64, ``[batch, length]``; what stands at padding is not read.
            state: before the first token; the initial one if None.
            solve: how an implicit model seeks its fixed points; its defaults if None.
            lengths: real tokens of each sequence, int64 ``[batch]``, or which tokens are real, bool
                ``[batch, length]`` with padding behind them; all if None.
        """

    def forward(self, tokens: Tensor, state: State | None = None, *, lengths: Tensor | None = None) -> Tensor:
        """Return the logits of `run`, ``[batch, length, output_size]``."""
        return self.run(tokens, state, lengths=lengths).logits

    @abstractmethod
    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read a token, int64 ``[batch]``; return the next state and logits, ``[batch, output_size]``."""

    @abstractmethod
    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) at every one of the tokens, for the analysis of many states at once.

        Tokens have any shape; the positions of the batch are those of ``tokens.flatten()``. InputError for a
        token outside the vocabulary, or a model whose state grows.
        """

    @torch.no_grad()
    def states(self, tokens: Tensor, state: State | None = None) -> State:
        """Return the state before every token and after the last, each part ``[batch, length + 1, …]``.

        InputError for tokens or a state that do not fit, or a model whose state grows.
        """
        self.check_tokens(tokens)
        self.require_constant_state()
        if state is not None:
            self.check_state(state, len(tokens))
        visited = [self.init_state(len(tokens)) if state is None else state]
        for token in tokens.unbind(1):
            visited.append(self.step(visited[-1], token)[0])
        return {name: torch.stack([entry[name] for entry in visited], dim=1) for name in visited[0]}

    def transition(self, token: int) -> Transition:
        """Return (Φ, G) at a token for the checks of theory/, over the model's own parameters and dtype."""
        return self.transitions(torch.tensor([check_integer("token", token)], device=self.device))[0]

    @property
    def device(self) -> torch.device:
        """The device of parameters and buffers, and that tokens have to be on."""
        tensors = chain(self.parameters(), self.buffers())
        return next((tensor.device for tensor in tensors), torch.device("cpu"))

    def parameter_count(self) -> int:
        """Return the number of trainable numbers."""
        return sum(parameter.numel() for parameter in self.parameters() if parameter.requires_grad)

    def check_tokens(self, tokens: Tensor) -> None:
        """Refuse tokens that the model cannot read.

        InputError for what is no tensor, an empty sequence or batch, and tokens that are no integers, on
        another device, or outside the vocabulary.
        """
        check_tokens(tokens, self.config.vocabulary_size, self.device)

    def check_step(self, state: State, token: Tensor) -> None:
        """Refuse what `step` cannot read: tokens that are not ``[batch]``, or not a state of them."""
        self.check_tokens(as_column(token))
        self.check_state(state, len(token))

    def check_positions(self, tokens: Tensor) -> None:
        """Refuse what `transitions` cannot read: tokens of any shape, otherwise as `check_tokens`."""
        check_is_tensor("tokens", tokens)
        self.check_tokens(tokens.reshape(1, -1))

    def require_constant_state(self) -> None:
        """Refuse what needs a state of constant size, for a model whose state grows."""
        if self.state_grows:
            raise InputError(
                f"model is {_name_of(self)}, whose state grows with every token; "
                "give a model whose state has a constant size"
            )

    def begin(
        self, tokens: Tensor, state: State | None, lengths: Tensor | None
    ) -> tuple[Tensor, State, Tensor | None]:
        """Check what `run` is given: return tokens with 0 at padding, the state, and the mask."""
        if lengths is None:
            mask = None
        else:
            if not isinstance(tokens, Tensor) or tokens.ndim != 2:
                self.check_tokens(tokens)
            mask = mask_of(tokens, lengths)
            tokens = tokens if mask is None else tokens.masked_fill(~mask, 0)
        check_is_tensor("tokens", tokens)
        check_fits(tokens, self.config, self.device)  # before anything of the size of the tokens is made
        self.check_tokens(tokens)
        if state is None:
            return tokens, self.init_state(len(tokens)), mask
        self.check_state(state, len(tokens))
        return tokens, state, mask

    def check_state(self, state: State, batch_size: int) -> None:
        """Refuse a state that is not one of this model for this batch."""
        check_state(state, self.init_state(batch_size), _name_of(self), grows=self.state_grows)


def _name_of(model: SequenceModel) -> str:
    return getattr(model, "name", type(model).__name__)  # a class that no command needs has no name


class FixedPointModel(SequenceModel):
    """A model that seeks a fixed point at every token; its latent has ``latent_size`` features.

    Example:
        >>> from implicit import ImplicitMamba2, LSTM
        >>> issubclass(ImplicitMamba2, FixedPointModel), issubclass(LSTM, FixedPointModel)
        (True, False)
    """

    latent_size: int

    @property
    def implicit(self) -> "FixedPointModel":
        """The model itself."""
        return self

    def without_kernels(self) -> Self:
        """Compute by PyTorch's own operations from now on; return the model itself.

        All models do but those that say how here.
        """
        return self

    @property
    @abstractmethod
    def solver(self) -> DampedPicard:
        """The solver of the configuration."""

    @property
    @abstractmethod
    def stopping(self) -> Stopping:
        """The tolerance and the limit of the configuration."""

    @uncompiled
    def forward(self, tokens: Tensor, state: State | None = None, *, lengths: Tensor | None = None) -> Tensor:
        """Return the logits of `run`; a `NotConvergedWarning` tells if some token has no fixed point.

        Their gradient is exact; ``run(tokens, solve=Solve(gradient=...))`` has others.
        """
        output = self.run(tokens, state, lengths=lengths)
        warn_unless_converged(self, output.solution)
        return output.logits

    def fixed_points(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> SequenceSolution:
        """Return the solution of `run`, which takes the same arguments."""
        solution = self.run(tokens, state, solve, lengths=lengths).solution
        assert solution is not None  # a model with fixed points always has one
        return solution

    @abstractmethod
    def problem(
        self, tokens: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> FixedPointProblem:
        """Return the fixed-point problem of the simultaneous mode: Φ of all tokens together, 0 at padding."""

    @abstractmethod
    def states_at(
        self, tokens: Tensor, latents: Tensor, state: State | None = None, lengths: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last, ``[batch, length + 1, …]``, from latents.

        The state before the first token is the initial one if None; it stays as it is at padding.
        """


def warn_unless_converged(module: nn.Module, solution: SequenceSolution | None) -> None:
    """Warn of outputs computed from latents that are not fixed points; in training once for each module."""
    has_warned = module.training and hasattr(module, "_has_warned")
    if has_warned or solution is None or bool(solution.converged.all()):
        return
    message = f"outputs without a fixed point at {solution.message()}"
    if module.training:  # every batch would bring another count
        module._has_warned = True  # type: ignore[assignment]
        message += "; in training, further such warnings of this module are left out"
    warn_caller(message, NotConvergedWarning)
