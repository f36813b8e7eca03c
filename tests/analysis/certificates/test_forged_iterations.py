"""What a forger may write of the iteration in a certificate of answers is refused, and never printed."""

import base64
import copy
import json
import re
from collections.abc import MutableMapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis import check_certificate
from analysis.certificates.certificate import RefusedError, parse_certificate, parse_json, seal
from analysis.certify import certify
from analysis.check_certificate import CheckSettings
from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.targets import COARSE, TINY, untrained
from implicit.runs.loading import Run
from tests.analysis.lines import Forge, Forgery, Lines, line_of, put

Content = MutableMapping[str, Any]
MEMBERSHIP = "bundle_of"
ANYWHERE = ""
"""The line depends on which claim of the certificate is the first that no longer holds."""


def verdict_on(content: Content, run: Run) -> str:
    parsed = parse_certificate(parse_json(json.dumps(content).encode()))
    return check_certificate.check_certificate(parsed, run, CheckSettings(processes=1))


@pytest.fixture(scope="module")
def constant(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = untrained(tmp_path_factory.mktemp("runs") / "constant", "implicit-mamba2", TINY, {"head": 0.05})
    task = WordProblem([[0, 0], [1, 1]], 0, run.task.token_names, run.task.target_names, name="constant")
    return replace(run, task=task)


@pytest.fixture(scope="module", params=["words", "every length"])
def answers(constant: Run, request: pytest.FixtureRequest) -> Content:
    chosen = {"claim": "words", "length": 2} if request.param == "words" else {"claim": "lengths", **COARSE}
    document: Content = certify(constant, **chosen).model_dump(mode="json")
    return document


def of_bundles(field: str, factor: float) -> Forge:
    """Scale what is said of the first bundle."""

    def forge(content: Any) -> None:
        bundles = content["bundles"]
        rows = (
            np.frombuffer(base64.b64decode(bundles[field]), "<f8").reshape(len(bundles["tokens"]), -1).copy()
        )
        rows[0] *= factor
        bundles[field] = base64.b64encode(rows.tobytes()).decode()

    return forge


def no_bundles(content: Content) -> None:
    content["bundles"] |= {"tokens": []} | dict.fromkeys(
        ("centres", "widths", "latents", "metrics", "radii"), ""
    )


def in_bundle(number: int) -> Forge:
    """Put the first step into another bundle."""

    def forge(content: Any) -> None:
        row = content["levels"][0]["bundle_of"] if "levels" in content else content["bundle_of"][0]
        row[0] = number

    return forge


def too_few_of_them(content: Content) -> None:
    (content["levels"][0]["bundle_of"] if "levels" in content else content["bundle_of"][0]).pop()


OF_THE_ITERATION: dict[str, Forgery] = {
    "own words": (put("scope", "in floating-point arithmetic, by every mode"), "scope"),
    "own caveat": (put("caveat", "nothing is left out"), "caveat"),
    "rtol of the configuration": (put("config.sizes.rtol", 1e-9), "config.sizes"),
    "damping of the configuration": (put("config.sizes.damping", 0.5), "config.sizes"),
    "damping in words": (put("config.sizes.damping", "0.8, all arithmetic"), "config.sizes"),
    "limit of the configuration": (put("config.sizes.max_iterations", 10**6), "config.sizes"),
    "the run's rtol as tolerance": (put("tolerance", (1e-4).hex()), "latent_error"),
    "tolerance in decimal": (put("tolerance", 1e-7), "tolerance"),
    "tolerance of zero": (put("tolerance", (0.0).hex()), "tolerance"),
    "tolerance of all latents": (put("tolerance", (1.0).hex()), "tolerance"),
    "negative tolerance": (put("tolerance", (-1e-7).hex()), "tolerance"),
    "few iterations": (put("iterations", 5), "iterations"),
    "no iterations": (put("iterations", 0), "iterations"),
    "iterations as a truth": (put("iterations", True), "iterations"),
    "iterations above the limit": (put("iterations", 1001), "iterations"),
    "latent error that no tolerance meets": (put("latent_error", (1e-3).hex()), ANYWHERE),
    "negative latent error": (put("latent_error", (-1e-6).hex()), "latent_error"),
    "no latent error": (put("latent_error", (0.0).hex()), "latent_error"),
    "negative step error": (put("step_error", (-1e-12).hex()), "step_error"),
    "step error of the program": (put("step_error", (1e-3).hex()), "latent_error"),
    "less rounding than there is": (put("step_error", (1e-15).hex()), "step_error"),
    "no rounding": (put("step_error", (0.0).hex()), "step_error"),
    "another format": (put("dtype", "float32"), "dtype"),
    "a format in words": (put("dtype", "float64 and float32"), "dtype"),
    "exact functions": (put("ulps", 0), "ulps"),
    "functions better than they are": (put("ulps", 1), "ulps"),
    "functions far off": (put("ulps", 1000), "step_error"),
    "functions of nothing": (put("ulps", 10**6), "ulps"),
    "another token": (put("bundles.tokens.0", lambda token: token ^ 1), ANYWHERE),
    "no such token": (put("bundles.tokens.0", 2), "bundles.tokens"),
    "no bundles": (no_bundles, "bundles.tokens"),
    "no such bundle": (in_bundle(99), MEMBERSHIP),
    "bundle before the first": (in_bundle(-1), MEMBERSHIP),
    "too few of them": (too_few_of_them, MEMBERSHIP),
    "box elsewhere": (of_bundles("centres", 2.0), ANYWHERE),
    "negative box": (of_bundles("widths", -1.0), "bundles.radii[0]"),
    "no box": (of_bundles("widths", 0.0), MEMBERSHIP),
    "box of all states": (of_bundles("widths", 1e9), "bundles.radii[0]"),
    "region elsewhere": (of_bundles("latents", -1.0), "bundles.radii[0]"),
    "no metric": (of_bundles("metrics", 0.0), "bundles.metrics[0]"),
    "stretched metric": (of_bundles("metrics", 1e6), ANYWHERE),
    "region of all latents": (of_bundles("radii", 1e6), "bundles.radii[0]"),
    "small region": (of_bundles("radii", 1e-9), ANYWHERE),
    "region of none": (of_bundles("radii", 0.0), "bundles.radii[0]"),
    "negative region": (of_bundles("radii", -1.0), "bundles.radii[0]"),
}


@pytest.mark.parametrize("name", OF_THE_ITERATION)
def test_a_forged_iteration_is_refused(answers: Content, constant: Run, name: str) -> None:
    forge, line = OF_THE_ITERATION[name]
    forged = copy.deepcopy(answers)
    forge(Lines(forged))
    forged["sha256"] = seal(forged)
    with pytest.raises(RefusedError) as refused:
        verdict_on(forged, constant)
    found = line_of(refused.value)
    assert found == line or line == ANYWHERE or (line == MEMBERSHIP and MEMBERSHIP in found)


def test_the_verdict_says_of_which_iteration(answers: Content, constant: Run) -> None:
    """Its numbers are read back as those that were checked, and its words are none of the document's."""
    told = verdict_on(answers, constant)
    found = re.search(r"\(damping (\S+), rtol <= (\S+), a limit of at least (\d+) iterations a token\)", told)
    assert found is not None
    damping, tolerance, limit = found.groups()
    assert float(damping) == constant.config.as_json()["sizes"]["damping"]
    assert float(tolerance) == float.fromhex(Lines(answers)["tolerance"])
    assert int(limit) == Lines(answers)["iterations"]
    assert "exact arithmetic and as float64 computes it on a CPU (python -m implicit.answer), by" in told
    assert "that + - * / round as in IEEE 754, that sums and matrix products are made of these, in" in told
    assert "within 4 ulp; float32, and the run's own rtol of 0.0001, are not covered. The run's" in told
    shown = re.search(r"a margin of at least ([0-9.e-]+),", told)
    assert shown is not None
    assert float(shown.group(1)) <= float.fromhex(Lines(answers)["margin"])


def test_of_real_numbers_no_rounding_is_claimed(constant: Run) -> None:
    """Without it steps may be claimed not to be off at all, and the verdict says what is left out."""
    document = certify(constant, claim="words", length=2, dtype="real").model_dump(mode="json")
    Lines(document)["step_error"] = (0.0).hex()
    document["sha256"] = seal(document)
    told = verdict_on(document, constant)
    assert "float64" not in told
    assert "rounding, and the run's own rtol of 0.0001, are not covered. The run's" in told
