"""All words up to a length: what is proved, against floating point, and what a forger may write of it."""

import copy
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import all_words, check_certificate
from analysis.certificates.certificate import Automaton, RefusedError, parse_certificate, parse_json, seal
from analysis.certificates.claims.words import WordsChecker
from analysis.certificates.proofs.words import draw_words, prove_words
from analysis.certify import certify
from analysis.framework.needs import word_problem_of
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.targets import COARSE, TINY, untrained
from benchmarks.certificate_mutations.targets import constant as always_right
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import (
    ANYWHERE,
    ONE_PROCESS,
    Content,
    Forgery,
    Line,
    Lines,
    array,
    assert_refused,
    check_as,
    drop,
    entry,
    forgeries,
    line_of,
    put,
    scaled,
)


def test_margins_and_answers_are_those_of_every_word_in_floating_point() -> None:
    run = load_run("parity-small")
    found = prove_words(run, length=5, tolerance=1e-10)
    assert found.proved_length == 5
    model = run.model.double()
    words = torch.tensor(list(itertools.product((0, 1), repeat=5)))
    with torch.no_grad():
        stopping = Stopping(rtol=1e-12, max_iterations=2000)
        logits = model.run(words, solve=Solve("sequential", stopping=stopping)).logits
    labels = words.cumsum(1) % 2
    right = logits.gather(2, labels[..., None])[..., 0]
    margins = (right - logits.gather(2, 1 - labels[..., None])[..., 0]).amin(dim=0).numpy()
    # proved margins are below the computed ones, by no more than the enclosures are wide
    assert (found.margin <= margins + 1e-9).all()
    np.testing.assert_allclose(found.margin, margins, atol=1e-6)
    assert found.words.tolist() == found.proved.tolist() == [2, 4, 8, 16, 32]
    assert found.radius.max() < 1e-6


@pytest.mark.parametrize("length", [60, 10**12])
def test_more_words_than_memory_holds_are_refused_unread(length: int) -> None:
    with pytest.raises(InputError, match=f"the set of all words of {length} tokens needs at least"):
        prove_words(load_run("parity-small"), length=length)


def test_a_model_that_is_wrong_is_not_proved_right() -> None:
    run = load_run("parity-small")
    with torch.no_grad():
        run.model.get_parameter("head.weight").neg_()
        run.model.get_parameter("head.bias").neg_()
    found = prove_words(run, length=3)
    assert found.proved_length == 0
    assert found.counterexample == (0,)
    assert "nothing is proved, not even of the word 0" in found.sentence
    with pytest.raises(InputError, match="nothing is proved"):
        certify(run, claim="words", length=2)
    assert np.isneginf(found.margin).all()
    assert draw_words(found).axes
    assert found.rows()
    assert (found.finding.holds, found.finding.limits) == (False, "")


def test_of_another_task_the_first_wrong_word_is_told() -> None:
    run = load_run("parity-small")
    task = word_problem_of(run)
    # odd stays odd under the token 1: the words 1, 01, 001 are answered alike, 11 is not
    once = WordProblem([[0, 1], [1, 1]], 0, task.token_names, task.state_names, name="once")
    found = prove_words(replace(run, task=once), length=3)
    assert found.counterexample == (1, 1)
    assert found.proved_length == 1
    assert "nothing is proved of 11: the margin of its answer is only proved to be" in found.sentence
    # words that begin with one of which nothing is proved are not followed
    assert found.proved.tolist() == [2, 3, 4]
    assert found.words.tolist() == [2, 4, 8]


LENGTH = 3


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("parity-small")


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    return certify(run, claim="words", length=LENGTH).model_dump(mode="json")


def larger_margins(content: Content) -> None:
    for level in range(LENGTH):
        array(f"levels/{level}/margins", lambda margins: margins * 1.01)(content)
    scaled("margin", 1.01)(content)


def margin_below_zero(content: Content) -> None:
    entry("levels/2/margins", 6, lambda _: -1.0)(content)
    content["margin"] = (-1.0).hex()


smaller_state_radius = entry("levels/2/state_radii", 5, lambda radius: radius * 1e-6)


