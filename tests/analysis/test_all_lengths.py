"""Proofs for every length: of a model that is made to forget, and what must not be proved."""

import base64
import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from analysis.certificates.arb.models import ArbModel, exact_vector, precision
from analysis.certificates.certificate import RefusedError, parse_certificate, seal
from analysis.certificates.proofs import lengths as all_lengths
from analysis.certificates.proofs.words import solve_steps
from analysis.certify import certify
from analysis.check_certificate import CheckSettings, check_certificate
from analysis.framework.needs import as_implicit
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.fixed_point import Stopping
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import Content, Forgery, Lines, entry, line_of, put, scaled


@pytest.fixture(scope="module")
def forgetful() -> Run:
    """parity-small without its memory, on a task that asks for none: the first state, for ever."""
    run = load_run("parity-small")
    with torch.no_grad():
        run.model.get_parameter("mixers.0.in_proj.weight").mul_(0.3)
        run.model.get_parameter("mixers.0.A_log").add_(3.0)  # h decays by more than e⁻²⁰ Δ a token
        run.model.get_parameter("head.weight").mul_(0.05)
        run.model.get_parameter("head.bias").copy_(torch.tensor([3.0, -3.0]))
    names = run.task.token_names, run.task.target_names
    task = WordProblem([[0, 0], [1, 1]], 0, *names, name="constant")
    return replace(run, task=task)


COARSE: dict[str, Any] = {"distance": 1e-2, "fraction": 0.03, "rate": 0.9, "gain": 0.95}


def test_a_model_that_forgets_is_proved_right_for_every_length(forgetful: Run) -> None:
    found = all_lengths.analyse(forgetful, **COARSE)
    assert found.proved
    assert found.found is not None
    assert "on all words of every length" in found.sentence
    # states that random words of 60 tokens lead to, in floating point, lie in the sets that targets name
    cover, model = found.found.cover, as_implicit(forgetful).double()
    tokens = torch.randint(0, 2, (20, 60), generator=torch.Generator().manual_seed(0))
    state, place = np.zeros((20, 18)), np.zeros(20, dtype=np.int64)
    stopping = Stopping(rtol=1e-13, max_iterations=2000)
    for t in range(60):
        read = tokens[:, t].numpy()
        state, _ = solve_steps(model, state, read, stopping)
        place = cover.targets[place, read]
        away = cover.metrics[place] @ (state - cover.centres[place])[..., None]
        assert (np.linalg.norm(away[..., 0], axis=1) <= cover.radii[place]).all()
    numbers = found.numbers()
    assert numbers["closed"] == numbers["steps"] == 2 * numbers["sets"]
    assert all_lengths.draw(found).axes
    assert found.rows()
    assert "float32, and the run's own rtol of 0.0001, are not covered" in found.finding.limits


@pytest.mark.parametrize(
    ("entry", "number", "fault"),
    [
        ("head.bias", 0.0, "steps between"),
        ("mixers.0.out_proj.weight", 1e200, "not a finite number|no metrics"),
    ],
)
def test_a_model_that_overflows_or_has_no_bundle_is_told(
    forgetful: Run, entry: str, number: float, fault: str
) -> None:
    run = replace(forgetful, model=copy.deepcopy(forgetful.model).double())
    with torch.no_grad():
        run.model.get_parameter(entry).fill_(number)
    found = all_lengths.analyse(run, **COARSE)
    assert not found.proved
    assert re.search(fault, found.sentence)
    all_lengths.draw(found)


def test_a_wrong_answer_is_not_proved_right(forgetful: Run) -> None:
    task = WordProblem([[0, 1], [1, 0]], 0, ("0", "1"), ("even", "odd"), name="parity")
    found = all_lengths.analyse(replace(forgetful, task=task), **COARSE)
    assert not found.proved
    assert found.found is not None
    assert "steps between" in found.sentence
    assert all_lengths.draw(found).axes


def test_why_nothing_is_proved_is_told() -> None:
    run = load_run("parity-small")
    few = all_lengths.analyse(run, sets=50)
    assert few.fault == "more than 50 states lie farther than 0.0001 from each other"
    fast = all_lengths.analyse(run, distance=0.1, rate=0.1)
    assert fast.fault == "no metrics were found in which every step contracts by 0.1"
    assert not all_lengths.draw(fast).axes
    assert fast.numbers() == {"sentence": fast.sentence, "proved": False, "fault": fast.fault}


def test_models_without_small_states_are_refused(make_run: Any) -> None:
    with pytest.raises(InputError, match="has no fixed points"):
        all_lengths.analyse(make_run("lstm"))
    with pytest.raises(InputError, match="numbers; give a run of at most 200"):
        all_lengths.analyse(load_run("parity"))
    with pytest.raises(InputError, match="rate is 1"):
        all_lengths.analyse(load_run("parity-small"), rate=1.0)


@pytest.fixture(scope="module")
def content(forgetful: Run) -> Content:
    return certify(forgetful, claim="lengths", **COARSE).model_dump(mode="json")


def _check(content: Content, run: Run) -> None:
    check_certificate(parse_certificate(content), run, CheckSettings(processes=1))


def _edit(content: Content, name: str, entry: int, change: Callable[[float], float]) -> None:
    numbers = np.frombuffer(base64.b64decode(content[name]), "<f8").copy()
    numbers[entry] = change(numbers[entry])
    content[name] = base64.b64encode(numbers.tobytes()).decode()


def label(content: Content) -> None:
    content["labels"][content["targets"][0][1]] = 1


