"""A certificate of all words that was changed is refused, with the first line that fails."""

import base64
import copy
import itertools
import json
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import all_words, check_certificate
from analysis.certificates.arb.models import ArbModel, exact_vector, precision
from analysis.certificates.certificate import Automaton, RefusedError, parse_certificate, seal
from analysis.certificates.claims.words import WordsChecker
from analysis.certify import certify
from analysis.check_certificate import CheckSettings
from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.runs.files import read_tensors, write_tensors
from implicit.runs.folder import RunFolder
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import Content, Forgery, Lines, check_as, drop, entry, line_of, put

LENGTH = 3


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("parity-small")


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    return certify(run, claim="words", length=LENGTH).model_dump(mode="json")


def _edit(
    content: MutableMapping[str, Any], level: int, name: str, entry: int, change: Callable[[float], float]
) -> None:
    part = content["levels"][level]
    numbers = np.frombuffer(base64.b64decode(part[name]), "<f8").copy()
    numbers[entry] = change(numbers[entry])
    part[name] = base64.b64encode(numbers.tobytes()).decode()


def initial_state(content: Content) -> None:
    content["automaton"]["initial_state"] = 1


def missing_word(content: Content) -> None:
    numbers = base64.b64decode(content["levels"][2]["margins"])
    content["levels"][2]["margins"] = base64.b64encode(numbers[:-8]).decode()


def larger_margins(content: Content) -> None:
    for level in range(LENGTH):
        for word in range(2 ** (level + 1)):
            _edit(content, level, "margins", word, lambda margin: margin * 1.01)
    content["margin"] = (float.fromhex(content["margin"]) * 1.01).hex()


def margin_below_zero(content: Content) -> None:
    _edit(content, 2, "margins", 6, lambda _: -1.0)
    content["margin"] = (-1.0).hex()


def smaller_state_radius(content: Content) -> None:
    _edit(content, 2, "state_radii", 5, lambda radius: radius * 1e-6)


def swapped_words(content: Content) -> None:
    # with another answer and the same margins, in the order of the words 0, 1
    for name in ("latents", "states"):
        numbers = np.frombuffer(base64.b64decode(content["levels"][0][name]), "<f8").reshape(2, -1)
        content["levels"][0][name] = base64.b64encode(numbers[::-1].tobytes()).decode()


def other_bundle(content: Content) -> None:
    row = content["levels"][2]["bundle_of"]
    row[5] = next(bundle for bundle in row if bundle != row[5])


FALSE: dict[str, Forgery] = {
    "weights hash": (put("run.weights_sha256", "0" * 64), "run.weights_sha256"),
    "statements": (put("statements.margin", "All answers are right."), "statements"),
    "config": (put("config.sizes.damping", 0.5), "config.sizes"),
    "automaton": (put("automaton.table", [[0, 0], [1, 0]]), "automaton"),
    "initial state": (initial_state, "automaton"),
    "stated precision": (put("arithmetic.precision", 100), "arithmetic.precision"),
    "missing level": (drop("levels.1"), "levels[1].latents"),
    "missing last level": (drop("levels.-1"), "length"),
    "no levels": (put("levels", []), "length"),
    "missing word": (missing_word, "levels[2].margins"),
    "word count": (put("words", lambda old: old + 2), "words"),
    "larger margin in the summary": (put("margin", (7.0).hex()), "margin"),
    "larger margins": (larger_margins, "levels[0].margins[0]"),
    "margin below zero": (margin_below_zero, "levels[2].margins[6]"),
    "smaller state radius": (smaller_state_radius, "levels[2].state_radii[5]"),
    "negative state radius": (
        entry("levels.2.state_radii", 5, lambda radius: -radius),
        "levels[2].state_radii[5]",
    ),
    "moved state": (
        entry("levels.2.states", 3 * 18 + 11, lambda entry: entry + 0.001),
        "levels[2].state_radii[3]",
    ),
    "moved window": (
        entry("levels.2.states", 3 * 18 + 2, lambda entry: entry + 0.001),
        "levels[2].state_radii[3]",
    ),
    "swapped words": (swapped_words, "levels[0].latents[0]"),
    "moved latent": (
        entry("levels.1.latents", 2 * 8 + 3, lambda entry: entry + 0.01),
        "levels[1].latents[2]",
    ),
    "smaller latent radius": (
        entry("levels.1.latent_radii", 2, lambda radius: radius * 1e-06),
        "levels[1].latents[2]",
    ),
    "negative latent radius": (
        entry("levels.1.latent_radii", 2, lambda radius: -radius),
        "levels[1].latent_radii[2]",
    ),
    "larger latent radius": (entry("levels.1.latent_radii", 2, lambda _: 10.0), "levels[1].latent_radii[2]"),
    "endless latent radius": (entry("levels.1.latent_radii", 2, lambda _: np.inf), "levels[1].latent_radii"),
    "missing bundle": (drop("levels.2.bundle_of.-1"), "levels[2].bundle_of"),
    "other bundle": (other_bundle, "levels[2].bundle_of[5]"),
    "decimal margin": (put("margin", 6.0), "margin"),
    "added field": (put("levels.1.remark", "trust me"), "levels[1].remark"),
}


