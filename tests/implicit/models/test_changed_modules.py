"""Modules that are replaced, hooked or reparametrised are called, in every form of every model.

The oracle is the same change made in the weights themselves.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.enclosed.mamba2 import enclosable
from implicit.gradients import FactoredImplicit, Implicit
from implicit.models import GRU, ImplicitMamba2, Mamba2, SequenceModel
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Solve
from tests.implicit.models.conftest import build_case, scan

NAMES = (
    "implicit-mamba2, 2 layers",
    "implicit-mamba3",
    "implicit-gated-deltaproduct",
    "implicit-transformer",
    "mamba2, MLP",
    "mamba3",
    "deltanet",
    "gated-deltanet",
    "pd-ssm",
    "transformer",
    "lstm, 2 layers",
    "slstm, 2 layers",
    "gru",
    "elman",
)
RECURRENT = nn.LSTM | nn.GRU | nn.RNN


pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture(params=NAMES)
def model(request: pytest.FixtureRequest) -> SequenceModel:
    torch.manual_seed(0)
    return build_case(request.param).eval()


class Adapted(nn.Module):
    """A projection plus one of its own, as LoRA has it; no module of `torch.nn`."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.added = base, nn.Linear(base.in_features, base.out_features, bias=False)
        with torch.no_grad():
            self.added.weight.copy_(0.2 * base.weight.roll(1, 0))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.added(x)


def adapted(model: SequenceModel) -> tuple[SequenceModel, SequenceModel]:
    """A copy with adapters on all projections, and one with the adapters merged."""
    with_adapters, merged = copy.deepcopy(model), copy.deepcopy(model)
    for name, layer in model.named_modules():
        if type(layer) is nn.Linear:
            adapter = Adapted(copy.deepcopy(layer))
            with_adapters.set_submodule(name, adapter)
            with torch.no_grad():
                merged.get_parameter(f"{name}.weight").add_(adapter.added.weight)
    return with_adapters, merged


def test_adapters_do_what_they_do_once_merged(model: SequenceModel, tokens: Tensor) -> None:
    with_adapters, merged = adapted(model)
    expected = merged(tokens)
    for form in (with_adapters.forward, lambda tokens: scan(with_adapters, tokens)[0]):
        torch.testing.assert_close(form(tokens), expected, rtol=1e-8, atol=1e-8)
    if not model.state_grows:
        torch.testing.assert_close(with_adapters.states(tokens), merged.states(tokens), rtol=1e-8, atol=1e-8)
    with_adapters(tokens).square().sum().backward()
    gradients = {name: weight.grad for name, weight in with_adapters.named_parameters() if "added" in name}
    assert [name for name, gradient in gradients.items() if gradient is None or not gradient.any()] == []


def test_weights_that_hooks_renew_are_not_stale(model: SequenceModel, tokens: Tensor) -> None:
    renewed, scaled = copy.deepcopy(model), copy.deepcopy(model)
    for name, layer in model.named_modules():
        if type(layer) in (nn.Linear, nn.Conv1d) or isinstance(layer, RECURRENT):
            weight = "weight_hh_l0" if isinstance(layer, RECURRENT) else "weight"
            with pytest.warns(FutureWarning):
                nn.utils.weight_norm(renewed.get_submodule(name), weight)
            with torch.no_grad():
                renewed.get_parameter(f"{name}.{weight}_g").mul_(1.2)
                scaled.get_parameter(f"{name}.{weight}").mul_(1.2)
    expected = scaled(tokens)
    torch.testing.assert_close(scan(renewed, tokens)[0], expected, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(copy.deepcopy(renewed)(tokens), expected, rtol=1e-8, atol=1e-8)


def test_hooks_of_all_modules_fire(model: SequenceModel, tokens: Tensor) -> None:
    lists = nn.ModuleList | nn.Sequential
    parts = {part for part in model.modules() if part is not model and not isinstance(part, lists)}
    for form in (lambda: model(tokens), lambda: scan(model, tokens)[0]):
        for everywhere in (False, True):
            fired: set[nn.Module] = set()

            def hook(module: nn.Module, *_: object, fired: set[nn.Module] = fired) -> None:
                fired.add(module)

            handles = [] if everywhere else [part.register_forward_hook(hook) for part in parts]
            handles += [register_module_forward_hook(hook)] if everywhere else []
            form()
            for handle in handles:
                handle.remove()
            assert parts <= fired


def test_a_hook_on_a_cell_changes_its_single_tokens_and_states_too(tokens: Tensor) -> None:
    model = build_case("mamba2, 2 layers")
    model.get_submodule("mixers.0").register_forward_pre_hook(lambda _, given: (2 * given[0], *given[1:]))
    torch.testing.assert_close(scan(model, tokens)[0], model(tokens))
    after = model.run(tokens).state
    assert {name: part[:, -1] for name, part in model.states(tokens).items()}.keys() == after.keys()
    for name, part in model.states(tokens).items():
        torch.testing.assert_close(part[:, -1], after[name])


@pytest.mark.parametrize("name", ["implicit-mamba2, 2 layers", "implicit-mamba2, MLP", "implicit-deltanet"])
def test_written_out_derivatives_and_adjoint_kernels_step_aside(name: str, tokens: Tensor) -> None:
    model, _ = adapted(build_case(name))
    weight = model.get_parameter("embedding.weight")
    exact, iterated = (
        torch.autograd.grad(model.run(tokens, solve=Solve(gradient=rule)).logits.square().sum(), weight)[0]
        for rule in (FactoredImplicit(), Implicit())
    )
    torch.testing.assert_close(exact, iterated, rtol=1e-6, atol=1e-8)


def quantised(model: SequenceModel) -> SequenceModel:
    """Linear maps without parameters, whose ``weight`` is a method."""
    return torch.ao.quantization.quantize_dynamic(model.float(), {nn.Linear})


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ["mamba2, MLP", "gated-deltanet", "pd-ssm", "transformer", "gru"])
def test_quantised_projections_are_called(name: str, tokens: Tensor) -> None:
    torch.set_default_dtype(torch.float32)
    model = build_case(name).eval()
    exact, rough = model.float()(tokens), quantised(model)(tokens)
    assert 0 < float((rough - exact).abs().max()) < 0.3 * float(exact.abs().max())


