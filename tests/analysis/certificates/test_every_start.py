"""The simultaneous mode from every start by image balls: the proof, its certificate, and forgeries."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from flint import arb

from analysis.certificates.arb.linear import exact_vector, precision
from analysis.certificates.arb.models import ArbModel
from analysis.certificates.certificate import Certificate, RefusedError, parse_certificate
from analysis.certificates.claims.lengths import ArbImageBall, ImageBallChecker, Lengths, Starts
from analysis.certificates.producing import automaton_of, certificate_of
from analysis.certificates.proofs.lengths import FoundLengths, prove_lengths
from analysis.check_certificate import CheckSettings, check_certificate
from benchmarks.certificate_mutations.targets import COARSE, TINY, constant, untrained
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.image_ball import image_balls
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import check_as, weights_of
from theory.rigorous.balls import Ball


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("parity-attracted")


@pytest.fixture(scope="module")
def found() -> FoundLengths:
    return prove_lengths(load_run("parity-attracted"), starts=True)


@pytest.fixture(scope="module")
def certificate(found: FoundLengths) -> Certificate:
    return certificate_of(load_run("parity-attracted"), found)


@pytest.fixture(scope="module")
def lengths(certificate: Certificate) -> Lengths:
    claim = certificate.claims[0]
    assert isinstance(claim, Lengths)
    return claim


@pytest.fixture(scope="module")
def starts(certificate: Certificate) -> Starts:
    claim = certificate.claims[1]
    assert isinstance(claim, Starts)
    return claim


def check(certificate: Certificate, run: Run, *claims: Lengths | Starts) -> None:
    check_as(certificate.model_copy(update={"claims": list(claims)}).sealed(), run, bits=64)


def check_ball(
    lengths: Lengths, starts: Starts, run: Run, index: int, token: int, in_proj: float = 1.0
) -> None:
    """Check the ball of a set and a token for a model whose layer reads so many times as much."""
    automaton, weights = automaton_of(run), weights_of(run.model)
    assert automaton is not None
    weights["mixers.0.in_proj.weight"] *= in_proj
    sizes = run.config.as_json()["sizes"]
    ImageBallChecker(starts, lengths, weights, sizes, automaton, 64).check(index, token)


def test_both_modes_end_in_the_same_right_answers_from_any_start() -> None:
    """The claim in floating point: starts from all over K, 8 words of 300 tokens."""
    model, generator = load_run("parity-attracted").model.double().implicit, torch.Generator().manual_seed(0)
    assert model is not None
    tokens = torch.randint(0, 2, (8, 300), generator=generator)
    stopping = Stopping(rtol=1e-9, max_iterations=5000)
    start = torch.randn(8, 300, 8, dtype=torch.float64, generator=generator)
    length = torch.rand(8, 300, 1, dtype=torch.float64, generator=generator)
    start *= 8**0.5 * length / start.norm(dim=-1, keepdim=True)
    weight = model.get_parameter("latent_norm.weight")
    with torch.no_grad():
        one = model.run(tokens, solve=Solve("sequential", stopping=stopping))
        other = model.run(
            tokens, solve=Solve("simultaneous", stopping=stopping, start=(start * weight).detach())
        )
    assert one.solution is not None
    assert other.solution is not None
    # residuals of 1e-9 are errors of some 1e-9 times the condition of the fixed points, which is near 1
    assert float((one.solution.latents - other.solution.latents).abs().max()) < 1e-6
    assert (other.logits.argmax(-1) == tokens.cumsum(1) % 2).all()


def test_the_certificate_holds_and_the_checker_says_what_it_verified(
    certificate: Certificate, lengths: Lengths, run: Run
) -> None:
    content = certificate.model_dump(mode="json")
    verdict = check_certificate(parse_certificate(content), run, CheckSettings(precision=64, processes=1))
    claim, *conditions = verdict.split("\n")
    assert "all words of every length are right; the simultaneous mode tends to the same answers" in claim
    assert f"- shown by: {len(lengths.labels)} sets of states" in conditions
    assert "its rounding, tolerance and limit of iterations are not covered" in verdict


def test_the_checker_bounds_what_the_producer_bounds(lengths: Lengths, run: Run) -> None:
    """One theorem in two arithmetics: 1% apart, as spectral norms are bounded in other ways."""
    model = copy.deepcopy(run.model).double()
    loop, latents = EnclosedClosedLoop(model), lengths.latents.reshape(len(lengths.labels), 2, -1)
    centres = lengths.centres.reshape(len(lengths.labels), -1)
    found = image_balls(loop, np.array([1]), Ball.exact(centres[:1]), latents[:1, 1])
    with precision(64):
        checker = ArbModel(weights_of(run.model), run.config.as_json()["sizes"])
        state, centre = checker.state(exact_vector(centres[0])), exact_vector(latents[0, 1])

        def ball(radius: float) -> ArbImageBall:
            return ArbImageBall(checker, 1, state, centre, arb(radius))

        assert ball(1.01 * float(found.radius[0])).holds_images()
        assert not ball(0.9 * float(found.radius[0])).holds_images()
        assert ball(float(found.radius[0])).contracts()
        assert not ball(100.0).contracts()


@pytest.mark.parametrize("factor", [0.0, 0.5, -1.0, 1e3, np.inf, np.nan])
def test_other_radii_are_refused(factor: float, lengths: Lengths, starts: Starts, run: Run) -> None:
    check_ball(lengths, starts, run, 0, 1)
    radii = starts.image_radii.copy()
    radii[1] *= factor
    said = "no contraction on it is shown" if factor == 1e3 else "not all images|no contraction"
    with pytest.raises(RefusedError, match=rf"image_radii\[1\]: ({said})"):
        check_ball(lengths, starts.model_copy(update={"image_radii": radii}), run, 0, 1)


def test_other_centres_and_weights_that_read_more_are_refused(
    lengths: Lengths, starts: Starts, run: Run
) -> None:
    other = lengths.model_copy(update={"latents": -lengths.latents})
    for claim, in_proj in ((other, 1.0), (lengths, 30.0)):
        with pytest.raises(RefusedError, match=r"image_radii\[0\]: not all images"):
            check_ball(claim, starts, run, 0, 0, in_proj)


def test_other_forgeries_are_refused(
    certificate: Certificate, lengths: Lengths, starts: Starts, run: Run
) -> None:
    check(certificate, run, lengths, starts)
    forged = starts.model_copy(update={"statements": lengths.statements})
    with pytest.raises(RefusedError, match=r"claims\[1\]\.statements: are not those of this format"):
        check(certificate, run, lengths, forged)
    forged = starts.model_copy(update={"image_radii": starts.image_radii[:-1]})
    with pytest.raises(RefusedError, match=f"image_radii: does not hold {starts.image_radii.size} numb"):
        check(certificate, run, lengths, forged)
    with pytest.raises(RefusedError, match="image_radii: are around latents of a claim of every length"):
        check(certificate, run, starts)
    content = certificate.model_dump(mode="json")
    del content["claims"][1]["image_radii"]
    with pytest.raises(RefusedError, match="image_radii: field required"):
        parse_certificate(content)
    content["claims"] = [{**content["claims"][0], "image_radii": ""}]  # a cover does not pass for more
    with pytest.raises(RefusedError, match="image_radii: extra inputs are not permitted"):
        parse_certificate(content)


def test_where_it_is_not_proved_nothing_of_it_is_said(tmp_path: Path) -> None:
    scales = {"out_proj": 2.0, "head": 0.05, "in_proj": 0.1}
    other = constant(untrained(tmp_path / "run", "implicit-mamba2", TINY, scales))
    few = prove_lengths(other, starts=True, **COARSE)
    assert few.proved
    assert few.images is None
    assert "simultaneous" not in few.sentence
    assert [claim.kind for claim in few.claims] == ["lengths"]
