"""The contract of `SequenceModel`: add a line to MODELS and a model gets every test of this file.

A randomly initialised implicit model may have several fixed points or none that the iteration reaches. The
contract compares two ways to a fixed point, which must be unique for that. So the path of the latent into the
mixers is made weak beside the injection (in_proj times 0.25) and their output strong beside the residual
(out_proj times 2): on every seed tried, both modes then converge to the same point within the tolerance.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.lstm import LSTM, LSTMConfig
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config, Mamba2, Mamba2Config
from tests.solving import solved
from theory.transition import State

VOCABULARY, CLASSES, BATCH, LENGTH = 5, 3, 3, 6


def lstm(layers: int) -> SequenceModel:
    return LSTM(LSTMConfig(vocabulary_size=VOCABULARY, output_size=CLASSES, d_model=8, layers=layers))


def mamba2(layers: int, d_conv: int = 3) -> SequenceModel:
    config = Mamba2Config(
        vocabulary_size=VOCABULARY,
        output_size=CLASSES,
        d_model=8,
        layers=layers,
        d_state=4,
        head_size=4,
        d_conv=d_conv,
        groups=2,
    )
    return Mamba2(config)


def implicit_mamba2(layers: int, residual: bool, d_conv: int = 3) -> SequenceModel:
    config = ImplicitMamba2Config(
        vocabulary_size=VOCABULARY,
        output_size=CLASSES,
        d_model=8,
        layers=layers,
        d_state=4,
        head_size=4,
        d_conv=d_conv,
        groups=2,
        residual=residual,
        # a little above what rounding allows
        rtol=1e-11 if torch.get_default_dtype() == torch.float64 else 5e-6,
    )
    model = ImplicitMamba2(config)
    with torch.no_grad():
        for layer in range(layers):
            model.get_parameter(f"mixers.{layer}.in_proj.weight").mul_(0.25)
            model.get_parameter(f"mixers.{layer}.out_proj.weight").mul_(2)
    return model


MODELS: dict[str, Callable[[], SequenceModel]] = {
    "lstm": lambda: lstm(1),
    "lstm-2-layers": lambda: lstm(2),
    "mamba2": lambda: mamba2(1),
    "mamba2-2-layers": lambda: mamba2(2),
    "mamba2-no-convolution": lambda: mamba2(2, d_conv=1),
    "implicit": lambda: implicit_mamba2(1, residual=True),
    "implicit-2-layers": lambda: implicit_mamba2(2, residual=True),
    "implicit-no-residual": lambda: implicit_mamba2(1, residual=False),
    "implicit-2-layers-no-residual": lambda: implicit_mamba2(2, residual=False),
    "implicit-no-convolution": lambda: implicit_mamba2(1, residual=True, d_conv=1),
}

# Relative solver tolerance 1e-11 over a contraction: latents and logits of order one to about 1e-10.
# The explicit models differ by float64 rounding only.
SOLVED, EXACT = 1e-8, 1e-12


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(params=MODELS)
def build(request: pytest.FixtureRequest) -> Callable[[], SequenceModel]:
    return MODELS[request.param]


@pytest.fixture
def model(build: Callable[[], SequenceModel]) -> SequenceModel:
    torch.manual_seed(0)
    return build().eval()


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(2))


def assert_agree(model: SequenceModel, one: Tensor, other: Tensor) -> None:
    tolerance = SOLVED if isinstance(model, ImplicitModel) else EXACT
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def scan(model: SequenceModel, tokens: Tensor) -> tuple[Tensor, list[State]]:
    """Run `step` over the tokens; return logits and the states before every token and after the last."""
    states, logits = [model.init_state(len(tokens))], []
    for token in tokens.unbind(1):
        state, scores = model.step(states[-1], token)
        states.append(state)
        logits.append(scores)
    return torch.stack(logits, 1), states


@torch.no_grad()
def test_the_parallel_form_is_the_scan_of_step(model: SequenceModel, tokens: Tensor) -> None:
    logits = model(tokens)
    assert logits.shape == (BATCH, LENGTH, CLASSES)
    assert_agree(model, logits, scan(model, tokens)[0])


@torch.no_grad()
def test_a_sequence_gives_the_same_alone_and_in_a_batch(model: SequenceModel, tokens: Tensor) -> None:
    together, step_by_step = model(tokens), scan(model, tokens)[0]
    for k in range(BATCH):
        alone = model(tokens[k : k + 1])[0]
        # Both end after the same iterations: rounding of products of another shape.
        torch.testing.assert_close(alone, together[k], rtol=1e-11, atol=1e-12)
    alone = scan(model, tokens[1:2])[0][0]
    torch.testing.assert_close(alone, step_by_step[1], rtol=1e-11, atol=1e-12)


@torch.no_grad()
def test_float32_agrees_with_float64(build: Callable[[], SequenceModel], tokens: Tensor) -> None:
    torch.manual_seed(0)
    exact = build()
    torch.set_default_dtype(torch.float32)
    single = build()
    single.load_state_dict(exact.state_dict())
    logits = single(tokens)
    assert logits.dtype == torch.float32
    # Rounding of 6e-8 through 6 tokens; for the implicit models 5e-6 of the solver over its contraction.
    bound = 1e-4 if isinstance(single, ImplicitModel) else 2e-6
    torch.testing.assert_close(logits.double(), exact(tokens), rtol=bound, atol=bound)
    state, last = single.step(single.init_state(BATCH), tokens[:, 0])
    assert {tensor.dtype for tensor in (*state.values(), last)} == {torch.float32}


@torch.no_grad()
def test_saved_and_loaded_weights_give_identical_outputs(
    build: Callable[[], SequenceModel], tokens: Tensor, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = build()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    torch.manual_seed(1)
    other = build()
    assert not torch.equal(other(tokens), model(tokens))
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(tokens), model(tokens))


@pytest.mark.parametrize("position", [0, 3, LENGTH - 1])
@torch.no_grad()
def test_a_token_changes_no_earlier_logits_and_its_own(
    model: SequenceModel, tokens: Tensor, position: int
) -> None:
    changed = tokens.clone()
    changed[0, position] = (changed[0, position] + 1) % VOCABULARY
    before, after = model(tokens), model(changed)
    # The windows of one sequence decide the shapes of products with the others: rounding.
    torch.testing.assert_close(before[0, :position], after[0, :position], rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(before[1:], after[1:], rtol=1e-11, atol=1e-12)
    assert (before[0, position:] - after[0, position:]).abs().amax(-1).min() > 1e-6  # carried to the end


@torch.no_grad()
def test_the_state_has_a_batch_axis_and_keeps_its_shapes(model: SequenceModel, tokens: Tensor) -> None:
    _, states = scan(model, tokens)
    for state in states:
        assert state.keys() == states[0].keys()
        for name, tensor in state.items():
            assert tensor.shape == states[0][name].shape
            assert len(tensor) == BATCH
            assert tensor.isfinite().all()
    assert all((tensor == 0).all() for tensor in states[0].values())


@torch.no_grad()
def test_the_transition_is_that_of_step(model: SequenceModel, tokens: Tensor) -> None:
    _, states = scan(model, tokens)
    for t in (0, 1, LENGTH - 1):
        for k in range(BATCH):
            before = {name: tensor[k] for name, tensor in states[t].items()}
            token = tokens[k, t].item()
            assert isinstance(token, int)
            transition = model.transition(token)
            assert {name for names in transition.layer_states for name in names} <= before.keys()
            latent = torch.zeros(transition.latent_size)
            if isinstance(model, ImplicitModel):
                assert transition.damping == model.config.damping
                batched = {name: tensor[None] for name, tensor in before.items()}
                latent = solved(model, tokens[k : k + 1, t : t + 1], "sequential", state=batched).latents[
                    0, 0
                ]
                residual = (transition.self_map(latent, before) - latent).norm()
                assert residual <= 1.01 * model.config.rtol * latent.norm()  # 1.01: rounding of the batch
            after = transition.state_update(latent, before)
            assert after.keys() == before.keys()
            for name, tensor in after.items():
                assert_agree(model, tensor, states[t + 1][name][k])


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in jacfwd itself
def test_the_transition_can_be_differentiated_forward_and_backward(
    model: SequenceModel, tokens: Tensor
) -> None:
    _, states = scan(model, tokens)
    before = {name: tensor[0] for name, tensor in states[4].items()}
    transition = model.transition(int(tokens[0, 4]))
    latent = torch.linspace(-1, 1, transition.latent_size)
    for derivative in (0, 1) if transition.latent_size else (1,):
        forward = torch.func.jacfwd(transition.state_update, derivative)(latent, before)
        backward = torch.func.jacrev(transition.state_update, derivative)(latent, before)
        for name in before:
            torch.testing.assert_close(forward[name], backward[name], rtol=1e-10, atol=1e-12)  # rounding


def test_gradients_reach_every_parameter(model: SequenceModel, tokens: Tensor) -> None:
    targets = torch.randint(CLASSES, (BATCH, LENGTH), generator=torch.Generator().manual_seed(3))
    functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_parameters_are_counted(model: SequenceModel) -> None:
    assert model.parameter_count() == sum(tensor.numel() for tensor in model.state_dict().values())
    model.get_parameter("head.bias").requires_grad_(False)
    assert model.parameter_count() == sum(tensor.numel() for tensor in model.state_dict().values()) - CLASSES


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [
        (torch.tensor([[0, VOCABULARY]]), "token 5 is outside the vocabulary; give tokens from 0 to 4"),
        (torch.tensor([[-1, 0]]), "token -1 is outside the vocabulary; give tokens from 0 to 4"),
        (torch.zeros(2, 0, dtype=torch.long), "tokens has shape (2, 0); give [batch, length]"),
        (torch.zeros(0, 2, dtype=torch.long), "tokens has shape (0, 2); give [batch, length]"),
        (torch.zeros(2, dtype=torch.long), "tokens has shape (2,); give [batch, length]"),
        (torch.zeros(2, 2), "tokens has dtype torch.float32; give int64"),
    ],
    ids=["above", "below", "empty-sequence", "empty-batch", "no-batch", "not-integers"],
)
def test_tokens_that_cannot_be_read_are_refused(model: SequenceModel, tokens: Tensor, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        model(tokens)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("token", [VOCABULARY, -1])
def test_step_and_transition_refuse_a_token_outside_the_vocabulary(model: SequenceModel, token: int) -> None:
    with pytest.raises(InputError, match=f"token {token} is outside the vocabulary"):
        model.step(model.init_state(1), torch.tensor([token]))
    with pytest.raises(InputError, match=f"token {token} is outside the vocabulary"):
        model.transition(token)
