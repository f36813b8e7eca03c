"""The simultaneous mode from every start: the proof, what it foretells, its certificate and forgeries."""

from typing import Any

import numpy as np
import pytest
import torch

from analysis import all_lengths
from analysis.certificates.arb.linear import precision
from analysis.certificates.attraction import producer
from analysis.certificates.attraction.checker import AttractionChecker, check_latents
from analysis.certificates.attraction.document import LatentsCertificate
from analysis.certificates.cover.document import COVER_STATEMENTS
from analysis.certificates.parts import RefusedError
from analysis.certificates.producing import automaton_of
from analysis.check_certificate import CheckSettings, check_certificate, parse_certificate
from analysis.framework.output import RunIdentity
from automata.errors import InputError
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("parity-tiny")


@pytest.fixture(scope="module")
def found() -> all_lengths.AllLengthsAnalysis:
    return all_lengths.analyse(load_run("parity-tiny"))


@pytest.fixture(scope="module")
def certificate(found: all_lengths.AllLengthsAnalysis) -> LatentsCertificate:
    claims = found.certificate_of_starts(load_run("parity-tiny"))
    assert isinstance(claims, LatentsCertificate)
    return claims


def check(certificate: LatentsCertificate, run: Run, **changes: Any) -> None:
    changed = certificate.model_copy(update=changes)
    check_latents(
        changed.model_copy(update={"sha256": changed.seal()}),
        {name: tensor.numpy() for name, tensor in run.model.state_dict().items()},
        sha256=RunIdentity.of(run).weights_sha256,
        config=run.config.as_json(),
        automaton=automaton_of(run),
        bits=64,
    )


def test_every_latent_of_every_step_is_proved_to_be_attracted(
    found: all_lengths.AllLengthsAnalysis,
) -> None:
    assert found.proved
    assert found.attraction is not None
    assert found.attraction.holds
    assert "the simultaneous mode tends to the same answers, from every start" in found.sentence
    numbers = found.numbers()
    assert numbers["all_latents"]["steps"] == numbers["steps"]
    assert numbers["all_latents"]["largest_sampled_ratio"] < 1


def test_both_modes_end_in_the_same_right_answers_from_any_start(run: Run) -> None:
    """What is proved, in floating point: starts from all over K, 8 words of 300 tokens."""
    model, generator = load_run("parity-tiny").model.double().implicit, torch.Generator().manual_seed(0)
    assert model is not None
    tokens = torch.randint(0, 2, (8, 300), generator=generator)
    stopping = Stopping(rtol=1e-9, max_iterations=5000)
    start = torch.randn(8, 300, 2, dtype=torch.float64, generator=generator)
    start *= (
        2**0.5
        * torch.rand(8, 300, 1, dtype=torch.float64, generator=generator)
        / start.norm(dim=-1, keepdim=True)
    )
    with torch.no_grad():
        one = model.run(tokens, solve=Solve("sequential", stopping=stopping))
        other = model.run(
            tokens,
            solve=Solve(
                "simultaneous",
                stopping=stopping,
                start=start * model.get_parameter("latent_norm.weight"),
            ),
        )
    assert one.solution is not None
    assert other.solution is not None
    # residuals of 1e-9 are errors of some 1e-9 times the condition of the fixed points, which is near 1
    assert float((one.solution.latents - other.solution.latents).abs().max()) < 1e-6
    assert (other.logits.argmax(-1) == tokens.cumsum(1) % 2).all()


def test_the_certificate_holds_and_the_checker_says_what_it_verified(
    certificate: LatentsCertificate, run: Run
) -> None:
    content = certificate.model_dump(mode="json")
    verdict = check_certificate(parse_certificate(content), run, CheckSettings(precision=64, processes=1))
    assert "all words of every length are right, by 20 sets of states" in verdict
    assert "the simultaneous mode tends to the same answers, from every start" in verdict
    assert "its rounding, tolerance and limit of iterations are not covered" in verdict


def test_without_the_claim_nothing_of_it_is_said(found: all_lengths.AllLengthsAnalysis, run: Run) -> None:
    plain = found.certificate(run)
    verdict = check_certificate(plain, run, CheckSettings(precision=64, processes=1))
    assert "simultaneous" not in verdict


def test_a_limit_on_cells_proves_nothing_of_the_simultaneous_mode(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "falling_norm", lambda *_: (np.eye(2), 0.5))  # saves seconds
    few = all_lengths.analyse(run, cells=150)
    assert few.proved
    assert isinstance(few.attraction, producer.ProvedAttraction)
    assert not few.attraction.holds
    assert 0 < few.attraction.proved.sum() < few.attraction.proved.size
    assert "of the simultaneous mode nothing is proved: all latents are attracted at" in few.sentence
    with pytest.raises(InputError, match="it is not proved that all latents are attracted; set cells"):
        few.certificate_of_starts(run)


def step(certificate: LatentsCertificate, run: Run, index: int, token: int) -> None:
    weights = {name: tensor.numpy() for name, tensor in run.model.state_dict().items()}
    with precision(64):
        AttractionChecker(certificate, weights, run.config.as_json()["sizes"], 64).check(index, token)


def test_a_norm_in_which_nothing_falls_is_refused(certificate: LatentsCertificate, run: Run) -> None:
    step(certificate, run, 0, 0)
    for norms in (np.zeros_like(certificate.norms), certificate.norms * np.tile([1.0, 0.0, 0.0], 12)):
        with pytest.raises(RefusedError, match=r"norms\[0\]: latents are not proved to fall in it"):
            step(certificate.model_copy(update={"norms": norms}), run, 0, 0)


def test_a_region_may_not_be_widened_to_leave_latents_out(certificate: LatentsCertificate, run: Run) -> None:
    """With the regions so large that they hold K no latent is left to fall; but they do not contract."""
    bundles = certificate.bundles.model_copy(update={"radii": certificate.bundles.radii * 1e3})
    step(certificate.model_copy(update={"bundles": bundles}), run, 0, 0)
    with pytest.raises(RefusedError, match=r"bundles\.radii\[0\]: the iteration is not proved to contract"):
        check(certificate, run, bundles=bundles)


def test_other_forgeries_are_refused(certificate: LatentsCertificate, run: Run) -> None:
    with pytest.raises(RefusedError, match="statements: are not those of this format"):
        check(certificate, run, statements=COVER_STATEMENTS)
    with pytest.raises(RefusedError, match="norms: does not hold 3 numbers for each bundle"):
        check(certificate, run, norms=certificate.norms[:-1])
    content = certificate.model_dump(mode="json")
    del content["norms"]
    with pytest.raises(RefusedError, match="norms: field required"):
        parse_certificate(content)


def test_a_cover_does_not_pass_for_more(found: all_lengths.AllLengthsAnalysis, run: Run) -> None:
    content = found.certificate(run).model_dump(mode="json")
    content["norms"] = ""
    with pytest.raises(RefusedError, match="norms: extra inputs are not permitted"):
        parse_certificate(content)