def target(content: Content) -> None:
    content["targets"][1][0] = content["targets"][1][1]


def smaller_radius(content: Content) -> None:
    _edit(content, "radii", content["targets"][3][0], lambda radius: radius * 0.5)


def bundle_of_the_other_token(content: Content) -> None:
    content["bundle_of"][2][0] = content["bundle_of"][2][1]


def narrower_bundle(content: Content) -> None:
    numbers = np.frombuffer(base64.b64decode(content["bundles"]["widths"]), "<f8") * 0.5
    content["bundles"]["widths"] = base64.b64encode(numbers.tobytes()).decode()


FALSE: dict[str, Forgery] = {
    "weights hash": (put("run.weights_sha256", "0" * 64), "run.weights_sha256"),
    "statements": (put("statements.step", "Every token leads somewhere."), "statements"),
    "automaton": (put("automaton.table", [[0, 1], [1, 0]]), "automaton"),
    "label": (label, "targets[0][1]"),
    "first label": (put("labels.0", 1), "labels"),
    "target": (target, "targets[1][0]"),
    "target outside": (put("targets.1.0", 10**6), "targets[1][0]"),
    "smaller radius": (smaller_radius, ""),
    "negative radius": (entry("radii", 2, lambda radius: -radius), ""),
    "moved start": (entry("centres", 3, lambda entry: entry + 1e-06), "centres[0]"),
    "singular metric": (entry("metrics", 3 * 171, lambda _: 0.0), ""),
    "moved latent": (entry("latents", 5, lambda entry: entry + 0.1), "latents[0][0]"),
    "smaller latent radius": (entry("latent_radii", 7, lambda radius: radius * 0.001), "latents[3][1]"),
    "larger margin": (scaled("margin", 1.2), "margin"),
    "missing set": (put("labels", lambda old: old[:-1]), "targets"),
    "bundle of the other token": (bundle_of_the_other_token, "bundle_of[2][0]"),
    "narrower bundle": (narrower_bundle, "bundle_of[0][0]"),
}


@pytest.mark.parametrize(("tamper", "line"), FALSE.values(), ids=FALSE)
def test_a_false_line_is_named_even_under_a_new_seal(
    content: Content, forgetful: Run, tamper: Callable[[Content], None], line: str
) -> None:
    changed = copy.deepcopy(content)
    tamper(Lines(changed))
    changed["sha256"] = seal(changed)
    with pytest.raises(RefusedError) as refusal:
        _check(changed, forgetful)
    # a set that shrinks, or loses its shape, fails where it is reached first: by any line that leads into it
    others = ("targets", "metrics", "bundles", "bundle_of", "latents")
    named = line_of(refusal.value)
    assert named == line or (not line and named.startswith(others))


def test_the_certificate_holds_and_any_change_breaks_its_seal(content: Content, forgetful: Run) -> None:
    _check(content, forgetful)
    changed = copy.deepcopy(content)
    changed["unchecked"]["seconds"] += 1
    with pytest.raises(RefusedError, match="sha256"):
        _check(changed, forgetful)


def test_derivatives_along_the_whole_state_are_those_of_autograd() -> None:
    torch.manual_seed(0)
    sizes = {"d_model": 4, "head_size": 2, "d_state": 3, "d_conv": 4, "expand": 1}
    config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)
    model = ImplicitMamba2(config).double()
    state = {name: torch.randn_like(part)[0] for name, part in model.init_state(1).items()}
    latent = torch.randn(4, dtype=torch.float64)
    names, numbers = list(state), [part.numel() for part in state.values()]

    def both(joined: torch.Tensor) -> torch.Tensor:
        parts = dict(zip(names, joined[4:].split(numbers), strict=True))
        shaped = {name: part.reshape(state[name].shape) for name, part in parts.items()}
        transition = model.transition(1)
        after = transition.state_update(joined[:4], shaped)
        return torch.cat([transition.self_map(joined[:4], shaped), *(after[name].ravel() for name in names)])

    joined = torch.cat([latent, *(state[name].ravel() for name in names)])
    expected = torch.autograd.functional.jacobian(both, joined).numpy()
    with precision(128):
        exact = ArbModel({n: t.numpy() for n, t in model.state_dict().items()}, config.model_dump())
        rows = {
            name: [exact_vector(row.numpy()) for row in part.reshape(-1, part.shape[-1])]
            for name, part in state.items()
        }
        unit = [exact_vector(row) for row in np.eye(sum(numbers))]
        _, inner, outer = exact.evaluate_along(1, exact_vector(latent.numpy()), rows, unit)
        found = np.array([[float(entry.mid()) for entry in row] for row in [*inner, *outer]])
    # float64 against 128 bits: rounding of some hundred operations
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_steps_without_a_bound_are_drawn_as_none_and_prove_nothing(forgetful: Run) -> None:
    """A gain may be infinite, or no number, where the sets of a cover are too large."""
    found = all_lengths.analyse(forgetful, **COARSE)
    assert found.found is not None
    bounds = found.found.bounds
    gain, closed = bounds.gain.copy(), found.found.closed.copy()
    gain[:2], closed[:2] = [np.inf, np.nan], False
    broken = replace(found, found=replace(found.found, bounds=replace(bounds, gain=gain), closed=closed))
    assert not broken.proved
    drawn = sum(patch.get_height() for patch in all_lengths.draw(broken).axes[0].patches)  # type: ignore[attr-defined]
    assert drawn == len(gain) - 2
