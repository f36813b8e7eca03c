"""The contract of `SequenceModel`: every registered model gets every test of this file, a new one by its row.

A randomly initialised implicit model may have several fixed points or none that the iteration reaches. The
contract compares two ways to a fixed point, which must be unique for that. So the path of the latent into the
cells is made weak beside the injection (in_proj times 0.02) and their output strong beside the residual
(out_proj times 100): on every seed tried, all modes then converge to the same point within the tolerance, in
20 to 32 iterations; damping alone takes 19.
"""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.gradients import Phantom
from implicit.models.interface import ALPHABETS, SequenceModel
from implicit.models.registry import MODELS, build_model, complete_sizes, size_names
from implicit.modes import Solve, Windowed
from tests.implicit.models.conftest import (
    BATCH,
    CASES,
    CLASSES,
    LENGTH,
    TIGHT,
    VOCABULARY,
    WRAPPED,
    build_case,
    parts_of,
    scan,
    vector_of,
)
from theory.transition import State

# Float64. Explicit models differ by rounding only; implicit ones are solved to 1e-13, over a contraction.
AGREE = 1e-10


pytestmark = pytest.mark.usefixtures("float64")


registered = pytest.mark.parametrize("build", MODELS, indirect=True)
"""For what does not depend on sizes."""


@pytest.fixture(params=CASES)
def build(request: pytest.FixtureRequest) -> Callable[[], SequenceModel]:
    return lambda: build_case(request.param)


@pytest.fixture
def model(build: Callable[[], SequenceModel]) -> SequenceModel:
    torch.manual_seed(0)
    return build().eval()


def assert_agree(one: Any, other: Any, what: str = "they") -> None:
    torch.testing.assert_close(one, other, rtol=AGREE, atol=AGREE, msg=lambda message: f"{what}: {message}")


@torch.no_grad()
def test_the_parallel_form_and_its_states_are_the_scan_of_step(model: SequenceModel, tokens: Tensor) -> None:
    logits = model(tokens)
    scores, states = scan(model, tokens)
    assert logits.shape == (BATCH, LENGTH, CLASSES)
    assert_agree(logits, scores)
    assert_agree(model(tokens[1:2])[0], logits[1], "alone")
    assert_agree(scan(model, tokens[1:2])[0][0], scores[1], "alone")
    if model.state_grows:
        return
    for state in states:
        assert state.keys() == states[0].keys()
        for name, tensor in state.items():
            assert tensor.shape == states[0][name].shape
            assert len(tensor) == BATCH
            assert tensor.isfinite().all()
    assert all((tensor == 0).all() for tensor in states[0].values())
    for name, found in model.states(tokens).items():
        assert_agree(found, torch.stack([state[name] for state in states], 1))


@torch.no_grad()
def test_a_sequence_cut_anywhere_gives_what_it_gives_in_one(model: SequenceModel, tokens: Tensor) -> None:
    whole = model.run(tokens)
    for cut in (1, LENGTH - 1):
        first = model.run(tokens[:, :cut])
        second = model.run(tokens[:, cut:], first.state)
        assert_agree(torch.cat([first.logits, second.logits], 1), whole.logits)
        assert_agree(second.state, whole.state)
        state, logits = model.step(first.state, tokens[:, cut])  # and from one form into the other
        assert_agree(logits, whole.logits[:, cut])
        assert state.keys() == whole.state.keys()
    assert_agree(model.run(tokens[:, :cut], model.init_state(BATCH)).logits, first.logits)


@torch.no_grad()
def test_padded_sequences_give_what_each_gives_alone(model: SequenceModel, tokens: Tensor) -> None:
    lengths = torch.tensor([2, LENGTH, 3])
    padded = tokens.clone()
    real = torch.arange(LENGTH) < lengths[:, None]
    padded[~real] = -100  # never read
    following = torch.randint(VOCABULARY, (BATCH, 3), generator=torch.Generator().manual_seed(5))
    alone = [model.run(tokens[k : k + 1, :length]) for k, length in enumerate(lengths.tolist())]
    on_alone = [model.run(following[k : k + 1], one.state).logits[0] for k, one in enumerate(alone)]
    for what, told in (("lengths", lengths), ("mask", real)):
        output = model.run(padded, lengths=told)
        gone_on = model.run(following, output.state)
        for k, length in enumerate(lengths.tolist()):
            assert_agree(output.logits[k, :length], alone[k].logits[0], what)
            assert (output.logits[k, length:] == 0).all()
            if not model.state_grows:
                own = {name: part[k] for name, part in output.state.items()}
                assert_agree(own, _first(alone[k].state), what)
            assert_agree(gone_on.logits[k], on_alone[k], what)
        if output.solution is not None:
            assert output.solution.converged.all()
            assert output.solution.share_converged == 1.0


