"""The check of a user's code: it is evaluated once, where a layer or a model is made of it.

`check_cell` checks a cell, and `check_reading` a model. `implicit.models.step_model` uses the same tools. The
cells of this package are held to more by tests/implicit/cells/test_contract.py.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, cast

import torch
from torch import Tensor, nn

from automata.checks import check_integer, shown
from automata.errors import InputError
from implicit.cells.interface import Cell, for_code_of, is_ours, keep_where
from implicit.cells.plain import in_double_precision, like, varies, widened
from theory.transition import State

BATCH = 2
_FEW = 20
"""Iterations after which rounding has not yet grown where there is no contraction."""
_LENGTH, _CUT = 9, 5
"""Tokens of the sequences, and those behind which ``forward`` begins anew; a wrong form may have a period."""
_LONG = 130
"""Tokens behind the border of two chunks of 64, or of one of 128, at which a chunked ``forward`` may err."""
_MANY = 64
"""Tokens after which the window of a convolution has forgotten what it held."""


def check_cell(cell: Cell, d_model: int, *, iterated: bool = True) -> None:
    """Refuse a user's cell that trains silently and wrongly, or that fails in the midst of a model.

    The initial cell reads nine tokens of two sequences, and 130 of one where ``forward`` is its own;
    ``iterated``: whether fixed points will be sought. Nothing is drawn from torch's generator. Where CUDA is
    found, a cell on the CPU is not evaluated: its kernels may run on the other device only.
    """
    if is_checked(cell):
        for part in cell.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.training:
                raise InputError(
                    f"{type(cell).__name__} holds {type(part).__name__}, which mixes sequences of a batch "
                    "in training; use LayerNorm or GroupNorm"
                )
        with evaluating(cell):
            evaluation = _Evaluation(cell, d_model)
            evaluation.check()
        evaluation.check_training(iterated=iterated)


def is_checked(module: nn.Module) -> bool:
    """Return whether a module is a user's, and can be evaluated where it is."""
    if is_ours(module) or (weight := like(module)).is_meta:
        return False
    return weight.is_cuda or not (torch.cuda.is_available() or torch.is_inference_mode_enabled())


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluate with the graph, in the weights' own precision, and without dropout, which differs by call."""
    device = like(module).device.type
    known = torch.amp.is_autocast_available(device)
    full = torch.autocast(device, enabled=False) if known else nullcontext()
    with evaluation_mode(module), torch.enable_grad(), full:
        yield


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and each of its parts back into its own, which may be frozen."""
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, mode in training.items():
            part.training = mode


@contextmanager
def in_one_sentence(called: str, remedy: str | Callable[[], str]) -> Iterator[None]:
    """Refuse, in one sentence, code that raises: what was called, what it raised, and the remedy."""
    try:
        yield
    except (InputError, Warning):  # a warning that the user made an error says nothing of the code
        raise
    except Exception as error:
        raised = f"{type(error).__name__} ({' '.join(str(error).split())})"
        raise InputError(f"{called} raises {raised}; {remedy() if callable(remedy) else remedy}") from error


def tried(module: nn.Module, method: str, *given: Any) -> Any:
    """Call a method, and refuse it in one sentence if it raises."""
    shapes = " and ".join(str([*part.shape]) for part in given if isinstance(part, Tensor))
    remedy = f"correct it for tensors of shape {shapes}" if shapes else "correct it"
    with in_one_sentence(f"{method} of {type(module).__name__}", remedy):
        return getattr(module, method)(*given)


def check_returned(method: str, state: object, given: State | None = None, *, grows: bool = False) -> None:
    """Refuse what is no state of the batch that is tried, or not of the shapes of the state that was given.

    Shapes of a state that grows may differ.
    """
    if not isinstance(state, Mapping) or not all(isinstance(part, Tensor) for part in state.values()):
        raise InputError(f"{method} returns {shown(state)}; return a state, named tensors")
    for name, part in state.items():
        if part.ndim == 0 or len(part) != BATCH:
            raise InputError(
                f"state part {name!r} of {method} has shape {[*part.shape]}; return the batch in front"
            )
    found = {name: [*part.shape] for name, part in state.items()}
    wanted = found if given is None else {name: [*part.shape] for name, part in given.items()}
    if {*wanted} != {*found} or (wanted != found and not grows):
        raise InputError(f"{method} returns the state {found}; return {wanted}, as it is given")


def words_of(model: Any, seed: int, length: int = _LENGTH) -> Tensor:
    """Draw two sequences of tokens that a model reads, from a generator of their own."""
    drawn, shape = torch.Generator().manual_seed(seed), (BATCH, length)
    return torch.randint(model.config.vocabulary_size, shape, generator=drawn).to(model.device)


def check_reading(model: Any, tokens: Tensor, steps: Any = None) -> None:
    """Refuse an explicit model that reads two sequences, ``[2, length]``, otherwise than step by step.

    ``steps``: a copy of the model, of any precision, that takes the steps. Without one a model that draws
    random numbers in evaluation mode passes, for its logits cannot be compared.
    """
    name, cut = type(model).__name__, tokens.shape[1] // 2
    real = torch.ones_like(tokens, dtype=torch.bool)
    real[1, -1] = False
    with in_one_sentence(f"{name}, given tokens of shape {[*tokens.shape]},", "let it read whole sequences"):
        called, own = model(tokens), model.init_state(BATCH)
        if not isinstance(called, Tensor) or called.shape != (*tokens.shape, model.config.output_size):
            returned = f"shape {[*called.shape]}" if isinstance(called, Tensor) else shown(called)
            raise InputError(f"forward of {name} returns {returned}; return [batch, length, output_size]")
        stepping = model if steps is None else steps
        states, scores = [stepping.init_state(BATCH)], []
        for t, token in enumerate(tokens.unbind(1)):
            after, logits = stepping.step(for_code_of(stepping, states[-1], None)[0], token)
            states.append(keep_where(real[:, t], after, states[-1]))
            scores.append(logits.to(called))
        begun, middle, last = (
            {part: value.to(own[part]) for part, value in states[t].items()} for t in (0, cut, -1)
        )
        stepped, padded = torch.stack(scores, dim=1), model.run(tokens, lengths=real.sum(1))
        pairs = {
            **{f"init_state, {part!r}": (value, begun[part]) for part, value in own.items()},
            "called": (called, stepped),
            "by run": (model.run(tokens).logits, stepped),
            "alone": (torch.cat([model(row) for row in tokens.split(1)]), stepped),
            "beside padding": (padded.logits[real], stepped[real]),
            f"behind {cut} tokens": (model.run(tokens[:, cut:], middle).logits, stepped[:, cut:]),
            **{f"state part {part!r}": (padded.state[part], value) for part, value in last.items()},
        }
        differ = [what for what, (found, expected) in pairs.items() if not close(model, found, expected)]
        if differ and (steps is not None or close(model, model(tokens), called)):
            raise InputError(
                f"{name} answers a sequence otherwise than step by step ({differ[0]}); let answers depend on "
                "state and token only, not on other tokens, hooks or the type of numbers"
            )


def changes_step(model: nn.Module) -> bool:
    """Return whether a user's class has another step than ours, and may inherit what belongs to that."""
    ours = ("implicit.", "torch.")
    own = [vars(base) for base in type(model).__mro__ if not base.__module__.startswith(ours)]
    return any(name in members for members in own for name in ("step", "run", "read", "transitions"))


