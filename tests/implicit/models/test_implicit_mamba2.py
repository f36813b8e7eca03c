"""ImplicitMamba2 beyond the contract: its self-map, its modes, its gradients, and what it says of failure."""

import warnings

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.fixed_point import NotConvergedWarning, Status, Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Mode
from tests.small_models import contracting_mamba2 as contracting
from tests.solving import solved

TOKENS = torch.randint(5, (2, 7), generator=torch.Generator().manual_seed(2))


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return functional.rms_norm(x, weight.shape, weight, eps=1e-5)


def self_map_written_out(model: ImplicitModel, z: Tensor, tokens: Tensor) -> Tensor:
    """Apply Φ of all tokens together: z ← norm(z + mixer(norm(z), V norm(e))), layer after layer."""
    embedded = rms_norm(model.embedding.weight[tokens], model.embedding_norm.weight)
    stream = z
    for layer, mixer in enumerate(model.mixers):
        assert isinstance(mixer, Mamba2Cell)
        injection = embedded @ model.get_parameter(f"injections.{layer}.weight").T
        normalised = rms_norm(stream, model.get_parameter(f"mixer_norms.{layer}.weight"))
        output, _ = mixer(normalised, mixer.init_state(len(z)), injection)
        stream = stream + output if model.config.residual else output
    return rms_norm(stream, model.latent_norm.weight)


@pytest.mark.parametrize("residual", [True, False], ids=["residual", "no-residual"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", ["simultaneous", "sequential"])
@torch.no_grad()
def test_the_solution_is_a_fixed_point_of_the_self_map_written_out(
    layers: int, residual: bool, mode: Mode
) -> None:
    model = contracting(layers, residual=residual)
    for name, weight in model.named_parameters():
        if "norm" in name:  # the initial ones would hide a weight that is not used
            weight.add_(0.3 * torch.randn_like(weight))
    solution = solved(model, TOKENS, mode)
    assert solution.converged.all()
    image = self_map_written_out(model, solution.latents, TOKENS)
    # 1e-11 of the solver, amplified in the sequential mode by what earlier tokens pass on.
    torch.testing.assert_close(image, solution.latents, rtol=0, atol=1e-9)
    logits = solution.latents @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(solution.logits, logits, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(model.problem(TOKENS).function(image), image, rtol=0, atol=1e-9)


@torch.no_grad()
def test_the_iterates_are_damped_steps_of_the_self_map_from_zero() -> None:
    model = contracting(2)
    z = torch.zeros(2, 7, 8, dtype=torch.float64)
    for _ in range(3):
        z = 0.2 * z + 0.8 * self_map_written_out(model, z, TOKENS)
    stopped = solved(model, TOKENS, stopping=Stopping(rtol=0, max_iterations=4))  # the fourth only measures
    torch.testing.assert_close(stopped.latents, z, rtol=1e-12, atol=1e-13)  # float64 rounding
    assert (stopped.status == Status.MAX_ITERATIONS).all()


def test_outputs_without_a_fixed_point_are_warned_about() -> None:
    model = contracting().eval()  # in training it would warn once
    model.config = model.config.model_copy(update={"max_iterations": 2})
    with torch.no_grad():
        with pytest.warns(
            NotConvergedWarning, match=r"14 of 14 tokens \(mode sequential, first at position 0\): .* rtol"
        ) as caught:
            model(TOKENS)
        assert caught[0].filename == __file__  # the line of the caller, not one of torch's
        with pytest.warns(NotConvergedWarning, match=r"2 of 2 tokens \(mode sequential") as caught:
            model.step(model.init_state(2), TOKENS[:, 0])
        assert caught[0].filename == __file__
    simultaneous = solved(model, TOKENS, "simultaneous")
    assert 'default mode "auto"' in simultaneous.message()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not solved(model, TOKENS).converged.any()  # solve tells it in the status


def test_bad_arguments_of_solve_are_refused() -> None:
    model = contracting()
    with pytest.raises(InputError, match="mode 'parallel' is unknown; known: auto, sequential, simul"):
        solved(model, TOKENS, "parallel")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"start has shape \(2, 8\); give \(2, 7, 8\) for these tokens"):
        solved(model, TOKENS, start=torch.zeros(2, 8, dtype=torch.float64))
