"""A model that is written as one step of its state, or wrapped: runs, padding and transitions follow.

| code     | meaning                                                                     |
|----------|-----------------------------------------------------------------------------|
| `embed`  | what the weights make of a token, ``[…]`` → ``[…, features]``               |
| `update` | the next state from the state and that, for a batch or for a single state   |
| `read`   | the logits from the state after the token                                   |
"""

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, combinations
from operator import attrgetter
from types import NoneType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from automata.checks import by_known_names, check_integer, check_type, shown
from automata.errors import InputError
from implicit.cells import keep_where
from implicit.cells.contract import (
    BATCH,
    carried_on,
    check_reading,
    check_returned,
    close,
    differentiable,
    evaluating,
    in_one_sentence,
    is_checked,
    moves,
    tried,
    words_of,
)
from implicit.cells.interface import for_code_of
from implicit.cells.plain import like
from implicit.models.interface import ModelConfig, ModelOutput, SequenceModel
from implicit.models.stack import Layers
from implicit.modes import Solve
from theory.transition import State, TokenInputs, TransitionBatch


class StepModel(SequenceModel):
    """An explicit model from four short methods: `init_state`, `embed`, `update` and `read`.

    Sequences are read token by token. All parts of the state count as one layer; a model of several layers
    says which parts belong together by `layer_states`.

    Example:
        >>> class Counter(StepModel):
        ...     '''Adds up a number per token.'''
        ...     def init_state(self, batch_size):
        ...         return {"sum": torch.zeros(batch_size, 1)}
        ...     def embed(self, tokens):
        ...         return tokens[..., None].float()
        ...     def update(self, state, inputs):
        ...         return {"sum": state["sum"] + inputs}
        ...     def read(self, state):
        ...         return torch.cat([state["sum"], -state["sum"]], dim=-1)
        >>> from implicit.models.interface import ModelConfig
        >>> model = Counter(ModelConfig(vocabulary_size=5, output_size=2))
        >>> model(torch.tensor([[4, 0, 3]]))[0, :, 0]
        tensor([4., 4., 7.])
    """

    @abstractmethod
    def embed(self, tokens: Tensor) -> Tensor:
        """Return what `update` is given of tokens of any shape: ``[…]`` → ``[…, features]``."""

    @abstractmethod
    def update(self, state: State, inputs: Tensor) -> State:
        """Return the next state, with or without a leading batch axis on state and inputs.

        It is transformed by ``torch.func``: write it in plain operations on tensors, without branching on
        their values and without the cells of `torch.nn` such as `torch.nn.GRUCell`, which cannot be batched.
        """

    @abstractmethod
    def read(self, state: State) -> Tensor:
        """Return the logits ``[…, output_size]`` from the state after a token."""

    @property
    def layer_states(self) -> tuple[tuple[str, ...], ...]:
        """For each layer the parts of the state that Theorem 1 speaks of; all of them as one layer."""
        return (tuple(self.init_state(1)),)

    def check_made(self) -> None:
        """Read a few tokens with a user's model, and refuse methods that do not fit each other."""
        if is_checked(self):
            with evaluating(self), torch.random.fork_rng([]):
                self._check_methods()
                check_reading(self, words_of(self, 0))

    def _check_methods(self) -> None:
        name = type(self).__name__
        tokens = torch.tensor([0, self.config.vocabulary_size - 1], device=self.device)
        state = tried(self, "init_state", BATCH)
        check_returned(f"init_state of {name}", state)
        for read in (tokens, tokens.flip(0), tokens):  # the initial state may be 0, where much looks right
            inputs = tried(self, "embed", read)
            after, again = (tried(self, "update", *for_code_of(self, state, inputs)) for _ in range(2))
            check_returned(f"update of {name}", after, state)
            for row in range(BATCH):
                one = {part: value[row] for part, value in state.items()}
                alone = tried(self, "update", *for_code_of(self, one, inputs[row]))
                for part, value in alone.items():
                    fits = value.shape == after[part][row].shape
                    drawn = not close(self, again[part], after[part])  # then numbers cannot be compared
                    if not (fits and (drawn or close(self, value, after[part][row]))):
                        raise InputError(
                            f"update of {name} is another map of one state than of a batch, in {part!r}; "
                            "use the last axes, as in dim=-1"
                        )
            state = after
        logits = tried(self, "read", for_code_of(self, after, None)[0])
        if not isinstance(logits, Tensor) or logits.shape != (2, self.config.output_size):
            returned = f"shape {[*logits.shape]}" if isinstance(logits, Tensor) else shown(logits)
            raise InputError(f"read of {name} returns {returned}; return [batch, {self.config.output_size}]")
        for part in sum(self.layer_states, ()):
            if part not in state:
                raise InputError(f"layer_states of {name} names {part!r}; name entries of {', '.join(state)}")

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_step(state, token)
        return self._advance(state, self.embed(token))

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences; padding leaves the state as it is, and its logits are 0."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        return _read_in_turn(self._advance, self.embed(tokens), state, mask)

    def _advance(self, state: State, inputs: Tensor) -> tuple[State, Tensor]:
        after = self.update(*for_code_of(self, state, inputs))
        return after, self.read(for_code_of(self, after, None)[0])

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every token."""
        self.check_tokens(tokens.reshape(1, -1))
        return TransitionBatch.without_latent(
            self._update_one, {"embedded": self.embed(tokens.flatten()).detach()}, self.layer_states
        )

    def _update_one(self, state: State, inputs: TokenInputs) -> State:
        return self.update(*for_code_of(self, state, inputs["embedded"]))


Step = Callable[[Any, State, Tensor], tuple[State, Tensor]]
"""(module, state, token) ↦ (next state, logits), for a batch: token int64 ``[batch]``."""
InitialState = Mapping[str, Tensor] | Callable[[Any], Mapping[str, Tensor]]
"""Named tensors without a batch axis, or a function module ↦ such."""


class WrappedModule(SequenceModel):
    """Any module under the interface of every model; `wrap` makes it, which says what the arguments are.

    The module is not copied: what its training changes is changed here, too.
    """

    description = "a module of one's own, wrapped"
    config_class = ModelConfig

    def __init__(
        self,
        module: nn.Module,
        step: Step,
        state: InitialState,
        vocabulary_size: int,
        layers: Sequence[Sequence[str]] | None = None,
    ) -> None:
        made_anew = state if callable(state) else None
        check_type("module", module, nn.Module, "give a torch.nn.Module")
        check_integer("vocabulary_size", vocabulary_size, 1)
        with in_one_sentence("state", "it is called as state(module)"):
            state = state(module) if callable(state) else state
        check_type(
            "state", state, Mapping, "give named tensors without a batch axis, or a function of module"
        )
        for name, part in state.items():
            check_type(f"state entry {name!r}", part, Tensor, "give a tensor without a batch axis")
        super().__init__(ModelConfig(vocabulary_size=vocabulary_size, output_size=1))
        self.name = type(module).__name__  # type: ignore[misc]
        self.module, self._step = module, step
        self._state_of = made_anew or _followed(module, state)
        check_type(
            "layers", layers, (Sequence, NoneType), "give a tuple of parts of the state for each layer"
        )
        for names in [] if layers is None else layers:
            if isinstance(names, str):
                raise InputError(f"layers holds {names!r}; give a tuple of entries of state for each layer")
        self._all_but_windows = layers is None
        if layers is None:
            windows = _windows(module)
            layers = [[name for name in state if name not in windows] or [*state]]
        self.layer_states = tuple(map(tuple, layers))
        named = [name for names in self.layer_states for name in names]
        for name in named:
            if name not in state:
                raise InputError(f"layers names {name!r}; give entries of state, {', '.join(state)}")
            if named.count(name) > 1:
                raise InputError(f"layers names {name!r} twice; name each part of the state once")
        try:
            with torch.no_grad():
                _, logits = self._tried(self.init_state(2), torch.zeros(2, dtype=torch.int64).to(self.device))
        except InputError as error:
            if any(part.shape[:1] == (1,) for part in state.values()):
                error = InputError(f"{error}; wrap takes a state without a batch axis, part[0] of each part")
            raise error from None
        self.config = ModelConfig(vocabulary_size=vocabulary_size, output_size=logits.shape[1])

    def init_state(self, batch_size: int) -> State:
        """Return the state before the first token, the same for every sequence."""
        check_integer("batch_size", batch_size, 0)
        weights = like(self)
        parts = {
            name: part.to(weights) if part.is_floating_point() else part.to(weights.device)
            for name, part in self._state_of(self.module).items()
        }
        return {name: part.expand(batch_size, *part.shape) for name, part in parts.items()}

    def check_made(self) -> None:
        """Refuse a step of which a copy in evaluation mode is no function of its weights, state and token."""
        copies: dict[int, Any] = {}
        try:
            copied = copy.deepcopy(self, copies).eval()
        except Exception:
            return  # told where a copy is asked for; without one, the model can still be called
        last = self.config.vocabulary_size - 1
        tokens = torch.tensor([[0, last, last], [last, 0, last]], device=self.device)
        with torch.no_grad(), torch.random.fork_rng([]):
            before = torch.get_rng_state()
            with _UsesOthers(copies) as used:
                found = copied._all_of(tokens)
            if used.others:
                raise InputError(
                    "step uses weights that its first argument does not hold, which no copy takes along; "
                    "take all from that argument, as in step=lambda net, state, token: net.one(state, token)"
                )
            agree = partial(close, copied)
            drawn = not torch.equal(before, torch.get_rng_state())
            if drawn or not all(map(agree, found, copied._all_of(tokens))):
                raise InputError(
                    "step gives other results when it is called again in evaluation mode; draw no random "
                    "numbers there, and keep everything in the state that it returns"
                )
            alone = [torch.cat(rows) for rows in zip(*map(copied._all_of, tokens.split(1)), strict=True)]
            if not all(map(agree, found, alone)):
                raise InputError(
                    "step gives a sequence other results in a batch than alone; let each row depend on that "
                    "row of state and token only"
                )

            with torch.enable_grad(), suppress(RuntimeError):  # of what has no gradient; theory says so
                copied._check_layers(tokens)
            self.layer_states = copied.layer_states

    def _check_layers(self, tokens: Tensor) -> None:
        """Refuse layers that leave out what is carried on, or part what acts on each other."""

        def advance(state: State, t: int) -> State:
            return self._called(state, tokens[:, t % tokens.shape[1]])[0]

        state = self.init_state(len(tokens))
        left = carried_on(advance, state, sum(self.layer_states, ()))
        if left and self._all_but_windows:  # the step makes more of a window than a layer does
            self.layer_states = (tuple(state),)
        elif left:
            raise InputError(f"layers leaves out {left[0]!r}, which step carries on; name it in its layer")
        begun = differentiable(advance(advance(state, 0), 1))  # where products with the state are not 0
        after = advance(begun, 2)
        for one, other in combinations(self.layer_states, 2):
            acts = [
                any(moves(begun[by], after[to]) for to in there for by in here)
                for here, there in ((one, other), (other, one))
            ]
            if all(acts):
                raise InputError(
                    f"layers parts {', '.join(one)} from {', '.join(other)}, and each acts on the other; "
                    "name them in one layer"
                )

    def _all_of(self, tokens: Tensor) -> list[Tensor]:
        """Return the logits and all parts of the state after every token."""
        state, found = self.init_state(len(tokens)), list[Tensor]()
        for token in tokens.unbind(1):
            state, logits = self._tried({name: part.clone() for name, part in state.items()}, token)
            found += [logits, *state.values()]
        return found

    def _called(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Call the step, and refuse what is no state and no logits.

        An error of the step passes: `theory` catches that of what ``torch.func`` cannot batch.
        """
        found = self._step(self.module, *for_code_of(self._step, state, token))
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Tensor)):
            raise InputError(f"step returns {shown(found)}; return (state, logits)")
        after, logits = found
        check_type("the state that step returns", after, Mapping, "return named tensors")
        for name, part in state.items():
            if name not in after or after[name].shape != part.shape or after[name].dtype != part.dtype:
                given = f"{after[name].dtype} {[*after[name].shape]}" if name in after else "missing"
                raise InputError(
                    f"state entry {name!r} that step returns is {given}; "
                    f"return {part.dtype} {[*part.shape]}, batch first, as it is given"
                )
        if logits.ndim != 2 or len(logits) != len(token):
            raise InputError(
                f"logits that step returns have shape {[*logits.shape]}; return [batch, answers]"
            )
        return {name: after[name] for name in state}, logits

    def _tried(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Call the step, and refuse it in one sentence if it raises."""

        def remedy() -> str:
            shapes = ", ".join(f"{name} {[*part.shape]}" for name, part in {**state, "token": token}.items())
            return (
                f"it is called as step(module, state, token), batch first ({shapes}; state is given without "
                f"that axis; tokens are below vocabulary_size, {self.config.vocabulary_size}), and takes "
                "weights from this module, which may be a float64 copy"
            )

        with in_one_sentence("step", remedy):
            return self._called(state, token)

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_step(state, token)
        return self._tried(state, token)

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences, token by token; padding leaves the state as it is, and its logits are 0."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        return _read_in_turn(self._tried, tokens, state, mask)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every token."""
        self.check_positions(tokens)
        return TransitionBatch.without_latent(
            self._update_one, {"token": tokens.flatten()}, self.layer_states
        )

    def _update_one(self, state: State, inputs: TokenInputs) -> State:
        batched = {name: part[None] for name, part in state.items()}
        after, _ = self._called(batched, inputs["token"][None])
        return {name: part[0] for name, part in after.items()}


def _followed(module: nn.Module, state: Mapping[str, Tensor]) -> Callable[[Any], Mapping[str, Tensor]]:
    """Return what reads these parts anew from a module: its parameters, its buffers and views of either."""
    tensors = dict(chain(module.named_parameters(), module.named_buffers()))
    names = {id(weight): name for name, weight in tensors.items() if weight.layout is torch.strided}
    places = {tensors[name].untyped_storage().data_ptr() for name in names.values()}
    parts = dict[str, Tensor | Callable[[Any], Tensor]]()
    for name, part in state.items():
        base = part._base
        if id(part) in names:
            parts[name] = attrgetter(names[id(part)])
        elif base is not None and id(base) in names and base.is_contiguous():
            offset = int(part.storage_offset() - base.storage_offset())
            parts[name] = partial(_view, attrgetter(names[id(base)]), part.shape, part.stride(), offset)
        elif part.requires_grad:
            raise InputError(
                f"state entry {name!r} requires a gradient and is neither a parameter of module nor a view "
                "of one; give the parameter and compute in step, or give state as a function of module"
            )
        else:  # what is detached follows a weight whose numbers it shares
            shared = part.layout is torch.strided and part.untyped_storage().data_ptr() in places
            parts[name] = part.detach() if shared else part.detach().clone()
    return partial(_read_parts, parts)


def _view(
    weight: Callable[[Any], Tensor], size: torch.Size, stride: tuple[int, ...], offset: int, module: nn.Module
) -> Tensor:
    base = weight(module)
    return base.as_strided(size, stride, base.storage_offset() + offset)


def _read_parts(parts: Mapping[str, Tensor | Callable[[Any], Tensor]], module: nn.Module) -> State:
    return {name: part if isinstance(part, Tensor) else part(module) for name, part in parts.items()}


class _UsesOthers(TorchDispatchMode):
    """Note whether an operation reads a tensor that was copied, or a parameter that was not."""

    def __init__(self, copies: Mapping[int, Any]) -> None:
        super().__init__()
        self._originals, self._copies = frozenset(copies), frozenset(map(id, copies.values()))
        self.others = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            unknown = isinstance(value, nn.Parameter) and id(value) not in self._copies
            self.others |= unknown or (isinstance(value, Tensor) and id(value) in self._originals)
        return function(*args, **(kwargs or {}))


@by_known_names
def wrap(
    module: nn.Module,
    step: Step,
    state: InitialState,
    *,
    vocabulary_size: int,
    layers: Sequence[Sequence[str]] | None = None,
) -> WrappedModule:
    """Return any recurrent module as a model that every question can be asked of.

    InputError for what is no module or no state, or a step that returns something else, uses weights of
    another module, is random or keeps something in evaluation mode, or mixes sequences of a batch.

    Args:
        module: the network, with whatever layers; cells and networks of `torch.nn` are fine. It stays the
            same object, so that it can be trained on.
        step: a function of (module, state, token) that returns (next state, logits) for a batch: token int64
            ``[batch]``, parts of the state ``[batch, …]``, logits ``[batch, answers]``. It takes the module
            from its first argument, for questions work on a copy in float64.
        state: before the first token, named tensors without a batch axis, or a function of the module that
            returns them. Parameters, buffers and views of them stay those of the module.
        vocabulary_size: tokens are 0 … vocabulary_size − 1.
        layers: the parts of each layer's state. If None, all of them as one layer, without the windows of
            layers of this package whose names they have, such as "conv.0".

    Example:
        >>> class Net(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.embedding, self.cell = nn.Embedding(2, 4), nn.GRUCell(4, 4)
        ...         self.head = nn.Linear(4, 2)
        >>> def step(net, state, token):
        ...     h = net.cell(net.embedding(token), state["h"])
        ...     return {"h": h}, net.head(h)
        >>> model = wrap(Net(), step, {"h": torch.zeros(4)}, vocabulary_size=2)
        >>> model(torch.tensor([[1, 0, 1]])).shape
        torch.Size([1, 3, 2])
    """
    return WrappedModule(module, step, state, vocabulary_size, layers)


def _read_in_turn(
    advance: Callable[[State, Tensor], tuple[State, Tensor]],
    inputs: Tensor,
    state: State,
    mask: Tensor | None,
) -> ModelOutput:
    """Read inputs ``[batch, length, …]`` one after the other; where the mask is False, nothing happens."""
    logits = []
    for t, one in enumerate(inputs.unbind(1)):
        after, scores = advance(state, one)
        if mask is not None:
            after, scores = keep_where(mask[:, t], after, state), scores * mask[:, t, None]
        state = after
        logits.append(scores)
    return ModelOutput(torch.stack(logits, dim=1), state)


def _windows(module: nn.Module) -> set[str]:
    """Return the parts of the states of layers of this package that theorems do not speak of."""
    within = [part for part in module.modules() if isinstance(part, Layers)]
    return {name for part in within for name in {*part.init_state(1)} - {*sum(part.layer_states, ())}}