def change_bias(model: SequenceModel) -> None:
    layer = model.get_submodule("mixers.0.in_proj")
    assert isinstance(layer, nn.Linear)
    biased = nn.Linear(layer.in_features, layer.out_features)
    biased.weight = layer.weight
    model.set_submodule("mixers.0.in_proj", biased)


def change_forward(model: SequenceModel) -> None:
    norm = model.get_submodule("mixers.0.norm")
    forward = norm.forward
    vars(norm)["forward"] = lambda *given: 1 + forward(*given)


class NegatedCell(Mamba2Cell):
    def step(self, *given: Any) -> Any:
        output, state = super().step(*given)
        return -output, state

    def forward(self, *given: Any) -> Any:
        output, state = super().forward(*given)
        return -output, state


def change_class(model: SequenceModel) -> None:
    model.get_submodule("mixers.0").__class__ = NegatedCell


def change_norm(model: SequenceModel) -> None:
    norm, size = model.get_submodule("mixer_norms.0"), len(model.get_parameter("mixer_norms.0.weight"))
    model.set_submodule("mixer_norms.0", nn.Sequential(norm, nn.Linear(size, size, bias=False)))


@pytest.mark.parametrize("change", [change_bias, change_forward, change_class, change_norm])
@pytest.mark.parametrize("kind", [Mamba2, ImplicitMamba2])
def test_a_bias_or_another_forward_or_class_counts(
    kind: type[SequenceModel], change: Callable[[SequenceModel], None], tokens: Tensor
) -> None:
    model = build_case(kind.name)
    before = model(tokens)
    change(model)
    assert not torch.allclose(model(tokens), before)
    model(tokens).sum().backward()
    torch.testing.assert_close(scan(model, tokens)[0], model(tokens), rtol=1e-8, atol=1e-8)
    if isinstance(model, ImplicitModel):
        model.sequential_backend = "numba"
        with torch.no_grad(), pytest.raises(InputError, match="without MLP, adapters and hooks"):
            model.run(tokens, solve=Solve("sequential"))


def test_transitions_of_a_network_that_does_something_else_are_refused(tokens: Tensor) -> None:
    model = build_case("gru")
    assert isinstance(model, GRU)
    handle = model.network.register_forward_hook(lambda *_: None)  # which changes nothing
    model.transitions(tokens[0])
    handle.remove()
    model.network.register_forward_hook(lambda _, __, found: (found[0], 2 * found[1]))
    with pytest.raises(InputError, match="network"):
        model.transitions(tokens[0])


def test_what_ball_arithmetic_has_no_form_of_is_refused() -> None:
    model = build_case("implicit-mamba2")
    enclosable(model)
    hooked, lengthened = copy.deepcopy(model), copy.deepcopy(model)
    change_norm(lengthened)
    hooked.get_submodule("embedding").register_forward_hook(lambda _, __, found: 2 * found)
    mapped: Any = copy.deepcopy(model)
    mapped.latent_norm = nn.Linear(mapped.latent_size, mapped.latent_size, bias=False)
    mapped(torch.zeros(1, 3, dtype=torch.int64)).sum().backward()
    for changed in (adapted(model)[0], hooked, lengthened, mapped):
        with pytest.raises(InputError, match="adapters"):
            enclosable(changed)


@pytest.mark.parametrize("change", [{"nonlinearity": "relu"}, {"bias": False}, {"batch_first": False}])
def test_a_network_of_another_form_is_called_or_refused(change: dict[str, Any], tokens: Tensor) -> None:
    model: Any = build_case("elman").eval()
    size = model.config.d_model
    model.rnn = nn.RNN(size, size, **{"batch_first": True, **change})
    if "batch_first" in change:
        for form in (model, lambda tokens: scan(model, tokens)):
            with pytest.raises(
                InputError, match="batch_first of RNN is False; make it with batch_first=True"
            ):
                form(tokens)
        return
    torch.testing.assert_close(scan(model, tokens)[0], model(tokens), rtol=1e-8, atol=1e-8)
    if "bias" in change:
        model.transition(0)
    else:
        with pytest.raises(InputError, match="another class or a ReLU change, of which there is no step"):
            model.transition(0)


def test_dropout_between_layers_counts_in_training_only(tokens: Tensor) -> None:
    model: Any = build_case("lstm, 2 layers").train()
    model.lstm.dropout = 1.0
    torch.testing.assert_close(scan(model, tokens)[0], model(tokens))
    model.transition(0)