def swapped_words(content: Content) -> None:
    """The words 0 and 1: with another answer each, and the same margins."""
    for name in ("latents", "states"):
        array(f"levels/0/{name}", lambda numbers: numbers.reshape(2, -1)[::-1])(content)


def other_bundle(row: list[int]) -> list[int]:
    return [*row[:5], next(bundle for bundle in row if bundle != row[5]), *row[6:]]


FALSE: dict[str, Forgery] = {
    "missing level": drop("levels/1", "levels[1].latents"),
    "missing last level": drop("levels/-1", "length"),
    "no levels": put("levels", [], "length"),
    "missing word": array("levels/2/margins", lambda margins: margins[:-1]),
    "word count": put("words", lambda old: old + 2),
    "larger margin in the summary": put("margin", (7.0).hex()),
    "larger margins": Forgery(larger_margins, "levels[0].margins[0]"),
    "margin below zero": Forgery(margin_below_zero, "levels[2].margins[6]"),
    "smaller state radius": smaller_state_radius,
    "negative state radius": entry("levels/2/state_radii", 5, lambda radius: -radius),
    "moved state": entry(
        "levels/2/states", 3 * 18 + 11, lambda entry: entry + 0.001, "levels[2].state_radii[3]"
    ),
    "moved window": entry(
        "levels/2/states", 3 * 18 + 2, lambda entry: entry + 0.001, "levels[2].state_radii[3]"
    ),
    "swapped words": Forgery(swapped_words, "levels[0].latents[0]"),
    "moved latent": entry("levels/1/latents", 2 * 8 + 3, lambda entry: entry + 0.01, "levels[1].latents[2]"),
    "smaller latent radius": entry(
        "levels/1/latent_radii", 2, lambda radius: radius * 1e-06, "levels[1].latents[2]"
    ),
    "negative latent radius": entry("levels/1/latent_radii", 2, lambda radius: -radius),
    "larger latent radius": entry("levels/1/latent_radii", 2, lambda _: 10.0),
    "endless latent radius": entry("levels/1/latent_radii", 2, lambda _: np.inf, "levels[1].latent_radii"),
    "missing bundle": drop("levels/2/bundle_of/-1", "levels[2].bundle_of"),
    "other bundle": put("levels/2/bundle_of", other_bundle, "levels[2].bundle_of[5]"),
}


test_a_false_line_is_named_even_under_a_new_seal = forgeries(FALSE)


def test_a_wrong_answer_cannot_be_certified(content: Content, run: Run) -> None:
    # the same claims with a task that begins in the other state: the first answer is wrong
    changed = copy.deepcopy(content)
    changed["automaton"]["initial_state"] = 1
    changed["sha256"] = seal(changed)
    with pytest.raises(RefusedError, match=r"levels\[0\]\.margins\[0\]: is larger than"):
        check_as(changed, run, automaton=Automaton(initial_state=1, table=[[0, 1], [1, 0]]))


@pytest.mark.parametrize(
    ("sizes", "claimed", "line"),
    [
        ({"max_iterations": 1}, {}, "iterations"),
        ({"max_iterations": 1}, {"iterations": 1}, "iterations"),
        ({"damping": 0.2}, {}, "iterations"),
    ],
    ids=str,
)
def test_what_is_proved_of_one_iteration_is_not_of_another(
    content: Content, run: Run, sizes: Content, claimed: Content, line: str
) -> None:
    changed = copy.deepcopy(content)
    Lines(changed).update(claimed)
    changed["config"]["sizes"] |= sizes
    changed["sha256"] = seal(changed)
    with pytest.raises(RefusedError) as refusal:
        check_as(changed, run, config=changed["config"])
    assert line_of(refusal.value) == line


def test_what_a_worker_process_refuses_is_told_as_in_one(
    content: Content, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = copy.deepcopy(content)
    smaller_state_radius(Lines(changed))
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(changed))
    assert check_certificate.main([str(path), "parity-small", "--processes", "2"]) == 1
    line = "levels[2].state_radii[5]: is less than the distance of the state (word 1 0 1)"
    assert capsys.readouterr().err == f"refused: claims[0].{line}\n"