@torch.no_grad()
def check_derived(model: Any) -> None:
    """Refuse a model whose ``transitions``, ``states`` or ``read`` are not those of its step."""
    if model.implicit is not None:  # where an iteration ends makes no difference to G
        model = copy.copy(model)
        model.config = model.config.model_copy(update={"max_iterations": _FEW})
    tokens, visited, pairs = words_of(model, 1), [model.init_state(BATCH)], {}
    with warnings.catch_warnings(action="ignore"):  # of fixed points: G is compared where an iteration ends
        for t, token in enumerate(tokens.unbind(1)):
            before = for_code_of(model, visited[-1], None)[0]
            state, logits = tried(model, "step", before, token)
            visited.append(state)
            if hasattr(model, "read"):
                pairs[f"read at token {t}"] = model.read(state), logits
            latents = torch.zeros(BATCH, 0).to(logits)
            if model.implicit is not None:  # of both rows, as in the step: after them rounding may have grown
                latents = model.run(token[:, None], before).solution.latents[:, 0]
            for row, (transition, latent) in enumerate(
                zip(_transitions_of(model, token), latents, strict=False)
            ):
                here = {part: value[row] for part, value in before.items()}
                with in_one_sentence(f"transitions of {type(model).__name__}", "write them for its state"):
                    after = transition.state_update(latent, here)
                for part, value in after.items():
                    pairs[f"transitions at token {t}, row {row}, part {part!r}"] = value, state[part][row]
    for part, value in model.states(tokens).items() if model.implicit is None else ():
        pairs[f"part {part!r} of states"] = value, torch.stack([one[part] for one in visited], dim=1)
    for what, (found, expected) in pairs.items():
        if not close(model, found, expected):
            raise InputError(
                f"{what} of {type(model).__name__} is not that of its step; change both, or neither"
            )