def test_gradients_of_padded_sequences_are_those_of_each_alone(model: SequenceModel, tokens: Tensor) -> None:
    lengths = torch.tensor([2, LENGTH, 3])
    weights = torch.randn(BATCH, LENGTH, CLASSES, generator=torch.Generator().manual_seed(6))
    parameters = dict(model.named_parameters())
    together = (model.run(tokens, lengths=lengths).logits * weights).sum()
    found = torch.autograd.grad(together, list(parameters.values()), allow_unused=True)
    alone = sum(
        (model.run(tokens[k : k + 1, :n]).logits * weights[k : k + 1, :n]).sum()
        for k, n in enumerate(lengths.tolist())
    )
    assert isinstance(alone, Tensor)
    expected = torch.autograd.grad(alone, list(parameters.values()), allow_unused=True)
    for name, one, other in zip(parameters, found, expected, strict=True):
        assert one is not None, name
        assert other is not None, name
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


@torch.no_grad()
def test_all_modes_give_the_same_and_explicit_models_ignore_them(
    model: SequenceModel, tokens: Tensor
) -> None:
    state, lengths = model.run(tokens[:, :1]).state, torch.tensor([3, 1, 2])
    expected = model.run(tokens[:, 1:], state, lengths=lengths)
    modes: list[Any] = ["auto", "simultaneous", "sequential", "windowed", Windowed(width=2, block=None)]
    refused = model.implicit is not None and model.state_grows
    for mode in modes[:3] if refused else modes:
        found = model.run(tokens[:, 1:], state, Solve(mode), lengths=lengths)
        assert_agree(found.logits, expected.logits, str(mode))
        if not isinstance(mode, Windowed):
            assert_agree(found.state, expected.state, mode)
        assert (found.solution is None) == (model.implicit is None), mode
    if refused:
        assert expected.solution is not None
        assert expected.solution.mode == "sequential"
        for mode in modes[3:]:
            with pytest.raises(
                InputError, match=r"^mode is windowed, which needs a state of constant size; "
            ):
                model.run(tokens[:, 1:], state, Solve(mode), lengths=lengths)


def _first(state: State) -> State:
    return {name: part[0] for name, part in state.items()}


@torch.no_grad()
def test_float32_agrees_with_float64(build: Callable[[], SequenceModel], tokens: Tensor) -> None:
    torch.manual_seed(0)
    exact = build()
    torch.set_default_dtype(torch.float32)
    single = build()
    single.load_state_dict(exact.state_dict())
    logits = single(tokens)
    assert logits.dtype == torch.float32
    # Rounding of 6e-8 through 4 tokens; for the implicit models 5e-6 of the solver over its contraction.
    bound = 2e-6 if single.implicit is None else 1e-4
    torch.testing.assert_close(logits.double(), exact(tokens), rtol=bound, atol=bound)
    state, last = single.step(single.init_state(BATCH), tokens[:, 0])
    floats = [tensor for tensor in (*state.values(), last) if tensor.is_floating_point()]
    assert {tensor.dtype for tensor in floats} == {torch.float32}


@registered
def test_what_needs_a_constant_state_refuses_one_that_grows(model: SequenceModel, tokens: Tensor) -> None:
    asked = (model.states, model.transitions, lambda tokens: model.transition(0))
    for ask in asked if model.state_grows else ():
        with pytest.raises(InputError, match=f"model is {model.name}, whose state grows with every token"):
            ask(tokens)


