"""Certificates that a forger wrote: each is refused by one sentence, and none writes its own verdict.

They are whole files, sealed anew and given to the command, as a reader gets them.
"""

import base64
import copy
import itertools
import json
import string
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis import check_certificate
from analysis.certificates.certificate import RefusedError, parse_certificate, seal
from analysis.certificates.producing import identity_of
from analysis.certificates.proofs.theorem1 import certify_pairs
from analysis.certificates.replay import check_state
from analysis.certify import certify
from analysis.framework.visited_states import in_double_precision, sample_batch, visited_states
from automata.checks import at_least, at_most
from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.targets import COARSE, TINY, constant, untrained
from implicit.models.interface import FixedPointModel
from implicit.runs.loading import Run
from tests.analysis.conftest import PAIRS
from tests.analysis.lines import (
    ONE_PROCESS,
    Content,
    Forgery,
    Lines,
    assert_refused,
    drop,
    entry,
    numbers_of,
    put,
    scaled,
)

Answer = Callable[[Content | str, Run], str]


@pytest.fixture
def answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Answer:
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


def _assert_refused(printed: str, line: object) -> None:
    assert printed.startswith((f"1 refused: {line}: ", f"1 refused: claims[0].{line}: "))
    assert printed.count("\n") == 1  # one sentence


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
    forged = copy.deepcopy(content)
    Lines(forged)["pairs"] = [pair.model_dump(mode="json") for pair in pairs]
    Lines(forged)["summary"] = summary
    return forged


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
    content: Content, run: Run, answer: Answer, name: str
) -> None:
    _assert_refused(answer(_forged_states(content, run, OTHER_STATES[name]), run), "pairs[0].state")


def test_states_of_other_words_are_refused(content: Content, run: Run, answer: Answer) -> None:
    """Two pairs of one token exchange all but their places: every claim stays true of its state."""
    forged = copy.deepcopy(content)
    pairs = forged["claims"][0]["pairs"]
    first, second = next(
        (i, j) for i, j in itertools.combinations(range(4), 2) if pairs[i]["token"] == pairs[j]["token"]
    )
    places = [{name: pairs[n][name] for name in ("sequence", "position")} for n in (first, second)]
    pairs[first], pairs[second] = {**pairs[second], **places[0]}, {**pairs[first], **places[1]}
    for pair in pairs:
        number = pair["elsewhere"]["pair"]
        pair["elsewhere"]["pair"] = {first: second, second: first}.get(number, number)
    _assert_refused(answer(forged, run), f"pairs[{first}].state")


def missing_pair_with_its_count(content: Content) -> None:
    del content["pairs"][1]
    content["summary"] = dict.fromkeys(content["summary"], 3)


def orbit_and_range_dropped(content: Content) -> None:
    content["pairs"][2]["point"]["orbit"] = content["pairs"][2]["range"] = None


def nothing_claimed(content: Content) -> None:
    for pair in content["pairs"]:
        pair |= dict.fromkeys(("point", "elsewhere", "range"))
    content["summary"] = dict.fromkeys(content["summary"], 0) | {"pairs": len(content["pairs"])}


def range_below_the_spacing(content: Content) -> None:
    h = numbers_of(content["pairs"][1]["state"]["ssm.0"])
    spacing = float(np.spacing(np.float32(np.abs(h).max())))
    content["pairs"][1]["range"]["state_radius"] = np.nextafter(spacing, 0).item().hex()


def bits_behind_the_end(text: str) -> str:
    """Set the last bit of the last letter, which encodes nothing."""
    body, letters = text.rstrip("="), string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    assert body != text
    return body[:-1] + letters[letters.index(body[-1]) | 1] + text[len(body) :]


VERDICT = "x\n0 The certificate holds of run parity"