def _check(content: Content, run: Run, processes: int = 1) -> None:
    settings = CheckSettings(processes=processes)
    check_certificate.check_certificate(parse_certificate(content), run, settings)


@pytest.mark.parametrize(("tamper", "line"), FALSE.values(), ids=FALSE)
def test_a_false_line_is_named_even_under_a_new_seal(
    content: Content, run: Run, tamper: Callable[[Content], None], line: str
) -> None:
    changed = copy.deepcopy(content)
    tamper(Lines(changed))
    changed["sha256"] = seal(changed)
    with pytest.raises(RefusedError) as refusal:
        _check(changed, run)
    assert line_of(refusal.value) == line


def test_a_change_that_leaves_all_lines_true_breaks_the_seal(content: Content, run: Run) -> None:
    changed = copy.deepcopy(content)
    _edit(Lines(changed), 2, "state_radii", 5, lambda radius: radius * 2)
    with pytest.raises(RefusedError, match="sha256"):
        _check(changed, run)
    changed["sha256"] = seal(changed)
    _check(changed, run)


def test_a_wrong_answer_cannot_be_certified(content: Content, run: Run) -> None:
    # the same claims with a task that begins in the other state: the first answer is wrong
    changed = copy.deepcopy(content)
    initial_state(changed)
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
    """The same weights with another limit, which is reached too early, and with a slower iteration."""
    changed = copy.deepcopy(content)
    Lines(changed).update(claimed)
    changed["config"]["sizes"] |= sizes
    changed["sha256"] = seal(changed)
    with pytest.raises(RefusedError) as refusal:
        check_as(changed, run, config=changed["config"])
    assert line_of(refusal.value) == line


def test_the_state_after_a_token_encloses_that_of_the_cell() -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 4, "head_size": 2, "d_state": 3, "d_conv": 4, "groups": 2}
    config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)
    model = ImplicitMamba2(config).double()
    state = {name: torch.randn_like(part) for name, part in model.init_state(1).items()}
    latent = torch.randn(4, dtype=torch.float64)
    (cell,) = model.mixers
    assert isinstance(cell, Mamba2Cell)
    with torch.no_grad():
        expected = model.transition(1).state_update(latent, {name: part[0] for name, part in state.items()})
    with precision(128):
        weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
        exact = ArbModel(weights, config.model_dump())
        rows = {
            name: [exact_vector(row.numpy()) for row in part[0].reshape(-1, part.shape[-1])]
            for name, part in state.items()
        }
        _, _, (found,) = exact.evaluate(1, exact_vector(latent.numpy()), rows, None)
        after = exact.layers[0].following(found, rows["conv.0"], rows["ssm.0"])
        for name, part in zip(("conv.0", "ssm.0"), after, strict=True):
            numbers = np.array([[float(entry.mid()) for entry in row] for row in part]).ravel()
            # float64 against 128 bits: rounding of a few dozen operations on numbers of order one
            np.testing.assert_allclose(numbers, expected[name].numpy().ravel(), rtol=1e-11, atol=1e-13)


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
    _check(content, run)
    words = [word for length in range(1, LENGTH + 1) for word in itertools.product((0, 1), repeat=length)]
    assert sorted(seen) == sorted(words)


def test_other_weights_and_other_runs_are_refused(
    content: Content, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(content))
    other = RunFolder(tmp_path / "other")
    other.begin(run.config)
    other.finish(run.model)
    assert check_certificate.main([str(path), str(other.path), "--processes", "1"]) == 0
    tensors, _ = read_tensors(other.weights_file)
    tensors["head.bias"] += 1e-3
    write_tensors(other.weights_file, tensors)
    for name in (str(other.path), "parity"):
        assert check_certificate.main([str(path), name]) == 1
        assert capsys.readouterr().err.startswith("refused: run.weights_sha256: ")


def test_the_command_writes_what_the_checker_accepts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert all_words.main(["parity-small", "--length", "2", "--out", str(out)]) == 0
    assert "analysis.check_certificate" in capsys.readouterr().out
    assert check_certificate.main([str(out / "certificate.json"), "parity-small", "--processes", "1"]) == 0
    told = capsys.readouterr().out
    assert "all 6 words of up to 2 tokens are right, in exact arithmetic and as float64" in told
    for text in ("[]", "{", '{"format": "implicit-ssm certificate of all words, version 3"}'):
        (out / "certificate.json").write_text(text)
        assert check_certificate.main([str(out / "certificate.json"), "parity-small"]) == 1
    assert check_certificate.main([str(tmp_path / "none.json"), "parity-small"]) == 2


def test_of_a_model_that_is_wrong_only_the_proved_length_is_certified(run: Run) -> None:
    wrong = load_run("parity-small")
    with torch.no_grad():
        wrong.model.get_parameter("head.weight").neg_()
        wrong.model.get_parameter("head.bias").neg_()
    with pytest.raises(InputError, match="nothing is proved"):
        certify(wrong, claim="words", length=2)
