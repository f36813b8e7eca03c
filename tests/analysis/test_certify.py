"""Certificates of small runs and of a stored one: what is proved, what is not and why, and the command."""

from typing import Any

import numpy as np
import pytest
import torch

from analysis import certify, check_certificate
from analysis.certificates.certificate import RefusedError
from analysis.certificates.claims.theorem1 import ControlPair, Pair
from analysis.framework.visited_states import in_double_precision
from implicit.models.interface import SequenceModel
from implicit.runs.loading import load_run
from tests.analysis.lines import ONE_PROCESS
from theory import State, layer_jacobians, solve_fixed_point

FEW: dict[str, Any] = {"states": 4, "sequences": 4, "length": 10}


def _state(model: SequenceModel, pair: Any) -> State:
    zeros = model.init_state(1)
    return {
        name: torch.from_numpy(pair.state[name].reshape(zero.shape[1:]).copy())
        for name, zero in zeros.items()
    }


def test_everything_is_proved_of_the_stored_parity_run() -> None:
    run = load_run("parity")
    certificate = certify.certify(run, states=4, sequences=4, length=24, seed=20)
    assert certificate.only.summary == dict.fromkeys(certificate.only.summary, 4)
    check_certificate.check_certificate(certificate, run, ONE_PROCESS)


@pytest.mark.parametrize("model", ["mamba2", "implicit-mamba2"])
def test_statements_of_several_layers_speak_of_each_layers_own_block(make_run: Any, model: str) -> None:
    """The first layer's output moves the second layer's h: across layers nothing is diagonal."""
    run = make_run(model, contracting=True, layers=2)
    certificate = certify.certify(run, states=2, sequences=2, length=6)
    claim = certificate.only
    assert "Nothing is claimed of blocks between layers" in claim.statements["meaning"]
    assert claim.kind != "explicit" or "by itself" in claim.statements["explicit"]
    assert "own block" in "".join(claim.verdict(certificate.config).conditions)
    check_certificate.check_certificate(certificate, run, ONE_PROCESS)
    one_layer = {name: claim.says[name] for name in claim.statements}
    forged = claim.model_copy(update={"statements": one_layer})
    old = certificate.model_copy(update={"claims": [forged]}).sealed()
    with pytest.raises(RefusedError, match="make the certificate anew"):
        check_certificate.check_certificate(old, run, ONE_PROCESS)


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 2, "groups": 2, "residual": False, "d_conv": 1}],
    ids=["one layer", "two layers"],
)
def test_what_is_proved_agrees_with_the_float64_analysis(make_run: Any, options: dict[str, Any]) -> None:
    run = make_run("implicit-mamba2", contracting=True, **options)
    certificate = certify.certify(run, **FEW)
    assert certificate.only.summary["existence"] == 4
    model = in_double_precision(run.model)
    for pair in certificate.only.pairs:
        assert isinstance(pair, Pair)
        assert pair.point is not None
        state, transition = _state(model, pair), model.transition(pair.token)
        fixed_point = solve_fixed_point(transition, state)
        distance = np.abs(fixed_point.latent.numpy() - pair.point.latent).max()
        # each side errs: by the proved error here, by its residual over the singular value there
        assert distance <= pair.point.error + fixed_point.residual / pair.point.singular_value
        assert pair.point.orbit is not None
        latent = torch.zeros(model.config.d_model, dtype=torch.float64)
        with torch.no_grad():
            for _ in range(pair.point.orbit.iterations):
                latent = latent + transition.damping * (transition.self_map(latent, state) - latent)
        # 1e-11: rounding of some dozens of steps, a thousand times below the distances that are proved
        away = np.abs(latent.numpy() - pair.point.latent).max()
        assert away <= pair.point.orbit.distance + 1e-11
        assert pair.point.orbit.distance < pair.point.radius
        for layer, jacobian in enumerate(layer_jacobians(transition, state, fixed_point.latent)):
            row, column = pair.places[layer]
            lower, upper = pair.point.entries[layer]
            entry = jacobian.dense()[row, column].item()
            assert lower - 1e-12 <= entry <= upper + 1e-12  # float64 evaluation of the entry
    check_certificate.check_certificate(certificate, run, ONE_PROCESS)


def test_the_opposite_is_proved_of_the_explicit_control(make_run: Any) -> None:
    run = make_run("mamba2", layers=2)
    certificate = certify.certify(run, **FEW)
    assert certificate.only.summary == {"pairs": 4, "explicit": 4}
    model = in_double_precision(run.model)
    for pair in certificate.only.pairs:
        assert isinstance(pair, ControlPair)
        assert pair.decay is not None
        jacobians = layer_jacobians(
            model.transition(pair.token), _state(model, pair), torch.zeros(0, dtype=torch.float64)
        )
        for intervals, jacobian in zip(pair.decay, jacobians, strict=True):
            diagonal = jacobian.diagonal().reshape(len(intervals), -1).numpy()
            for (lower, upper), entries in zip(intervals, diagonal, strict=True):
                assert lower - 1e-14 <= entries.min()  # float64 evaluation of the decay
                assert entries.max() <= upper + 1e-14
                assert upper - lower < 1e-12
    check_certificate.check_certificate(certificate, run, ONE_PROCESS)
