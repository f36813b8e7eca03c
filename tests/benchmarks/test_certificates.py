"""The certificates of untrained models: the checker decides whether a case is correct."""

from pathlib import Path

import pytest

from analysis.certificates.certificate import Certificate
from analysis.certificates.claims.theorem1 import Theorem1
from analysis.certificates.proofs.theorem1 import CertifySettings
from analysis.certify import certify
from benchmarks import certificates
from benchmarks.frame import IncorrectError, run_case
from implicit.runs.loading import Run

SIZES = {"d_model": 4, "d_state": 2, "head_size": 4}
SEED = 3
"""Of the weights: the same is proved as of others, of an iteration that settles in few steps."""
FEW = CertifySettings(states=2, sequences=2, length=3)


def test_a_small_case(tmp_path: Path) -> None:
    # a start and an end for every contender: certify takes 3 seconds per turn, the check 4
    ticks = iter([0.0, 3.0, 0.0, 4.0] * 4)  # one turn is not counted
    case = certificates.case(tmp_path / "run", SIZES, SEED, FEW)
    assert case.parameters["entries_of_h"] == 16
    record = run_case(case, clock=lambda: next(ticks))
    assert record["correct"]
    assert set(record["contenders"]) == {"certify", "check"}
    assert record["contenders"]["certify"]["pairs"] == 2
    assert record["contenders"]["certify"]["median_seconds"] == 3.0


def test_a_certificate_that_is_refused_reports_no_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overstated(run: Run, settings: CertifySettings) -> Certificate:
        found = certify(run, settings)
        claim = found.only
        assert isinstance(claim, Theorem1)
        more = claim.model_copy(update={"summary": {**claim.summary, "contraction": 99}})
        return found.model_copy(update={"claims": [more]})

    monkeypatch.setattr(certificates, "certify", overstated)
    case = certificates.case(tmp_path / "run", SIZES, SEED, FEW)
    with pytest.raises(IncorrectError, match=r"summary\.contraction"):
        case.check()
