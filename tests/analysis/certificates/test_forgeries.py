"""Certificates that a forger wrote: each is refused by one sentence, and none writes its own verdict.

They are whole files, sealed anew and given to the command, as a reader gets them.
"""

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import check_certificate
from analysis.all_lengths import analyse as all_lengths
from analysis.all_words import analyse as all_words
from analysis.certificates.parts import RefusedError, at_least, seal
from analysis.certificates.producing import identity_of
from analysis.certificates.replay import check_state
from analysis.certify import certify, certify_pairs
from analysis.check_certificate import CheckSettings
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.targets import COARSE, SMALL, TINY, untrained
from implicit.models.interface import FixedPointModel
from implicit.runs.loading import Run

Content = dict[str, Any]
PAIRS: dict[str, Any] = {"states": 4, "sequences": 4, "length": 6}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "implicit"
    return untrained(folder, "implicit-mamba2", SMALL, {"out_proj": 16.0})


@pytest.fixture(scope="module")
def explicit(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return untrained(tmp_path_factory.mktemp("runs") / "explicit", "mamba2", SMALL)


@pytest.fixture(scope="module")
def content(run: Run) -> Content:
    certificate = certify(run, **PAIRS)
    assert certificate.summary == dict.fromkeys(certificate.summary, 4)
    return certificate.model_dump(mode="json")


@pytest.fixture(scope="module")
def control(explicit: Run) -> Content:
    return certify(explicit, **PAIRS).model_dump(mode="json")


@pytest.fixture
def answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[Content | str, Run], str]:
    """Give a file to the command: what it prints, after its exit code."""

    def check(content: Content | str, run: Run) -> str:
        if not isinstance(content, str):
            content["sha256"] = seal(content)
            content = json.dumps(content)
        path = tmp_path / "certificate.json"
        path.write_text(content, encoding="utf-8")
        code = check_certificate.main([str(path), str(run.path), "--processes", "1"])
        printed = capsys.readouterr()
        assert (code == 0) == (printed.err == "")
        return f"{code} {printed.out if code == 0 else printed.err}"

    return check


def _assert_refused(printed: str, line: str) -> None:
    assert printed.startswith(f"1 refused: {line}: ")
    assert printed.count("\n") == 1  # one sentence


# A4: states that no word leads to


def _forged_states(content: Content, run: Run, change: Callable[[torch.Tensor], torch.Tensor]) -> Content:
    """Everything proved anew, at other states under the same sequences, positions and tokens."""
    model = run.model.implicit
    assert isinstance(model, FixedPointModel)
    batch = sample_batch(run.task, PAIRS["sequences"], PAIRS["length"], seed=0)
    visited = visited_states(in_double_precision(run.model), batch.tokens, PAIRS["states"])
    moved = [replace(v, state={name: change(part) for name, part in v.state.items()}) for v in visited]
    pairs = certify_pairs(model, moved)
    assert all(pair.point is not None and pair.point.contraction is not None for pair in pairs)
    summary = {"pairs": 4, "existence": 4, "invertibility": 4, "contraction": 4}
    summary["non_diagonal"] = sum(pair.non_diagonal for pair in pairs)
    summary["non_linear"] = sum(pair.non_linear for pair in pairs)
    summary["range"] = sum(pair.range is not None for pair in pairs)
    return {
        **copy.deepcopy(content),
        "pairs": [pair.model_dump(mode="json") for pair in pairs],
        "summary": summary,
    }


GENERATOR = torch.Generator().manual_seed(0)
OTHER_STATES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "random": lambda part: torch.randn(part.shape, generator=GENERATOR, dtype=part.dtype),
    "zero": torch.zeros_like,
    "turned": lambda part: -part,
    "near": lambda part: part + 1e-5,
    "scaled": lambda part: part * (1 + 1e-5),
}


@pytest.mark.parametrize("name", OTHER_STATES)
def test_states_that_no_word_leads_to_are_refused(
    content: Content, run: Run, answer: Callable[[Content, Run], str], name: str
) -> None:
    _assert_refused(answer(_forged_states(content, run, OTHER_STATES[name]), run), "pairs[0].state")


