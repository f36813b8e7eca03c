"""`ImplicitLayer` and `ExplicitLayer` within a PyTorch network, beside the models whose layers they are."""

import copy
import io
import pickle
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import analysis
import implicit
import theory
from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit import ExplicitLayer, ImplicitLayer, NotConvergedWarning, Phantom, Solve, Stopping
from implicit.cells import AttentionCell, Cell, DeltaNetCell, Mamba2Cell, RMSNorm
from implicit.models.layer import FeatureLayer
from implicit.models.registry import build_model
from implicit.modes import Mode
from tests.implicit.models.conftest import parts_of, vector_of
from tests.implicit.models.test_in_place import LeakyCell
from tests.refusals import refusals

D, BATCH, LENGTH = 8, 3, 4
TIGHT = Solve(stopping=Stopping(rtol=1e-13))


pytestmark = pytest.mark.usefixtures("float64")


def assert_agree(one: Any, other: Any) -> None:
    """In float64, solved to 1e-13 over a contraction."""
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def mamba() -> Cell:
    return Mamba2Cell(D, d_state=4, head_size=4)


LAYERS: dict[str, Callable[[], FeatureLayer]] = {
    "implicit": lambda: ImplicitLayer(mamba(), solve=TIGHT),
    "implicit, two kinds of cells, MLP": lambda: ImplicitLayer(
        [mamba(), DeltaNetCell(D, heads=2, key_size=4, value_size=4)], mlp_size=6, solve=TIGHT
    ),
    "implicit, attention": lambda: ImplicitLayer(
        AttentionCell(D, heads=2, key_value_heads=1, head_size=4), solve=TIGHT
    ),
    "implicit, a cell of a user's": lambda: ImplicitLayer(LeakyCell(D), solve=TIGHT),
    "explicit": lambda: ExplicitLayer([mamba(), mamba()]),
}
KINDS = [name for name in LAYERS if name != "explicit"]


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> FeatureLayer:
    return LAYERS[request.param]()