@torch.no_grad()
def test_the_transition_is_that_of_step(model: SequenceModel, tokens: Tensor) -> None:
    if model.state_grows:
        return
    _, states = scan(model, tokens)
    batch = model.transitions(tokens)
    assert len(batch) == tokens.numel()
    for t in (0, 1, LENGTH - 1):
        for k in range(BATCH):
            before = {name: tensor[k] for name, tensor in states[t].items()}
            transition = batch[k * LENGTH + t] if t else model.transition(int(tokens[k, t]))
            assert {name for names in transition.layer_states for name in names} <= before.keys()
            latent = torch.zeros(transition.latent_size)
            if model.implicit is not None:
                assert transition.damping == model.implicit.solver.damping
                batched = {name: tensor[None] for name, tensor in before.items()}
                solution = model.run(tokens[k : k + 1, t : t + 1], batched, Solve("sequential")).solution
                assert solution is not None
                latent = solution.latents[0, 0]
                residual = (transition.self_map(latent, before) - latent).norm()
                assert residual <= 3 * TIGHT * latent.norm()  # 3: rounding of another order of products
            after = transition.state_update(latent, before)
            assert after.keys() == before.keys()
            for name, tensor in after.items():
                assert_agree(tensor, states[t + 1][name][k])


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in jacfwd itself
def test_the_transition_can_be_differentiated_forward_and_backward(
    model: SequenceModel, tokens: Tensor
) -> None:
    if model.state_grows:
        return
    _, states = scan(model, tokens)
    before = {name: tensor[0] for name, tensor in states[-2].items()}
    transition = model.transition(int(tokens[0, -1]))
    latent = torch.linspace(-1, 1, transition.latent_size)
    for derivative in (0, 1) if transition.latent_size else (1,):
        forward = torch.func.jacfwd(transition.state_update, derivative)(latent, before)
        backward = torch.func.jacrev(transition.state_update, derivative)(latent, before)
        for name in before:
            torch.testing.assert_close(forward[name], backward[name], rtol=1e-10, atol=1e-12)  # rounding


def test_gradients_reach_every_parameter_and_all_are_counted(model: SequenceModel, tokens: Tensor) -> None:
    targets = torch.randint(CLASSES, (BATCH, LENGTH), generator=torch.Generator().manual_seed(3))
    functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name
    count = sum(tensor.numel() for tensor in model.state_dict().values())
    assert model.parameter_count() == count
    *_, last = model.parameters()
    last.requires_grad_(False)
    assert model.parameter_count() == count - last.numel()


@pytest.mark.parametrize("build", [name for name in MODELS if name.startswith("implicit-")], indirect=True)
def test_the_default_gradient_is_exact(model: SequenceModel) -> None:
    tokens = torch.tensor([[1, 0, 2]])
    weights = dict(model.named_parameters())
    groups = [
        {name: weight for name, weight in weights.items() if name.startswith("mixers") == inside}
        for inside in (True, False)
    ]
    with torch.no_grad():
        solution = model.run(tokens).solution
    assert solution is not None
    assert solution.share_converged == 1

    def logits(*vectors: Tensor) -> Tensor:
        parts = {
            k: v for group, vector in zip(groups, vectors, strict=True) for k, v in parts_of(vector, group)
        }
        return torch.func.functional_call(model, parts, (tokens,))

    # Central differences of 1e-6 of solutions exact to 1e-13, within gradcheck's own tolerances, in random
    # directions of the weights of the cells, of all others, and of logits.
    leaves = [vector_of(group).requires_grad_() for group in groups]
    assert torch.autograd.gradcheck(logits, leaves, fast_mode=True)
    found, biased = (
        torch.cat(
            [part.flatten() for part in torch.autograd.grad(output.square().sum(), [*weights.values()])]
        )
        for output in (model(tokens), model.run(tokens, solve=Solve(gradient=Phantom(1))).logits)
    )
    assert (found - biased).norm() > 0.01 * found.norm()  # or little would be tested


@pytest.mark.parametrize("build", [*MODELS, WRAPPED], indirect=True)
def test_models_and_transitions_can_be_copied_pickled_and_saved(model: SequenceModel, tokens: Tensor) -> None:
    given: list[tuple[Any, Callable[[Any], Any]]] = []
    if isinstance(model, tuple(MODELS.values())):  # a wrapped network's step may be any function
        given.append((model, lambda model: model(tokens[:1, :2])))
    if not model.state_grows:
        batch = model.transitions(torch.tensor([1, 2]))
        state = {part: entry[0] + 0.5 for part, entry in model.init_state(1).items()}
        latent = torch.full((batch.latent_size,), 0.25)
        images = lambda one: (one.self_map(latent, state), one.state_update(latent, state))  # noqa: E731
        given += [(model.transition(1), images), (batch[0], images), (batch, lambda batch: images(batch[0]))]
    for value, used in given:
        torch.save(value, file := io.BytesIO())
        file.seek(0)
        copies = (
            pickle.loads(pickle.dumps(value)),
            copy.deepcopy(value),
            torch.load(file, weights_only=False),
        )
        for again in copies:
            assert type(again) is type(value)
            assert value is not model or again.config == model.config
            torch.testing.assert_close(used(again), used(value), rtol=0, atol=0)