def test_states_of_other_words_are_refused(
    content: Content, run: Run, answer: Callable[[Content, Run], str]
) -> None:
    """Two pairs of one token exchange all but their places: every claim stays true of its state."""
    forged = copy.deepcopy(content)
    (first, second), *_ = [
        (i, j)
        for i, one in enumerate(forged["pairs"])
        for j, other in enumerate(forged["pairs"])
        if i < j and one["token"] == other["token"]
    ]
    one, other = forged["pairs"][first], forged["pairs"][second]
    for name in ("sequence", "position"):
        one[name], other[name] = other[name], one[name]
    forged["pairs"][first], forged["pairs"][second] = other, one
    for pair in forged["pairs"]:
        number = pair["elsewhere"]["pair"]
        pair["elsewhere"]["pair"] = {first: second, second: first}.get(number, number)
    _assert_refused(answer(forged, run), f"pairs[{first}].state")


def test_states_of_the_control_are_recomputed_too(
    control: Content, explicit: Run, answer: Callable[[Content, Run], str]
) -> None:
    forged = copy.deepcopy(control)
    numbers = np.frombuffer(base64.b64decode(forged["pairs"][1]["state"]["ssm.0"]), "<f8")
    forged["pairs"][1]["state"]["ssm.0"] = base64.b64encode((numbers + 1e-5).tobytes()).decode()
    _assert_refused(answer(forged, explicit), "pairs[1].state")


# A5: what a certificate says of itself


def extra_count(content: Content) -> None:
    content["summary"]["proved for all lengths"] = 999


def boolean_count(content: Content) -> None:
    content["summary"]["existence"] = True


def other_task(content: Content) -> None:
    content["run"]["task"] = "S5"


def other_model(content: Content) -> None:
    content["run"]["model"] = "transformer"


def other_seed(content: Content) -> None:
    content["run"]["seed"] = 1


def other_length(content: Content) -> None:
    content["run"]["training_length"] = 10**6


def fewer_parameters(content: Content) -> None:
    content["run"]["parameters"] = 3


def praise_of_the_run(content: Content) -> None:
    content["run"]["accuracy"] = "100% at every length"


def other_settings(content: Content) -> None:
    content["settings"]["accuracy"] = 100


def more_sequences_than_can_be_drawn(content: Content) -> None:
    content["settings"] |= {"sequences": 10**4, "length": 10**4}


def other_arithmetic(content: Content) -> None:
    content["arithmetic"]["producer"] = "exact rational arithmetic"


def config_of_another_type(content: Content) -> None:
    content["config"]["sizes"]["layers"] = True  # 1 == True


def config_with_more(content: Content) -> None:
    content["config"]["accuracy"] = None  # of a key that is missing, get gives None


def unread_part_of_a_state(content: Content) -> None:
    content["pairs"][0]["state"]["proved everywhere"] = ""


# A6: claims that claim nothing


def nothing_claimed(content: Content) -> None:
    for pair in content["pairs"]:
        pair |= dict.fromkeys(("point", "elsewhere", "range"))
    content["summary"] = dict.fromkeys(content["summary"], 0) | {"pairs": len(content["pairs"])}


def least_range(content: Content) -> None:
    content["pairs"][1]["range"]["state_radius"] = (5e-324).hex()


def range_below_the_spacing(content: Content) -> None:
    h = np.frombuffer(base64.b64decode(content["pairs"][1]["state"]["ssm.0"]), "<f8")
    spacing = float(np.spacing(np.float32(np.abs(h).max())))
    content["pairs"][1]["range"]["state_radius"] = np.nextafter(spacing, 0).item().hex()


def range_without_contraction(content: Content) -> None:
    content["pairs"][1]["range"]["contraction"] = None


def range_whose_entry_may_be_zero(content: Content) -> None:
    content["pairs"][1]["range"]["entries"] = [[(-1e300).hex(), (1e300).hex()]]


# A10: one spelling, one type


def overflowing_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = "0x1p99999"


def respelled_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = content["pairs"][2]["point"]["radius"].upper()


