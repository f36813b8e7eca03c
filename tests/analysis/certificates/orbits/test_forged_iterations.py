"""What the iteration does decides: fixed points that it leaves, or is stopped before, prove nothing."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from analysis.certificates.certificate import Certificate, RefusedError
from analysis.certificates.producing import certificate_of
from analysis.certificates.proofs import lengths as all_lengths
from automata.tasks.word_problem import WordProblem
from implicit.fixed_point import Stopping
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import check_as

OVERSHOOT = 2.6
SMALL = {"d_model": 2, "expand": 1, "d_state": 1, "head_size": 2, "d_conv": 1, "residual": False}


def turning(**sizes: Any) -> Run:
    """A model whose latent (1, 1) is a fixed point; Φ turns a latent near it 2.6 times too far back.

    A damping of 0.3 makes that a contraction, by 0.7 − 0.3 · 2.6 = −0.08; one of 0.8 an expansion, by −1.88.
    The state stays zero, and the answer is the first label at the fixed point, the second where the latent
    goes to and fro.
    """
    chosen = {**SMALL, "damping": 0.3, "max_iterations": 200, **sizes}
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **chosen))
    weights = dict(model.named_parameters())
    across, along = torch.tensor([1.0, -1.0]), torch.ones(2)
    bias, shift = 4.0, 1.0  # where SiLU is nearly the identity: its slope is 1.05
    with torch.no_grad():
        for name, weight in weights.items():
            weight.fill_(float("norm" in name))
        weights["embedding.weight"].fill_(1.0)
        weights["injections.0.weight"][:2] = 1.5  # the gate is open
        turned = -OVERSHOOT * bias / 1.05 / 2 * torch.outer(across, across)
        weights["mixers.0.in_proj.weight"][2:4] = turned + shift * torch.outer(across, along) / 2
        weights["mixers.0.conv1d.weight"].fill_(1.0)
        weights["mixers.0.conv1d.bias"][:2] = bias - shift * across
        weights["mixers.0.D"].fill_(1.0)
        weights["mixers.0.out_proj.weight"].copy_(torch.eye(2))
        weights["head.weight"].copy_(2 * torch.outer(across, across))
        weights["head.bias"].copy_(across)
    run = load_run("parity-small")
    names = run.task.token_names, run.task.target_names
    config = run.config.model_copy(update={"sizes": {**run.config.sizes, **chosen}})
    return replace(
        run, model=model, config=config, task=WordProblem([[0, 0], [1, 1]], 0, *names, name="constant")
    )


def answers(run: Run) -> torch.Tensor:
    model, tokens = copy.deepcopy(run.model).double(), torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0]])
    stopping = Stopping(rtol=1e-6, max_iterations=run.config.sizes["max_iterations"])
    with torch.no_grad():
        return model.run(tokens, solve=Solve("sequential", stopping=stopping)).logits.argmax(-1)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    """True of the damping 0.3."""
    run = turning()
    found = all_lengths.analyse(run, distance=1e-3)
    assert found.proved
    return certificate_of(run, found)


def check(certificate: Certificate, run: Run, config: dict[str, Any] | None = None) -> None:
    config = config or run.config.as_json()
    forged = certificate.model_copy(update={"config": config})
    forged = forged.model_copy(update={"sha256": forged.seal()})
    check_as(forged, run, config)


def test_where_the_iteration_contracts_the_answers_are_right_and_the_certificate_holds(
    certificate: Certificate,
) -> None:
    assert (answers(turning()) == 0).all()
    check(certificate, turning())


def test_fixed_points_that_repel_are_refused(certificate: Certificate) -> None:
    """The same weights and fixed points with another damping: every answer is wrong."""
    repelled = turning(damping=0.8)
    assert (answers(repelled) == 1).all()
    with pytest.raises(RefusedError, match=r"bundles\.radii\[0\]: the iteration is not proved to contract"):
        check(certificate, repelled)
    # nor is a damping assumed where none is named
    config = turning().config.as_json()
    del config["sizes"]["damping"]
    with pytest.raises(RefusedError, match=r"config\.sizes\.damping"):
        check(certificate, turning(), config)


@pytest.mark.parametrize("limit", [1, 20])
def test_a_run_that_stops_before_the_iteration_is_there_is_refused(
    certificate: Certificate, limit: int
) -> None:
    short = turning(max_iterations=limit)
    with pytest.raises(RefusedError, match=f"iterations: are more than the limit of the run, {limit}"):
        check(certificate, short)
    claim = certificate.only
    shorter = claim.model_copy(update={"iterations": limit})
    with pytest.raises(RefusedError, match=r"iterations: are (over|not enough)"):
        check(certificate.model_copy(update={"claims": [shorter]}), short)


def test_a_producer_does_not_prove_what_the_iteration_does_not_reach() -> None:
    found = all_lengths.analyse(turning(max_iterations=20), distance=1e-3)
    assert not found.proved
    assert "of 2 of 2 steps it is not proved that the iteration from zero ends near them within 20" in (
        found.sentence
    )
    assert found.numbers()["proved"] is False