BAD_TOKENS = [
    (torch.tensor([[0, VOCABULARY]]), "token 5 is outside the vocabulary; give tokens from 0 to 4"),
    (torch.tensor([[-1, 0]]), "token -1 is outside the vocabulary; give tokens from 0 to 4"),
    (torch.zeros(2, 0, dtype=torch.long), "tokens has shape (2, 0); give [batch, length]"),
    (torch.zeros(0, 2, dtype=torch.long), "tokens has shape (0, 2); give [batch, length]"),
    (torch.zeros(2, dtype=torch.long), "tokens has shape (2,); give [batch, length]"),
    (torch.zeros(2, 2), "tokens has dtype torch.float32; give int64"),
]


@registered
def test_tokens_that_cannot_be_read_are_refused(model: SequenceModel) -> None:
    for tokens, sentence in BAD_TOKENS:
        with pytest.raises(InputError) as caught:
            model(tokens)
        assert str(caught.value).startswith(sentence)
    for token in (VOCABULARY, -1):
        asked = (lambda token: model.step(model.init_state(1), torch.tensor([token])), model.transition)
        for ask in asked[: 1 if model.state_grows else 2]:
            with pytest.raises(InputError, match=f"token {token} is outside the vocabulary"):
                ask(token)
    if not model.state_grows:
        with pytest.raises(InputError, match="tokens has shape"):
            model.transitions(torch.tensor([], dtype=torch.long))


BAD_LENGTHS = [
    (torch.tensor([1, 2]), "lengths has shape (2,) and dtype torch.int64; give int64 of shape (3,)"),
    (torch.tensor([1.0, 2, 3]), "lengths has shape (3,) and dtype torch."),
    (torch.tensor([1, 5, 3]), "lengths holds 5; give numbers in 1 … 4"),
    (torch.tensor([1, 0, 3]), "lengths holds 0; give numbers in 1 … 4"),
    (torch.ones(3, 3, dtype=torch.bool), "lengths is a mask of shape (3, 3); give that of tokens"),
    (torch.tensor([[False] + [True] * 3] * 3), "lengths is a mask with padding before a real token"),
]


@registered
def test_lengths_that_do_not_fit_are_refused(model: SequenceModel, tokens: Tensor) -> None:
    for lengths, sentence in BAD_LENGTHS:
        with pytest.raises(InputError) as caught:
            model.run(tokens, lengths=lengths)
        assert str(caught.value).startswith(sentence)


def test_a_state_that_is_none_of_the_model_is_refused(model: SequenceModel, tokens: Tensor) -> None:
    own = model.init_state(BATCH)
    first = next(iter(own))
    with pytest.raises(InputError, match=f"state has the parts foreign; a state of {model.name} has"):
        model.run(tokens, {"foreign": own[first]})
    with pytest.raises(InputError, match=f"state has the parts foreign; a state of {model.name} has"):
        model.step({"foreign": own[first]}, tokens[:, 0])
    with pytest.raises(InputError, match=f"state holds {first} of shape"):
        model.run(tokens, model.init_state(BATCH + 1))


@pytest.mark.parametrize("name", MODELS)
def test_completed_sizes_build_the_same_model_as_the_defaults(name: str) -> None:
    """The content of a run folder does not change when a default does, for it holds every size."""
    task = make_task("parity")
    sizes = complete_sizes(name, {})
    assert tuple(sizes) == size_names(name)
    assert build_model(name, sizes, task).config == build_model(name, {}, task).config


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_alphabets_follow_from_the_task(alphabet: str) -> None:
    with pytest.raises(InputError, match=f"{alphabet} is 3; leave it out"):
        build_model("lstm", {alphabet: 3}, make_task("parity"))