def features() -> Tensor:
    return torch.randn(BATCH, LENGTH, D, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_sequence_cut_or_padded_gives_what_it_gives_in_one(layer: FeatureLayer) -> None:
    x, lengths = features(), torch.tensor([2, LENGTH, 3])
    whole, state = layer(x)
    assert whole.shape == x.shape
    first, between = layer(x[:, :2])
    second, after = layer(x[:, 2:], between)
    assert_agree(torch.cat([first, second], 1), whole)
    assert_agree(after, state)
    real = torch.arange(LENGTH) < lengths[:, None]
    padded = layer(x.masked_fill(~real[..., None], torch.nan), lengths=lengths)[0]
    assert_agree(padded, whole.masked_fill(~real[..., None], 0))


def test_gradients_in_features_state_and_weights_are_exact(layer: FeatureLayer) -> None:
    """By gradcheck, in random directions; of one sequence, behind another."""
    x = features()[:1, :2]
    state = layer(x.flip(1))[1]
    names = [name for name, part in state.items() if part.is_floating_point()]
    weights = dict(layer.named_parameters())

    def outputs(x: Tensor, vector: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        given = {**state, **dict(zip(names, others, strict=True))}
        output, after = torch.func.functional_call(layer, dict(parts_of(vector, weights)), (x, given))
        return output, *(after[name] for name in names)

    leaves = [x, vector_of(weights), *(state[name] for name in names)]
    assert torch.autograd.gradcheck(
        outputs, [leaf.detach().clone().requires_grad_() for leaf in leaves], fast_mode=True
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_weights_of_the_forward_pass(kind: str) -> None:
    layer, x = LAYERS[kind](), features()
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(1 + 0.2 * torch.rand_like(weight))

    def gradients(output: Tensor, weights: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return torch.autograd.grad(output.square().cumsum(1).sum(), list(weights))

    expected = gradients(other(x)[0], other.parameters())
    weights = {name: weight.detach().clone().requires_grad_() for name, weight in other.named_parameters()}
    assert_agree(gradients(torch.func.functional_call(layer, weights, (x,))[0], weights.values()), expected)
    output = other(x)[0]
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(output, other.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_hooks_attributes_and_modules_of_the_forward_pass(kind: str) -> None:
    layer, x = LAYERS[kind](), features()
    (cell, *_) = layer.cells
    weights, gradients = list(layer.parameters()), []
    for changes in (False, True):
        hook = cell.register_forward_hook(lambda _, given, found: (0.5 * found[0], found[1]))
        cell.gain = torch.full((), 0.7)
        loss = layer(x)[0].square().cumsum(1).sum()
        if changes:
            hook.remove()
            cell.gain = torch.full((), -0.7)
            layer.residual = not layer.residual
            layer.mixers[0] = LAYERS[kind]().mixers[0]
        gradients.append(torch.autograd.grad(loss, weights))
        hook.remove()
    assert_agree(gradients[1], gradients[0])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_state_of_the_forward_pass(kind: str) -> None:
    layer, gradients = LAYERS[kind](), []
    for changes in (False, True):
        state = layer.init_state(BATCH)
        loss = layer(features(), state)[0].square().cumsum(1).sum()
        if changes:
            state.update({name: part + 0.3 for name, part in state.items()})
        gradients.append(torch.autograd.grad(loss, list(layer.parameters())))
    assert_agree(gradients[1], gradients[0])


class Network(nn.Module):
    """Layers of PyTorch before and behind ours, which is one branch of a residual network."""

    def __init__(self, layer: FeatureLayer) -> None:
        super().__init__()
        self.before, self.norm, self.layer, self.head = (
            nn.Linear(5, D),
            nn.LayerNorm(D),
            layer,
            nn.Linear(D, 2),
        )

    def forward(self, x: Tensor) -> Tensor:
        stream = self.before(x)
        return self.head(stream + self.layer(self.norm(stream))[0])


def gradients_of(network: nn.Module, answer: Callable[[Tensor], Tensor]) -> list[Tensor]:
    x = torch.randn(BATCH, LENGTH, 5, generator=torch.Generator().manual_seed(2))
    return list(torch.autograd.grad(answer(x).square().sum(), list(network.parameters())))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")  # dynamo reads it
@pytest.mark.parametrize("kind", ["implicit", "explicit"])
def test_compiled_and_checkpointed_networks_learn_as_the_network(kind: str) -> None:
    torch._dynamo.reset()
    network = Network(LAYERS[kind]())
    expected = gradients_of(network, network)
    compiled = torch.compile(network, backend="eager")
    checkpointed = lambda x: checkpoint(network, x, use_reentrant=False)  # noqa: E731
    for answer in (compiled, checkpointed):
        for found, one in zip(gradients_of(network, answer), expected, strict=True):
            assert_agree(found, one)


@pytest.mark.filterwarnings("ignore:rtol is .* which bfloat16 cannot resolve:UserWarning")
@pytest.mark.parametrize("kind", LAYERS)
def test_autocast_gives_nearly_the_same_outputs_and_gradients(kind: str) -> None:
    torch.set_default_dtype(torch.float32)
    network = Network(LAYERS[kind]())
    if isinstance(network.layer, ImplicitLayer):
        network.layer.solve = Solve()

    def in_half(x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return network(x.float()).float()

    expected = torch.cat([part.flatten() for part in gradients_of(network, lambda x: network(x.float()))])
    found = torch.cat([part.flatten() for part in gradients_of(network, in_half)])
    assert found.dtype == torch.float32
    assert (found - expected).norm() < 0.1 * expected.norm()  # 8 bits, and a solve to 0.02


@pytest.mark.parametrize("kind", ["implicit, two kinds of cells, MLP", "explicit"])
def test_copies_pickles_and_state_dicts_give_the_same_outputs(kind: str) -> None:
    layer, x, file = LAYERS[kind](), features()[:1, :2], io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)]
    other = copy.deepcopy(layer)
    nn.init.normal_(next(other.parameters()))
    other.load_state_dict(layer.state_dict())
    for again in (*copies, other):
        assert torch.equal(again(x)[0], layer(x)[0])


def test_mode_and_gradient_are_options_and_status_is_told() -> None:
    layer = ImplicitLayer(mamba(), solve=Solve("simultaneous", gradient=Phantom(1)))
    solution = layer.run(features()).solution
    assert solution is not None
    assert solution.mode == "simultaneous"
    assert solution.share_converged == 1
    biased, exact = (
        torch.autograd.grad(
            layer.run(features(), solve=solve).features[..., 0].sum(), layer.input_norm.weight
        )
        for solve in (None, Solve())
    )
    assert (biased[0] - exact[0]).norm() > 0.01 * exact[0].norm()
    with pytest.warns(NotConvergedWarning, match="outputs without a fixed point at 12 of 12 tokens"):
        (layer := ImplicitLayer(mamba(), solve=Solve(stopping=Stopping(max_iterations=2))))(features())
    layer(features())  # in training it warns once


@pytest.mark.parametrize("mode", ["auto", "sequential", "simultaneous", "windowed"])
def test_features_are_nan_from_a_token_of_nan_on(mode: Mode) -> None:
    layer = ImplicitLayer(DeltaNetCell(D, heads=2, key_size=4, value_size=4), solve=Solve(mode))
    x = features()
    x[1, 2, 0] = torch.nan
    lost = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    lost[1, 2:] = True
    with pytest.warns(NotConvergedWarning, match=r"at 2 of 12 tokens .*; check its input and weights"):
        found = layer(x)[0]
    assert torch.equal(found.isnan(), lost[..., None].expand_as(found))


class NoProjection(Cell):
    injection_size = D
    recurrent_parts = ()

    def init_state(self, batch_size: int) -> dict[str, Tensor]:
        return {}

    def step(self, inputs, state, injection=None):  # type: ignore[no-untyped-def]
        return inputs + (0 if injection is None else injection), state


def hooked() -> ImplicitLayer:
    layer = ImplicitLayer(mamba())
    layer.register_forward_pre_hook(lambda *_: None)
    return layer


test_what_does_not_fit_is_refused_in_a_sentence = refusals(
    (lambda: ImplicitLayer([]), "^cells is empty; give at least one cell"),
    (lambda: ImplicitLayer(Mamba2Cell), "^one of cells is the class Mamba2Cell; give a Cell"),  # type: ignore[arg-type]
    (lambda: ExplicitLayer(nn.Linear(2, 2)), "^one of cells is of type Linear; give a Cell"),  # type: ignore[arg-type]
    (lambda: ImplicitLayer(NoProjection()), "^d_model is None, and NoProjection has no in_proj to tell"),
    (lambda: ImplicitLayer(mamba(), 9), "^d_model is 9, but Mamba2Cell reads 8; give one width"),
    (lambda: ImplicitLayer(mamba(), solve="sequential"), "^solve is 'sequential'; give Solve"),  # type: ignore[arg-type]
    (lambda: ImplicitLayer(mamba(), mlp_size=-1), "^mlp_size is -1; give at least 0"),
    (lambda: ImplicitLayer(mamba(), residual="yes"), "^residual is 'yes'; give True or False"),  # type: ignore[arg-type]
    (lambda: ImplicitLayer(mamba())(torch.ones(2, D)), r"^features has shape \(2, 8\); give"),
    (lambda: ImplicitLayer(mamba())([[0.0]]), r"^features is \[\[0.0\]\]; give a tensor"),
    (lambda: theory.check(hooked(), torch.zeros(2, 8)), "has hooks, which its transition does not call"),
    (lambda: theory.check(ImplicitLayer(mamba()), [0]), r"^token is 0; a layer takes features, \[8\]"),
    (lambda: theory.check(nn.Sequential(ImplicitLayer(mamba())), [0]), "model.0, features"),  # type: ignore[arg-type]
    (lambda: ExplicitLayer(mamba())(features().float()), "^features has dtype torch.float32 on cpu, and"),
    (lambda: ExplicitLayer(mamba())(features(), {"h": features()}), "^state has the parts h; a state of"),
    (lambda: ExplicitLayer(mamba())(features(), lengths=torch.ones(2)), r"^lengths has shape \(2,\)"),
)


@torch.no_grad()
def test_a_cell_without_a_projection_is_a_layer_by_its_width() -> None:
    assert ImplicitLayer(NoProjection(), D)(features())[0].shape == (BATCH, LENGTH, D)


@pytest.mark.parametrize("cell", [Mamba2Cell(8, d_state=4, head_size=4), AttentionCell(8)], ids=type)
def test_the_gradient_at_the_output_is_that_of_what_follows(cell: Cell) -> None:
    """The adjoint belongs to what lies behind the output: a hook that clips sees the loss's own gradient."""
    features, _ = ImplicitLayer(cell).double()(torch.randn(1, 3, 8, dtype=torch.float64))
    (slope,) = torch.autograd.grad(features.sum(), features)
    assert torch.equal(slope, torch.ones_like(features))


def test_theorem_1_says_of_a_layer_what_it_says_of_a_model_with_that_layer() -> None:
    torch.manual_seed(0)
    sizes = {"d_model": D, "d_state": 4, "head_size": 4}
    model: Any = build_model("implicit-mamba2", sizes, make_task("S3"))
    layer, embedding = ImplicitLayer(mamba(), residual=True), model.embedding
    for part in ("mixers", "mixer_norms", "injections", "latent_norm"):
        setattr(layer, part, getattr(model, part))
    layer.input_norm = model.embedding_norm
    tokens = torch.tensor([[0, 1, 2], [2, 1, 0]])
    found = theory.check(layer, embedding(tokens), states=2, seed=0)
    expected = theory.check(model, tokens, states=2, seed=0)
    assert found.reasons == expected.reasons
    assert found.conditions == {"C1": "holds", "C2": "holds", "C3": "holds", "C4": "holds"}
    for quantity in ("spectral_radius", "off_diagonal_mass", "nonlinearity"):
        np.testing.assert_allclose(found.values(quantity), expected.values(quantity), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::implicit.fixed_point.NotConvergedWarning")  # alike in both
@pytest.mark.parametrize("other", ["epsilon", "groups"])
def test_norms_of_several_epsilons_or_groups_are_each_their_own(other: str) -> None:
    """The kernel has one epsilon, and one number of groups."""
    cell: Any = mamba()
    layer = ImplicitLayer(cell)
    if other == "epsilon":
        layer.mixer_norms[0] = RMSNorm(D, epsilon=0.5)
    else:
        cell.norm.groups = 2
    features = torch.randn(2, 4, D, generator=torch.Generator().manual_seed(0))
    found = layer(features)[0]
    layer.sequential_backend = "loop"
    torch.testing.assert_close(found, layer(features)[0])


def test_the_verdict_on_a_network_names_its_layer() -> None:
    net = nn.ModuleDict({"layer": ImplicitLayer(mamba()), "embedding": nn.Embedding(2, D)})
    state = {name: part[0] for name, part in net["layer"].init_state(1).items()}  # type: ignore[operator]
    model = implicit.wrap(net, step_of_a_network, state, vocabulary_size=2)
    assert "its part module.layer, which seeks fixed points" in theory.check(model, [0, 1], states=1).sentence
    asked: Any
    for asked, words in ((model, "model.module.layer"), (net, "model.layer"), (net["layer"], "layer")):
        with pytest.raises(InputError, match=rf"theory\.check\({re.escape(words)}, features\), or give the"):
            analysis.ask("agreement", asked, task="parity")
    model.module["layer"].solve = Solve(stopping=Stopping(max_iterations=2))  # type: ignore[index]
    with pytest.warns(NotConvergedWarning, match="the analysis met more such calls"):
        analysis.ask("jacobian", model, task="parity", states=2, length=4, sequences=2)


def test_an_explicit_layer_is_the_control_by_itself_and_in_a_network() -> None:
    """The windows of its convolution are no state that a theorem speaks of, wherever they are named."""
    net = nn.ModuleDict({"layer": ExplicitLayer(mamba()), "embedding": nn.Embedding(2, D)})
    state = {name: part[0] for name, part in net["layer"].init_state(1).items()}  # type: ignore[operator]
    model = implicit.wrap(net, step_of_a_network, state, vocabulary_size=2)
    assert "conv.0" in state
    asked: Any
    for asked, read in ((model, [0, 1, 1, 0]), (net["layer"], net["embedding"](torch.tensor([0, 1, 1, 0])))):
        assert theory.check(asked, read).kind.value == "diagonal and linear"


def step_of_a_network(net: Any, state: Any, token: Tensor) -> tuple[Any, Tensor]:
    outputs, after = net["layer"](net["embedding"](token)[:, None], state)
    return after, outputs[:, 0, :2]