def _transitions_of(model: Any, token: Tensor) -> Iterable[Any]:
    """Those of a model at tokens; none where it says that it has none."""
    try:
        found: Iterable[Any] = model.transitions(token)
    except NotImplementedError:
        return ()
    return found


class _Evaluation:
    """The evaluation of a cell at fixed inputs, and the checks of what it returns."""

    def __init__(self, cell: Cell, d_model: int) -> None:
        self.cell, self.name = cell, type(cell).__name__
        size = getattr(cell, "injection_size", None)
        if size is None:
            raise InputError(f"{self.name} has no injection_size; set it in the constructor")
        check_integer(f"injection_size of {self.name}", size, 1)
        self.inputs, self.injection = (_waves(cell, BATCH, _LENGTH, width) for width in (d_model, size))
        self.state: State = tried(cell, "init_state", BATCH)
        check_returned(f"init_state of {self.name}", self.state)

    def check(self) -> None:
        """Check one claim after the other; later ones rely on the earlier."""
        parts = getattr(self.cell, "recurrent_parts", None)
        if not isinstance(parts, tuple) or not {*parts} <= {*self.state} or (self.state and not parts):
            raise InputError(
                f"recurrent_parts of {self.name} is {shown(parts)}; "
                f"name parts of its state: {', '.join(sorted(self.state))}"
            )
        self._check_dependence()
        states = self._check_forms()
        self._check_precision()
        if type(self.cell).forward is not Cell.forward and not self.cell.state_grows:
            self._check_long()
        if self.cell.linear_in_state and not self.cell.state_grows:
            self._check_affine(states)

    @torch.no_grad()
    def check_training(self, *, iterated: bool) -> None:
        """Compare a row in a batch and alone in the cell's own mode, where it may keep averages.

        Fixed points are those of ``step`` and their gradient is that of ``forward``, so both draw random
        numbers or neither does.
        """
        buffers = {name: buffer.clone() for name, buffer in self.cell.named_buffers()}

        def outputs(method: str, first: int = 0, after: int = BATCH) -> Tensor:
            inputs, injection = self.inputs[first:after], self.injection[first:after]
            if method == "step":
                inputs, injection = inputs[:, 0], injection[:, 0]
            state = {name: part[first:after] for name, part in self.state.items()}
            try:
                return cast("Tensor", tried(self.cell, method, inputs, state, injection)[0])
            finally:
                for name, buffer in self.cell.named_buffers():
                    buffer.copy_(buffers[name])

        with torch.random.fork_rng([]):
            once, again = outputs("step"), outputs("step")
            alone = torch.cat([outputs("step", row, row + 1) for row in range(BATCH)])
            draws = iterated and not close(self.cell, outputs("forward"), outputs("forward"))
        if close(self.cell, once, again):
            if draws:
                raise InputError(
                    f"forward of {self.name} draws random numbers in training and step does not; draw in "
                    "neither, and put dropout before or behind the layer"
                )
            if not close(self.cell, once, alone):
                raise InputError(
                    f"step of {self.name} gives a sequence other outputs in a batch than alone, in training; "
                    "let each row depend on that row only"
                )

    def _run(self, method: str, inputs: Tensor, state: State, *given: Tensor | None) -> tuple[Tensor, State]:
        """Call ``forward`` or ``step``, and check the shapes of what it returns."""
        injection, *mask = given
        before = inputs.detach().clone()
        found = tried(self.cell, method, inputs, *for_code_of(self.cell, state, injection), *mask)
        if not torch.equal(inputs, before):
            raise InputError(f"{method} of {self.name} writes into its inputs; let it make new ones")
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], Tensor)):
            raise InputError(f"{method} of {self.name} returns {shown(found)}; return (outputs, state)")
        outputs, after = found
        if outputs.shape != inputs.shape:
            raise InputError(
                f"{method} of {self.name} returns outputs of shape {[*outputs.shape]}; "
                f"return {[*inputs.shape]}, as of its inputs"
            )
        check_returned(f"{method} of {self.name}", after, state, grows=self.cell.state_grows)
        return outputs, after

    def _check_dependence(self) -> None:
        """Check by the graph, not by numbers: what multiplies may be 0 at the beginning."""
        parts = self.cell.recurrent_parts
        injection = self.injection.clone().requires_grad_()
        before = differentiable(self.state)
        outputs, after = self._run("step", self.inputs[:, 0], before, injection[:, 0])
        swept, _ = self._run("forward", self.inputs, self.state, injection)
        for method, results in (("step", [outputs, *after.values()]), ("forward", [swept])):
            with in_one_sentence(f"the gradient of {method} of {self.name}", "leave what it reads as it is"):
                reads = any(depends(result, injection) for result in results)
            if not reads:
                raise InputError(
                    f"{method} of {self.name} ignores the injection; add it to the input projection"
                )
        moved = [name for name in parts if any(depends(after[name], before[other]) for other in parts)]
        if parts and not moved:
            raise InputError(
                f"recurrent_parts of {self.name} is {parts}, and step does not read them to write them; "
                "name what it carries on"
            )
        for name in after:
            acts = any(depends(after[part], before[name]) for part in parts)
            if name not in parts and acts and any(depends(after[name], before[part]) for part in parts):
                raise InputError(
                    f"recurrent_parts of {self.name} is {parts}, and {name!r} depends on them "
                    "and acts on them; name it too"
                )
        if self.cell.state_grows:
            return

        def advance(state: State, t: int) -> State:
            read = t % _LENGTH
            return self._run("step", self.inputs[:, read], state, self.injection[:, read])[1]

        if left := carried_on(advance, self.state, parts):
            raise InputError(
                f"recurrent_parts of {self.name} is {parts}, and step carries on {left[0]!r}; name it too"
            )

    @torch.no_grad()
    def _check_forms(self) -> list[State]:
        """Compare ``forward`` with the scan of ``step``; return the states that the scan visits."""
        mask = torch.ones(BATCH, _LENGTH, dtype=torch.bool, device=self.inputs.device)
        mask[1, -1], padded = False, f"of {_LENGTH} tokens, one of them padding,"
        outputs, last = self._run("forward", self.inputs, self.state, self.injection, mask)
        states = [self.state]
        for t in range(_LENGTH):
            given = self.inputs[:, t], states[-1], self.injection[:, t]
            output, after = self._run("step", *given)
            self._compare(outputs[mask[:, t], t], output[mask[:, t]], "outputs", padded)
            states.append(after if self.cell.state_grows else keep_where(mask[:, t], after, states[-1]))
        if not self.cell.state_grows:
            found = tried(self.cell, "states", self.inputs, self.state, self.injection, mask)
            for name, part in states[-1].items():
                self._compare(last[name], part, f"state part {name!r}", padded)
                scan = torch.stack([state[name] for state in states], dim=1)
                if not close(self.cell, found[name], scan):
                    raise InputError(
                        f"states of {self.name} are not those of its step, but of the cell that it extends; "
                        "write states too, or states = Cell.states"
                    )
        behind, _ = self._run("forward", self.inputs[:, _CUT:], states[_CUT], self.injection[:, _CUT:])
        real = mask[:, _CUT:]
        self._compare(behind[real], outputs[:, _CUT:][real], "outputs", f"behind {_CUT} tokens")
        alone = []
        for row in range(BATCH):
            here = slice(row, row + 1)
            state = {name: part[here] for name, part in self.state.items()}
            read = for_code_of(self.cell, state, self.injection[here])
            alone.append(tried(self.cell, "forward", self.inputs[here], *read)[0])
        if not close(self.cell, torch.cat(alone)[mask], outputs[mask]):
            raise InputError(
                f"forward of {self.name} gives a sequence other outputs in a batch than alone; let each row "
                "depend on that row only"
            )
        without, zeros = (
            self._run("step", self.inputs[:, 0], self.state, given)[0]
            for given in (None, torch.zeros_like(self.injection[:, 0]))
        )
        if not close(self.cell, without, zeros):
            raise InputError(
                f"step of {self.name} takes None for another injection than zeros; add nothing then"
            )
        return states

    @torch.no_grad()
    def _check_long(self) -> None:
        """Compare ``forward`` with the scan of ``step`` over more tokens than a chunk of it may have."""
        stepped = []
        try:
            exact, widths = in_double_precision(self.cell), (self.inputs.shape[-1], self.injection.shape[-1])
            inputs, injection = (_waves(exact, 1, _LONG, width) for width in widths)
            state = exact.init_state(1)
            outputs, _ = exact.forward(inputs, *for_code_of(exact, state, injection))
            for t in range(_LONG):
                output, state = exact.step(inputs[:, t], *for_code_of(exact, state, injection[:, t]))
                stepped.append(output)
        except Exception:  # float64, or such a length, may be beyond a cell that trains
            return
        expected = torch.stack(stepped, dim=1)
        # Rounding may grow a billionfold in so many tokens; a state that is lost changes leading digits.
        near = torch.isclose(outputs, expected, 1e-3, 1e-3 * float(expected.abs().max())).all(dim=-1)[0]
        if bool(expected.isfinite().all()) and not bool(near.all()):
            raise InputError(
                f"forward of {self.name} is not the scan of its step: outputs of {_LONG} tokens differ "
                f"from token {int(near.int().argmin())} on"
            )

    def _compare(self, found: Tensor, expected: Tensor, what: str, where: str) -> None:
        if not close(self.cell, found, expected):
            raise InputError(
                f"forward of {self.name} is not the scan of its step: {what} {where} "
                f"differ by {float((found - expected).abs().max()):.2g}"
            )

    @torch.no_grad()
    def _check_affine(self, states: list[State]) -> None:
        """Compare the image of a mixture of visited states with the mixture of the images."""
        parts = self.cell.recurrent_parts

        def after(state: State) -> State:
            given = {**self.state, **{name: state[name] for name in parts}}
            return self._run("step", self.inputs[:, 0], given, self.injection[:, 0])[1]

        # Small states would see any function as affine; a linear one maps large ones as well.
        largest = max(float(states[t][name].abs().max()) for t in (1, 2) for name in parts)
        scale = 100 / largest if 0 < largest < math.inf else 1
        one, other = (
            {name: sign * scale * states[t][name] for name in parts} for t, sign in ((1, 1), (2, -2))
        )
        mixed = after({name: 0.3 * one[name] + 0.7 * other[name] for name in parts})
        images = after(one), after(other)
        expected = {name: 0.3 * images[0][name] + 0.7 * images[1][name] for name in parts}
        if not all(close(self.cell, mixed[name], expected[name]) for name in parts):
            raise InputError(f"linear_in_state of {self.name} is True, and its step is not affine; set False")

    @torch.no_grad()
    def _check_precision(self) -> None:
        """Refuse an initial state of a fixed precision, with which analyses fail: they run in float64."""
        try:
            exact = in_double_precision(self.cell)
            state = exact.init_state(BATCH)
        except Exception:  # no copy, or code for one precision, which trains
            return

        def keeps(state: State) -> bool:
            inputs, injection = self.inputs[:, 0].double(), self.injection[:, 0].double()
            with suppress(Exception):
                after = exact.step(inputs, *for_code_of(exact, state, injection))[1]
                return all(after[name].dtype == part.dtype for name, part in state.items())
            return False

        wide = {name: widened(part) for name, part in state.items()}
        for name, part in state.items():
            if part.dtype != wide[name].dtype and not keeps(state) and keeps(wide):
                kind = ", dtype=self.in_proj.weight.dtype.to_complex()" if part.is_complex() else ""
                raise InputError(
                    f"init_state of {self.name} returns {name!r} in {part.dtype} where the weights are in "
                    "torch.float64, as in analyses; make it of the precision of the weights, as "
                    f"self.in_proj.weight.new_zeros(...{kind}) does"
                )