FORGED: dict[str, Forgery] = {
    "weights hash": put("run/weights_sha256", "0" * 64),
    "statements": put("statements/existence", "All states have fixed points.", "statements"),
    "stated precision": put("arithmetic/precision", 256),
    "missing pair": drop("pairs/1", "pairs"),
    "missing pair with its count": Forgery(missing_pair_with_its_count, "pairs"),
    "repeated pair": put("pairs", lambda old: [old[0], old[0], *old[2:]], "pairs[1].sequence"),
    "token": put("pairs/2/token", lambda old: 1 - old),
    "position": put("pairs/2/sequence", 99),
    "state entry": entry("pairs/2/state/ssm.0", 3, lambda number: number + 0.5, "pairs[2].state"),
    "window entry": entry("pairs/2/state/conv.0", 3, lambda number: number + 0.5, "pairs[2].state"),
    "missing state": drop("pairs/2/state/conv.0", "pairs[2].state"),
    "latent centre": entry("pairs/2/point/latent", 1, lambda number: number + 1e-08, "pairs[2].point.error"),
    "short latent": put("pairs/2/point/latent", base64.b64encode(np.zeros(3).tobytes()).decode()),
    "shrunk radius": scaled("pairs/2/point/radius", 1e-09, "pairs[2].point.error"),
    "grown radius": scaled("pairs/2/point/radius", 2.0**28),
    "shrunk error": scaled("pairs/2/point/error", 1e-06),
    "singular value": scaled("pairs/2/point/singular_value", 1.2),
    "negative singular value": scaled("pairs/2/point/singular_value", -1.0),
    "contraction norm": scaled("pairs/2/point/contraction/norm", 0.9),
    "contraction power": put("pairs/2/point/contraction/power", 3),
    "expanding norm": put("pairs/2/point/contraction/norm", (1.5).hex()),
    "entry interval": put(
        "pairs/2/point/entries/0", lambda ends: [ends[1], (2 * float.fromhex(ends[1])).hex()]
    ),
    "entry sign": put(
        "pairs/2/point/entries/0", lambda ends: [(-float.fromhex(end)).hex() for end in ends[::-1]]
    ),
    "diagonal entry": put("pairs/2/places/0", lambda place: place[:1] * 2, "pairs[2].point.entries[0]"),
    "entry outside": put("pairs/2/places/0", [10**6, 0]),
    # a companion's intervals belong to its own h
    "other companion": put("pairs/2/elsewhere/pair", 2),
    "companion out of range": put("pairs/2/elsewhere/pair", 17),
    "grown box": scaled("pairs/2/range/state_radius", 64, "pairs[2].range.error"),
    # the least there is; the damped step of the pair stretches at first
    "growth": put("pairs/2/point/contraction/growth", (0.5).hex()),
    "orbit too short": put(
        "pairs/2/point/orbit/iterations", lambda old: old - 2, "pairs[2].point.orbit.distance"
    ),
    "orbit nearer": scaled("pairs/2/point/orbit/distance", 0.5),
    "orbit outside": scaled("pairs/2/point/orbit/distance", 100.0),
    "orbit at once": put(
        "pairs/2/point/orbit", {"iterations": 0, "distance": (0.0).hex()}, "pairs[2].point.orbit.distance"
    ),
    "orbit without end": put("pairs/2/point/orbit/iterations", 10**9),
    "orbit without contraction": put("pairs/2/point/contraction", None, "pairs[2].point.orbit"),
    "orbit of the companion": put(
        "pairs/2/elsewhere/orbit/iterations", lambda old: old - 2, "pairs[2].elsewhere.orbit.distance"
    ),
    "orbit over a box": put("pairs/2/range/orbit", {"iterations": 40, "distance": (0.01).hex()}),
    # what is not claimed is not counted; then a box of h is around no fixed point that is reached
    "orbit dropped": put("pairs/2/point/orbit", None, "pairs[2].range"),
    "orbit and range dropped": Forgery(orbit_and_range_dropped, "summary.orbit"),
    "orbit dropped elsewhere": put("pairs/2/elsewhere/orbit", None, "summary.non_linear"),
    "count": put("summary/contraction", 5),
    "not finite": put("pairs/2/point/error", "nan"),
    "damaged array": put("pairs/2/point/latent", lambda old: "&" + old[1:]),
    "added field": put("pairs/2/point/remark", "trust me"),
    "silly settings": put("settings/length", 0),
    "extra count": put("summary/proved for all lengths", 999, "summary"),
    "boolean count": put("summary/existence", True),
    "praise of the run": put("run/accuracy", "100% at every length", "run"),
    "other settings": put("settings/accuracy", 100, "settings"),
    "more sequences than can be drawn": put(
        "settings", lambda old: old | {"sequences": 10**4, "length": 10**4}, "settings.sequences"
    ),
    "config of another type": put("config/sizes/layers", True),
    "config with more": put("config/accuracy", None),
    "unread part of a state": put("pairs/0/state/proved everywhere", "", "pairs[0].state"),
    "nothing claimed": Forgery(nothing_claimed, "pairs"),
    "least range": put("pairs/1/range/state_radius", (5e-324).hex()),
    "range below the spacing": Forgery(range_below_the_spacing, "pairs[1].range.state_radius"),
    "range without contraction": put("pairs/1/range/contraction", None, "summary.range"),
    "range whose entry may be zero": put(
        "pairs/1/range/entries", [[(-1e300).hex(), (1e300).hex()]], "summary.range"
    ),
    "overflowing number": put("pairs/2/point/radius", "0x1p99999"),
    "respelled number": put("pairs/2/point/radius", lambda old: old.upper()),
    "integer as text": put("pairs/2/token", lambda old: str(old)),
    "integer as boolean": put("pairs/2/token", lambda old: bool(old)),
    "bits behind the end": put("pairs/2/point/latent", bits_behind_the_end),
    "half a number": put("pairs/2/point/latent", base64.b64encode(b"1234").decode()),
    "key that looks like a verdict": put(
        "pairs/2/point", lambda point: point | {VERDICT: 1}, f"pairs[2].point.{VERDICT!r}"
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forgery_is_refused(content: Content, run: Run, answer: Answer, name: str) -> None:
    forged = copy.deepcopy(content)
    FORGED[name](Lines(forged))
    _assert_refused(answer(forged, run), FORGED[name].line)


def no_decay_claimed(content: Content) -> None:
    for pair in content["pairs"]:
        pair["decay"] = None
    content["summary"]["explicit"] = 0


CONTROL: dict[str, Forgery] = {
    "state": entry("pairs/1/state/ssm.0", 0, lambda number: number + 1e-5, "pairs[1].state"),
    "decay": put(
        "pairs/1/decay/0/0",
        lambda ends: [end.hex() for end in np.array([[-1, 2], [0, 3]]) @ list(map(float.fromhex, ends))],
        "pairs[1].decay[0]",
    ),
    "decay dropped": put("pairs/1/decay", None, "summary.explicit"),
    "nothing claimed": Forgery(no_decay_claimed, "pairs"),
}


@pytest.mark.parametrize("name", CONTROL)
def test_a_forgery_of_the_control_is_refused(control: Content, explicit: Run, name: str) -> None:
    check_certificate.check_certificate(parse_certificate(control), explicit, ONE_PROCESS)
    assert_refused(control, explicit, CONTROL[name])


@pytest.mark.parametrize("prove", [{"claim": "words", "length": 2}, {"claim": "lengths", **COARSE}])
def test_a_model_with_an_mlp_does_not_pass_for_the_one_without(tmp_path: Path, prove: dict[str, Any]) -> None:
    with_mlp = untrained(tmp_path / "mlp", "implicit-mamba2", {**TINY, "mlp_size": 4}, {"head": 0.05})
    without = untrained(tmp_path / "none", "implicit-mamba2", TINY, {"head": 0.05})
    own = without.model.state_dict()
    without.model.load_state_dict({n: w for n, w in with_mlp.model.state_dict().items() if n in own})
    with_mlp, without = constant(with_mlp), constant(without)
    proved = certify(without, **prove)
    check_certificate.check_certificate(proved, without, ONE_PROCESS)
    about = {"run": identity_of(with_mlp), "config": with_mlp.config.as_json()}
    forged = proved.model_copy(update=about).sealed()
    with pytest.raises(RefusedError, match=r"config\.sizes: are of a model whose mlps\.0\.0\.weight"):
        check_certificate.check_certificate(forged, with_mlp, ONE_PROCESS)


@pytest.mark.parametrize("name", ["S5", "S5, and of every other.\nThe certificate holds of run parity"])
def test_the_name_of_a_task_cannot_pass_for_its_table(tmp_path: Path, name: str) -> None:
    run = untrained(tmp_path / "run", "implicit-mamba2", TINY, {"head": 0.05})
    task = WordProblem([[0, 0], [1, 1]], 0, run.task.token_names, run.task.target_names, name=name)
    run = replace(run, task=task)
    certificate = certify(run, claim="words", length=1)
    verdict = check_certificate.check_certificate(certificate, run, ONE_PROCESS)
    assert "whose words reach 1 of 2 states (table [[0, 0]], of SHA-256 " in verdict
    *verified, claimed = verdict.split("\n")
    assert "S5" not in "".join(verified)
    assert claimed.startswith("- not verified, the run's own words: ")
    assert f"task {name if name == 'S5' else ascii(name)[:50]}" in claimed


def test_a_part_of_a_state_is_compared_with_its_own_size() -> None:
    """A large window leaves no room beside a small h."""
    found = {"conv.0": np.full((2, 3), 1e6), "ssm.0": np.full((2, 2), 1e-3)}
    near = {name: part.ravel() * (1 + 0.9e-7) for name, part in found.items()}
    check_state(near, found, "state")
    for name, part in found.items():
        with pytest.raises(RefusedError, match="is farther than 1e-07"):
            check_state({**near, name: part.ravel() * (1 + 1.1e-7)}, found, "state")


def test_a_bound_is_never_rounded_past_its_number() -> None:
    generator = np.random.default_rng(0)
    numbers = generator.uniform(1, 10, 2000) * 10.0 ** generator.integers(-300, 300, 2000)
    for number in map(float, numbers):
        below, above = float(at_least(number)), float(at_most(number))
        assert number * 0.99 <= below <= number <= above <= number * 1.01


TEXTS: dict[str, tuple[str, str, str]] = {
    "key twice": ('"summary"', '"summary": {}, "summary"', "holds the key 'summary' twice"),
    "inner key twice": (
        '"precision": 53',
        '"precision": 53, "precision": 53',
        "holds the key 'precision' twice",
    ),
    "NaN": ('"precision": 53', '"precision": NaN', "holds the literal NaN"),
    "Infinity": ('"seed": 2', '"seed": -Infinity', "holds the literal -Infinity"),
    "huge integer": ('"precision": 53', '"precision": 5' + "3" * 5000, "holds an integer beyond 64 bits"),
    "long integer": ('"precision": 53', f'"precision": {2**63}', "holds an integer beyond 64 bits"),
    "huge decimal": ('"precision": 53', '"precision": 1e400', "holds a number beyond float64"),
    "deep": ('"precision": 53', f'"precision": {"[" * 40 + "]" * 40}', "is nested more than"),
    "absurdly deep": ('"precision": 53', f'"precision": {"[" * 10**5 + "]" * 10**5}', "is nested more than"),
    "comment": ('"precision": 53', '"precision": 53 // as always', "is not valid JSON"),
    "cut off": ("}", "", "is not valid JSON"),
    "behind the end": ("}}", '}} {"summary": {"pairs": 256}}', "is not valid JSON"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_with_two_meanings_is_refused(content: Content, run: Run, answer: Answer, name: str) -> None:
    old, new, reason = TEXTS[name]
    before, _, after = json.dumps(
        {**content, "zz": {}, "sha256": seal(content)} if old == "}}" else content
    ).rpartition(old)
    printed = answer(before + new + after, run)
    assert printed.startswith(f"1 refused: file: {reason}")
    assert printed.count("\n") == 1


def test_the_verdict_is_that_of_the_checker(content: Content, run: Run, answer: Answer) -> None:
    told = copy.deepcopy(content)
    told["unchecked"] = {
        "search": {"note": "PRAISE"},
        "environment": {"PRAISE": "proved for all words"},
        "seconds": 1e300,
    }
    for certificate in (content, told):
        printed = answer(certificate, run)
        verdict, model, *conditions, seconds, _ = printed.split("\n")
        assert "PRAISE" not in printed
        assert verdict.startswith("0 The certificate holds: C1 to C4 of Theorem 1 hold at 4 of 4 pairs")
        assert model.startswith("- model: implicit-mamba2, with weights of SHA-256 ")
        assert "- exactly one fixed point in a ball around the latent: at 4" in conditions
        assert any(line.startswith("- not covered: other states, and the model's own") for line in conditions)
        assert seconds.startswith("Checked in ")


def test_what_fails_in_the_checker_is_no_refusal(
    content: Content, run: Run, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(check_certificate, "check", broken)
    printed = answer(copy.deepcopy(content), run)
    assert printed.startswith(f"{check_certificate.INTERNAL_ERROR} Traceback")
    assert printed.endswith("internal error: the checker failed; nothing is said of the certificate\n")
    assert "refused" not in printed
