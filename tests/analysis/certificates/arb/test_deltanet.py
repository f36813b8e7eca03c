"""The checker's DeltaNet against the float64 model, and certificates that it accepts and refuses."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from analysis import certify, check_certificate
from analysis.certificates.arb.models import ArbDeltaNet, exact_vector, precision
from analysis.certificates.certificate import Certificate, RefusedError
from analysis.certificates.claims.theorem1 import Claimed, Pair
from analysis.check_certificate import CheckSettings
from automata.tasks import make_task
from implicit.models.registry import build_model
from theory import latent_jacobian
from theory.blocks import BlockMap
from theory.derivatives import directional

SIZES: dict[str, Any] = {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two layers": {"layers": 2, "residual": False, "d_conv": 2},
    "no window, reflections": {"d_conv": 1, "negative_eigenvalues": True},
}
ONE_PROCESS = CheckSettings(processes=1)
FEW: dict[str, Any] = {"states": 4, "sequences": 4, "length": 8}


@pytest.mark.parametrize("name", OPTIONS)
def test_values_and_derivatives(name: str) -> None:
    torch.manual_seed(0)
    model: Any = build_model("implicit-deltanet", {**SIZES, **OPTIONS[name]}, make_task("S3"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    weights = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    generator = torch.Generator().manual_seed(1)
    state = {
        key: torch.randn(entry.shape[1:], generator=generator, dtype=torch.float64)
        for key, entry in model.init_state(1).items()
    }
    size, layers, token = model.config.d_model, model.config.layers, 2
    z = torch.randn(size, generator=generator, dtype=torch.float64)
    rows, columns = 17, 13  # entries (1, 1, 1) and (1, 0, 1) of [heads, key, value]: of the same head
    with precision(128):
        checked = ArbDeltaNet(weights, model.config.model_dump())
        entries = checked.state([e for part in checked.shapes for e in exact_vector(state[part].numpy())])
        values, slopes, found = checked.evaluate(token, exact_vector(z.numpy()), entries, [columns] * layers)
        rates = [checked.entry_rates(found, layer, (rows, columns), entries) for layer in range(layers)]
        same = [checked.entry_rates(found, layer, (columns, columns), entries) for layer in range(layers)]
    transition = model.double().transition(token)
    # 128 bits against float64: the rounding of the latter
    expected = transition.self_map(z, state).detach().numpy()
    np.testing.assert_allclose([float(value) for value in values], expected, atol=1e-13)
    A = latent_jacobian(transition, state, z).numpy()
    np.testing.assert_allclose([[float(e) for e in row[:size]] for row in slopes], A, atol=1e-12)
    for layer in range(layers):
        block = BlockMap(transition, state, (f"memory.{layer}",))
        unit = torch.zeros_like(block.vector)
        unit[columns] = 1.0
        along = directional(partial(block.self_map, z), block.vector, unit[None])[0]
        np.testing.assert_allclose([float(row[size + layer]) for row in slopes], along.numpy(), atol=1e-12)
        direct = directional(partial(block.state_update, z), block.vector, unit[None])[0]
        assert float(rates[layer][size + layer]) == pytest.approx(direct[rows].item(), abs=1e-12)
        assert float(same[layer][size + layer]) == pytest.approx(direct[columns].item(), abs=1e-12)
        through = torch.func.jacrev(lambda z, block=block: block.state_update(z, block.vector)[rows])(z)
        np.testing.assert_allclose([float(r) for r in rates[layer][:size]], through.detach(), atol=1e-12)


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Certificate, Any]:
    """A small model with random weights; most of it can be proved."""
    from implicit.config.recipes import recipe
    from implicit.runs.folder import RunFolder
    from implicit.runs.loading import initial_model, load_run

    config = recipe("parity", "implicit-deltanet", seed=2, **SIZES)
    folder = RunFolder(tmp_path_factory.mktemp("runs") / "deltanet")
    folder.begin(config)
    folder.finish(initial_model(config, make_task("parity")))
    run = load_run(folder.path)
    return certify.certify(run, **FEW), run


def test_a_certificate_of_the_producer_holds(certified: tuple[Certificate, Any]) -> None:
    certificate, run = certified
    assert certificate.only.summary["existence"] == 4
    assert certificate.only.summary["contraction"] == 4
    assert certificate.only.summary["non_diagonal"] == 4
    assert "memory" in certificate.only.statements["meaning"]
    check_certificate.check_certificate(certificate, run, ONE_PROCESS)


def _moved(part: str, by: float) -> Callable[[Pair], Pair]:
    return lambda pair: pair.model_copy(update={"state": {**pair.state, part: pair.state[part] + by}})


def _point(change: Callable[[Claimed], dict[str, Any]]) -> Callable[[Pair], Pair]:
    def forged(pair: Pair) -> Pair:
        assert pair.point is not None
        return pair.model_copy(update={"point": pair.point.model_copy(update=change(pair.point))})

    return forged


FORGED: dict[str, tuple[Callable[[Pair], Pair], str]] = {
    "entry": (_point(lambda c: {"entries": [(e[1] + 1e-3, e[1] + 2e-3) for e in c.entries]}), "entries"),
    "memory": (_moved("memory.0", 0.1), "state"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_false_line_is_named_even_under_a_new_seal(certified: tuple[Certificate, Any], name: str) -> None:
    certificate, run = certified
    change, line = FORGED[name]
    claim = certificate.only
    first, *rest = claim.pairs
    assert isinstance(first, Pair)
    changed = claim.model_copy(update={"pairs": [change(first), *rest]})
    forged = certificate.model_copy(update={"claims": [changed]}).sealed()
    with pytest.raises(RefusedError, match=line):
        check_certificate.check_certificate(forged, run, ONE_PROCESS)