def test_every_word_is_followed(content: Content, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    whole = WordsChecker.check_step

    def remember(self: WordsChecker, level: int, row: int) -> None:
        seen.append(tuple(map(int, f"{row:0{level + 1}b}")))
        whole(self, level, row)

    monkeypatch.setattr(WordsChecker, "check_step", remember)
    check_certificate.check_certificate(parse_certificate(content), run, ONE_PROCESS)
    words = [word for length in range(1, LENGTH + 1) for word in itertools.product((0, 1), repeat=length)]
    assert sorted(seen) == sorted(words)


def test_the_command_writes_what_the_checker_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert all_words.main(["parity-small", "--length", "2", "--out", str(out)]) == 0
    assert "analysis.check_certificate" in capsys.readouterr().out
    assert check_certificate.main([str(out), "parity-small", "--processes", "1"]) == 0  # or the file in it
    assert "all 6 words of up to 2 tokens are right.\n- model: implicit-mamba2" in capsys.readouterr().out
    for text in ("[]", "{", '{"format": "implicit-ssm certificate of all words, version 3"}'):
        (out / "certificate.json").write_text(text)
        assert check_certificate.main([str(out / "certificate.json"), "parity-small"]) == 1


MEMBERSHIP = ("bundle_of", "levels[0].bundle_of", "levels[1].bundle_of")


def verdict_on(content: Content, run: Run) -> str:
    parsed = parse_certificate(parse_json(json.dumps(content).encode()))
    return check_certificate.check_certificate(parsed, run, ONE_PROCESS)


@pytest.fixture(scope="module")
def constant(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "constant"
    return always_right(untrained(folder, "implicit-mamba2", TINY, {"head": 0.05}))


@pytest.fixture(scope="module", params=["words", "every length"])
def answers(constant: Run, request: pytest.FixtureRequest) -> Content:
    chosen = {"claim": "words", "length": 2} if request.param == "words" else {"claim": "lengths", **COARSE}
    document: Content = certify(constant, **chosen).model_dump(mode="json")
    return document


def first_bundle(field: str, factor: float, line: Line) -> Forgery:
    """Scale what is said of the first bundle."""

    def forge(content: Any) -> None:
        factors = np.ones((len(content["bundles"]["tokens"]), 1))
        factors[0] = factor
        array(f"bundles/{field}", lambda numbers: numbers.reshape(len(factors), -1) * factors)(content)

    return Forgery(forge, line)


NONE: dict[str, Any] = {"tokens": []} | dict.fromkeys(
    ("centres", "widths", "latents", "metrics", "radii"), ""
)


def memberships(content: Any) -> list[int]:
    """The bundles of the first steps."""
    row: list[int] = content["levels"][0]["bundle_of"] if "levels" in content else content["bundle_of"][0]
    return row


OF_THE_ITERATION: dict[str, Forgery] = {
    "own words": put("scope", "in floating-point arithmetic, by every mode"),
    "the run's rtol as tolerance": put("tolerance", (1e-4).hex(), "latent_error"),
    "tolerance in decimal": put("tolerance", 1e-7),
    "tolerance of zero": put("tolerance", (0.0).hex()),
    "tolerance of all latents": put("tolerance", (1.0).hex()),
    "negative tolerance": put("tolerance", (-1e-7).hex()),
    "few iterations": put("iterations", 5),
    "no iterations": put("iterations", 0),
    "iterations above the limit": put("iterations", 1001),
    "latent error that no tolerance meets": put("latent_error", (1e-3).hex(), ANYWHERE),
    "negative latent error": put("latent_error", (-1e-6).hex()),
    "no latent error": put("latent_error", (0.0).hex()),
    "negative step error": put("step_error", (-1e-12).hex()),
    "step error of the program": put("step_error", (1e-3).hex(), "latent_error"),
    "less rounding than there is": put("step_error", (1e-15).hex()),
    "no rounding": put("step_error", (0.0).hex()),
    "another format": put("dtype", "float32"),
    "a format in words": put("dtype", "float64 and float32"),
    "exact functions": put("ulps", 0),
    "functions better than they are": put("ulps", 1),
    "functions far off": put("ulps", 1000, "step_error"),
    "functions of nothing": put("ulps", 10**6),
    "another token": put("bundles/tokens/0", lambda token: token ^ 1, ANYWHERE),
    "no such token": put("bundles/tokens/0", 2, "bundles.tokens"),
    "no bundles": put("bundles", NONE, "bundles.tokens"),
    "no such bundle": Forgery(lambda lines: memberships(lines).__setitem__(0, 99), MEMBERSHIP),
    "bundle before the first": Forgery(lambda lines: memberships(lines).__setitem__(0, -1), MEMBERSHIP),
    "too few of them": Forgery(lambda lines: memberships(lines).pop(), MEMBERSHIP),
    "box elsewhere": first_bundle("centres", 2.0, ANYWHERE),
    "negative box": first_bundle("widths", -1.0, "bundles.radii[0]"),
    "no box": first_bundle("widths", 0.0, MEMBERSHIP),
    "box of all states": first_bundle("widths", 1e9, "bundles.radii[0]"),
    "region elsewhere": first_bundle("latents", -1.0, "bundles.radii[0]"),
    "no metric": first_bundle("metrics", 0.0, "bundles.metrics[0]"),
    "stretched metric": first_bundle("metrics", 1e6, ANYWHERE),
    "region of all latents": first_bundle("radii", 1e6, "bundles.radii[0]"),
    "small region": first_bundle("radii", 1e-9, ANYWHERE),
    "region of none": first_bundle("radii", 0.0, "bundles.radii[0]"),
    "negative region": first_bundle("radii", -1.0, "bundles.radii[0]"),
}


@pytest.mark.parametrize("name", OF_THE_ITERATION)
def test_a_forged_iteration_is_refused(answers: Content, constant: Run, name: str) -> None:
    assert_refused(answers, constant, OF_THE_ITERATION[name])


def test_the_verdict_says_of_which_iteration(answers: Content, constant: Run) -> None:
    """Its numbers are read back as those that were checked, and its words are none of the document's."""
    told = verdict_on(answers, constant)
    found = re.search(r"\(damping (\S+), rtol <= (\S+), a limit of at least (\d+) iterations a token\)", told)
    assert found is not None
    damping, tolerance, limit = found.groups()
    assert float(damping) == constant.config.as_json()["sizes"]["damping"]
    assert float(tolerance) == float.fromhex(Lines(answers)["tolerance"])
    assert int(limit) == Lines(answers)["iterations"]
    assert "- arithmetic: exact, and as float64 computes it on a CPU (python -m implicit.answer)\n" in told
    assert "- assumed of float64: + - * / round as in IEEE 754; sums and matrix products are made of" in told
    assert "within 4 ulp\n- not covered: float32, and the run's own rtol of 0.0001\n" in told
    shown = re.search(r"- margin: at least ([0-9.e-]+)\n", told)
    assert shown is not None
    assert float(shown.group(1)) <= float.fromhex(Lines(answers)["margin"])


def test_a_verdict_names_the_tolerance_that_the_command_needs(answers: Content) -> None:
    claim = parse_certificate(answers).only.model_copy(update={"tolerance": 1e-11})
    conditions = claim.verdict({"sizes": {"damping": 0.8, "rtol": 1e-12}}).conditions
    command = "python -m implicit.answer --rtol 1e-11"
    assert f"arithmetic: exact, and as float64 computes it on a CPU ({command})" in conditions
    assert "not covered: float32" in conditions


def test_of_real_numbers_no_rounding_is_claimed(constant: Run) -> None:
    document = certify(constant, claim="words", length=2, dtype="real").model_dump(mode="json")
    Lines(document)["step_error"] = (0.0).hex()
    document["sha256"] = seal(document)
    told = verdict_on(document, constant)
    assert "float64" not in told
    assert "- not covered: rounding, and the run's own rtol of 0.0001\n" in told
