"""Certificates of an implicit DeltaNet that the checker accepts and refuses."""

from collections.abc import Callable
from typing import Any

import pytest

from analysis import certify, check_certificate
from analysis.certificates.certificate import Certificate, RefusedError
from analysis.certificates.claims.theorem1 import Claimed, Pair
from analysis.check_certificate import CheckSettings
from automata.tasks import make_task

SIZES: dict[str, Any] = {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4}
ONE_PROCESS = CheckSettings(processes=1)
FEW: dict[str, Any] = {"states": 4, "sequences": 4, "length": 8}


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