def _waves(cell: Cell, batch: int, length: int, width: int) -> Tensor:
    """Return numbers for a cell to read, which no generator draws."""
    return torch.sin(torch.arange(batch * length * width).view(batch, length, width) + 1.0).to(like(cell))


def depends(result: Tensor, given: Tensor) -> bool:
    """Return whether a result depends on what is given, by the graph: factors may be 0 at the beginning."""
    return _slope(result, given) is not None


def moves(given: Tensor, result: Tensor) -> bool:
    """Return whether a result changes with what is given, by the sum of the derivatives at this point."""
    slope = _slope(result, given)
    return slope is not None and bool((slope.abs() > 0).any())


def _slope(result: Tensor, given: Tensor) -> Tensor | None:
    if not (result.requires_grad and given.requires_grad):
        return None
    scalar = (torch.view_as_real(result) if result.is_complex() else result).sum()
    return torch.autograd.grad(scalar, given, retain_graph=True, allow_unused=True)[0]


def differentiable(state: State) -> State:
    """Return a copy of a state by which results can be differentiated."""
    return {name: part.detach().clone().requires_grad_(varies(part)) for name, part in state.items()}


def carried_on(advance: Callable[[State, int], State], state: State, named: Iterable[str]) -> list[str]:
    """Return the parts that are not named, and act on themselves over many tokens; windows forget theirs."""
    others = [name for name, part in state.items() if name not in {*named} and varies(part)]
    begun = after = differentiable(state)
    for t in range(_MANY if others else 0):
        after = advance(after, t)
    return [name for name in others if moves(begun[name], after[name])]


def close(module: nn.Module, found: Tensor, expected: Tensor) -> bool:
    """Return whether two results of a module agree in half of their digits.

    Another order of summation costs a few digits, and a wrong form all of them. Digits are those of the
    largest finite entry, as many as the weights have where these have fewer than the results.
    """
    if not varies(expected):
        return torch.equal(found, expected)
    finite = expected.detach()[expected.isfinite()].abs()
    size = (float(finite.max()) if len(finite) else 0.0) or 1.0
    rounding = max(torch.finfo(dtype).eps for dtype in (expected.dtype, like(module).dtype))
    return torch.allclose(found, expected, 0, rounding**0.5 * size, equal_nan=True)