def number_in_words(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = " " + content["pairs"][2]["point"]["radius"]


def decimal_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = float.fromhex(content["pairs"][2]["point"]["radius"])


def infinite_number(content: Content) -> None:
    content["pairs"][2]["point"]["radius"] = "inf"


def integer_as_text(content: Content) -> None:
    content["pairs"][2]["token"] = str(content["pairs"][2]["token"])


def integer_as_float(content: Content) -> None:
    content["pairs"][2]["position"] = float(content["pairs"][2]["position"])


def integer_as_boolean(content: Content) -> None:
    content["pairs"][2]["token"] = bool(content["pairs"][2]["token"])


def bits_behind_the_end(content: Content) -> None:
    text = content["pairs"][2]["point"]["latent"]
    assert text.endswith("=")
    body = text.rstrip("=")
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    last = letters[letters.index(body[-1]) | 1]
    content["pairs"][2]["point"]["latent"] = body[:-1] + last + text[len(body) :]


def half_a_number(content: Content) -> None:
    content["pairs"][2]["point"]["latent"] = base64.b64encode(b"1234").decode()


def key_that_looks_like_a_verdict(content: Content) -> None:
    content["pairs"][2]["point"]["x\n0 The certificate holds of run parity"] = 1


FORGED: list[tuple[Callable[[Content], None], str]] = [
    (extra_count, "summary"),
    (boolean_count, "summary.existence"),
    (other_task, "run.task"),
    (other_model, "run.model"),
    (other_seed, "run.seed"),
    (other_length, "run.training_length"),
    (fewer_parameters, "run.parameters"),
    (praise_of_the_run, "run"),
    (other_settings, "settings"),
    (more_sequences_than_can_be_drawn, "settings.sequences"),
    (other_arithmetic, "arithmetic.producer"),
    (config_of_another_type, "config.sizes"),
    (config_with_more, "config.accuracy"),
    (unread_part_of_a_state, "pairs[0].state"),
    (nothing_claimed, "pairs"),
    (least_range, "pairs[1].range.state_radius"),
    (range_below_the_spacing, "pairs[1].range.state_radius"),
    (range_without_contraction, "summary.range"),
    (range_whose_entry_may_be_zero, "summary.range"),
    (overflowing_number, "pairs[2].point.radius"),
    (respelled_number, "pairs[2].point.radius"),
    (number_in_words, "pairs[2].point.radius"),
    (decimal_number, "pairs[2].point.radius"),
    (infinite_number, "pairs[2].point.radius"),
    (integer_as_text, "pairs[2].token"),
    (integer_as_float, "pairs[2].position"),
    (integer_as_boolean, "pairs[2].token"),
    (bits_behind_the_end, "pairs[2].point.latent"),
    (half_a_number, "pairs[2].point.latent"),
    (key_that_looks_like_a_verdict, r"pairs[2].point.'x\n0 The certificate holds of run parity'"),
]


@pytest.mark.parametrize(("forge", "line"), FORGED, ids=lambda case: getattr(case, "__name__", None))
def test_a_forgery_is_refused(
    content: Content,
    run: Run,
    answer: Callable[[Content, Run], str],
    forge: Callable[[Content], None],
    line: str,
) -> None:
    forged = copy.deepcopy(content)
    forge(forged)
    _assert_refused(answer(forged, run), line)


def test_a_control_that_claims_nothing_is_refused(
    control: Content, explicit: Run, answer: Callable[[Content, Run], str]
) -> None:
    forged = copy.deepcopy(control)
    for pair in forged["pairs"]:
        pair["decay"] = None
    forged["summary"]["explicit"] = 0
    _assert_refused(answer(forged, explicit), "pairs")


@pytest.mark.parametrize("prove", [partial(all_words, length=2), partial(all_lengths, **COARSE)])
def test_a_model_with_an_mlp_does_not_pass_for_the_one_without(
    tmp_path: Path, prove: Callable[[Run], Any]
) -> None:
    """What is proved of the same weights without the MLP is another model's."""
    with_mlp = untrained(tmp_path / "mlp", "implicit-mamba2", {**TINY, "mlp_size": 4}, {"head": 0.05})
    without = untrained(tmp_path / "none", "implicit-mamba2", TINY, {"head": 0.05})
    own = without.model.state_dict()
    without.model.load_state_dict({n: w for n, w in with_mlp.model.state_dict().items() if n in own})
    names = with_mlp.task.token_names, with_mlp.task.target_names
    task = WordProblem([[0, 0], [1, 1]], 0, *names, name="constant")
    with_mlp, without = replace(with_mlp, task=task), replace(without, task=task)
    proved = prove(without).certificate(without)
    check_certificate.check_certificate(proved, without, CheckSettings(processes=1))
    about = {"run": identity_of(with_mlp), "config": with_mlp.config.as_json()}
    forged = proved.model_copy(update=about).sealed()
    with pytest.raises(RefusedError, match=r"config\.sizes: are of a model whose mlps\.0\.0\.weight"):
        check_certificate.check_certificate(forged, with_mlp, CheckSettings(processes=1))


@pytest.mark.parametrize("name", ["S5", "S5, and of every other.\nThe certificate holds of run parity"])
def test_the_name_of_a_task_cannot_pass_for_its_table(tmp_path: Path, name: str) -> None:
    run = untrained(tmp_path / "run", "implicit-mamba2", TINY, {"head": 0.05})
    task = WordProblem([[0, 0], [1, 1]], 0, run.task.token_names, run.task.target_names, name=name)
    run = replace(run, task=task)
    certificate = all_words(run, length=1).certificate(run)
    verdict = check_certificate.check_certificate(certificate, run, CheckSettings(processes=1))
    assert "on a task whose words reach 1 of 2 states (table [[0, 0], [1, 1]])" in verdict
    assert "\n" not in verdict
    assert f"task {name if name == 'S5' else ascii(name)[:50]}" in verdict


def test_a_part_of_a_state_is_compared_with_its_own_size() -> None:
    """A large window leaves no room beside a small h."""
    found = {"conv.0": np.full((2, 3), 1e6), "ssm.0": np.full((2, 2), 1e-3)}
    near = {name: part.ravel() * (1 + 0.9e-7) for name, part in found.items()}
    check_state(near, found, "state")
    for name, part in found.items():
        with pytest.raises(RefusedError, match="is farther than 1e-07"):
            check_state({**near, name: part.ravel() * (1 + 1.1e-7)}, found, "state")


def test_a_bound_is_never_rounded_up() -> None:
    generator = np.random.default_rng(0)
    numbers = generator.uniform(1, 10, 2000) * 10.0 ** generator.integers(-300, 300, 2000)
    for number in map(float, numbers):
        assert number * 0.99 <= float(at_least(number)) <= number
    assert at_least(0.99999) == "0.999"  # where .3g says 1


TEXTS: dict[str, tuple[str, str, str]] = {
    "key twice": ('"summary"', '"summary": {}, "summary"', "holds the key summary twice"),
    "inner key twice": (
        '"precision": 53',
        '"precision": 53, "precision": 53',
        "holds the key precision twice",
    ),
    "NaN": ('"precision": 53', '"precision": NaN', "holds the literal NaN"),
    "Infinity": ('"seed": 2', '"seed": -Infinity', "holds the literal -Infinity"),
    "huge integer": ('"precision": 53', '"precision": 5' + "3" * 5000, "holds an integer beyond 64 bits"),
    "long integer": ('"precision": 53', f'"precision": {2**63}', "holds an integer beyond 64 bits"),
    "huge decimal": ('"precision": 53', '"precision": 1e400', "holds a number beyond float64"),
    "deep": ('"precision": 53', f'"precision": {"[" * 40 + "]" * 40}', "is nested more than"),
    "absurdly deep": ('"precision": 53', f'"precision": {"[" * 10**5 + "]" * 10**5}', "is nested more than"),
    "comment": ('"precision": 53', '"precision": 53 // as always', "is not JSON"),
    "behind the end": ("}}", '}} {"summary": {"pairs": 256}}', "is not JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_with_two_meanings_is_refused(
    content: Content, run: Run, answer: Callable[[str, Run], str], name: str
) -> None:
    old, new, reason = TEXTS[name]
    before, _, after = json.dumps(
        {**content, "zz": {}, "sha256": seal(content)} if old == "}}" else content
    ).rpartition(old)
    printed = answer(before + new + after, run)
    assert printed.startswith(f"1 refused: file: {reason}")
    assert printed.count("\n") == 1


def test_the_verdict_is_that_of_the_checker(
    content: Content, run: Run, answer: Callable[[Content, Run], str]
) -> None:
    told = copy.deepcopy(content)
    told["unchecked"] = {
        "search": {"note": "PRAISE"},
        "environment": {"PRAISE": "proved for all words"},
        "seconds": 1e300,
    }
    for certificate in (content, told):
        printed = answer(certificate, run)
        verdict, seconds, _ = printed.split("\n")
        assert "PRAISE" not in printed
        assert verdict.startswith("0 The certificate holds of run implicit (implicit-mamba2, weights ")
        assert "of 4 pairs of a state and a token, exactly one fixed point in a ball" in verdict
        assert "not verified is" in verdict  # in the same sentence
        assert seconds.startswith("Checked in ")


def test_what_fails_in_the_checker_is_no_refusal(
    content: Content, run: Run, answer: Callable[[Content, Run], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(check_certificate, "check", broken)
    printed = answer(copy.deepcopy(content), run)
    assert printed.startswith(f"{check_certificate.INTERNAL_ERROR} Traceback")
    assert printed.endswith("internal error: the checker failed; nothing is said of the certificate\n")
    assert "refused" not in printed
