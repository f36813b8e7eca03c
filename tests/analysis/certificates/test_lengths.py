"""Words of every length of implicit models: the search for a cover, what is proved, and what must not be."""

import copy
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from analysis.certificates.certificate import Certificate, RefusedError
from analysis.certificates.producing import certificate_of
from analysis.certificates.proofs import lengths as all_lengths
from analysis.certificates.proofs.lengths import (
    OF_STORED_RUNS,
    FoundLengths,
    LengthsSettings,
    for_run,
    reachable_states,
)
from analysis.certificates.proofs.words import solve_steps
from analysis.framework.needs import as_implicit
from automata.tasks.word_problem import WordProblem
from benchmarks.certificate_mutations.targets import COARSE, TINY, constant, untrained
from implicit.fixed_point import Stopping
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run
from tests.analysis.lines import Content, Forgery, array, check_as, entry, forgeries, put, scaled


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tiny model that forgets, on a task that asks for no memory: the first state, for ever."""
    folder = tmp_path_factory.mktemp("runs") / "forgets"
    return constant(untrained(folder, "implicit-mamba2", TINY, {"head": 0.05}))


@pytest.fixture(scope="module")
def found(run: Run) -> FoundLengths:
    return all_lengths.prove_lengths(run, **COARSE)


def test_a_model_that_forgets_is_proved_right_for_every_length(run: Run, found: FoundLengths) -> None:
    assert found.proved
    assert found.found is not None
    assert found.sentence == "proved: the answers to all words of every length are right"
    # states that random words of 60 tokens lead to, in floating point, lie in the sets that targets name
    cover, model = found.found.cover, as_implicit(run).double()
    tokens = torch.randint(0, 2, (20, 60), generator=torch.Generator().manual_seed(0))
    state, place = np.zeros((20, 6)), np.zeros(20, dtype=np.int64)
    stopping = Stopping(rtol=1e-13, max_iterations=2000)
    for t in range(60):
        read = tokens[:, t].numpy()
        state, _ = solve_steps(model, state, read, stopping)
        place = cover.targets[place, read]
        away = cover.metrics[place] @ (state - cover.centres[place])[..., None]
        assert (np.linalg.norm(away[..., 0], axis=1) <= cover.radii[place]).all()
    numbers = found.numbers()
    assert numbers["closed"] == numbers["steps"] == 2 * numbers["sets"]
    assert all_lengths.draw_cover(found).axes
    assert found.rows()
    assert "Not covered: float32, and the run's own rtol of 0.0001." in found.finding.limits


@pytest.mark.parametrize(
    ("entry", "number", "fault"),
    [
        ("head.bias", 0.0, "steps between"),
        ("mixers.0.out_proj.weight", 1e200, "not a finite number|no metrics"),
    ],
)
def test_a_model_that_overflows_or_has_no_bundle_is_told(
    run: Run, entry: str, number: float, fault: str
) -> None:
    run = replace(run, model=copy.deepcopy(run.model).double())
    with torch.no_grad():
        run.model.get_parameter(entry).fill_(number)
    found = all_lengths.prove_lengths(run, **COARSE)
    assert not found.proved
    assert re.search(fault, found.sentence)
    all_lengths.draw_cover(found)


def test_a_wrong_answer_is_not_proved_right(run: Run) -> None:
    task = WordProblem([[0, 1], [1, 0]], 0, ("0", "1"), ("even", "odd"), name="parity")
    found = all_lengths.prove_lengths(replace(run, task=task), **COARSE)
    assert not found.proved
    assert found.found is not None
    assert "steps between" in found.sentence
    assert all_lengths.draw_cover(found).axes


def test_why_nothing_is_proved_is_told() -> None:
    run = load_run("parity-small")
    few = all_lengths.prove_lengths(run, sets=50)
    remedy = "train on where answers are right (--target-accuracy none), or raise --sets"
    assert few.fault == f"more than 50 states lie farther than 0.0001 from each other; {remedy}"
    fast = all_lengths.prove_lengths(run, distance=0.1, rate=0.1)
    assert fast.fault == "no metrics were found in which every step contracts by 0.1"
    assert not all_lengths.draw_cover(fast).axes
    assert fast.numbers() == {"sentence": fast.sentence, "proved": False, "fault": fast.fault}


@pytest.fixture(scope="module")
def content(run: Run, found: FoundLengths) -> Content:
    return certificate_of(run, found).model_dump(mode="json")


OTHERS = ("targets", "metrics", "bundles", "bundle_of", "latents")
"""A set that shrinks, or loses its shape, fails where it is reached first: by any line that leads into it."""
FALSE: dict[str, Forgery] = {
    "label": Forgery(lambda lines: put(f"labels/{lines['targets'][0][1]}", 1)(lines), "targets[0][1]"),
    "first label": put("labels/0", 1, "labels"),
    "target": put("targets/1", lambda row: row[1:] * 2, "targets[1][0]"),
    "target outside": put("targets/1/0", 10**6),
    "smaller radius": Forgery(
        lambda lines: entry("radii", lines["targets"][3][0], lambda radius: radius * 0.5)(lines), OTHERS
    ),
    "negative radius": entry("radii", 2, lambda radius: -radius, OTHERS),
    "moved start": entry("centres", 3, lambda entry: entry + 1e-06, "centres[0]"),
    "singular metric": entry("metrics", 3 * 21, lambda _: 0.0, OTHERS),
    "moved latent": entry("latents", 1, lambda entry: entry + 0.1, "latents[0][0]"),
    "smaller latent radius": entry("latent_radii", 7, lambda radius: radius * 0.001, "latents[3][1]"),
    "larger margin": scaled("margin", 1.2),
    "missing set": put("labels", lambda old: old[:-1], "targets"),
    "bundle of the other token": put("bundle_of/2", lambda row: row[1:] * 2, "bundle_of[2][0]"),
    "narrower bundle": array("bundles/widths", lambda widths: widths * 0.5, "bundle_of[0][0]"),
}


test_a_false_line_is_named_even_under_a_new_seal = forgeries(FALSE)


def test_steps_without_a_bound_are_drawn_as_none_and_prove_nothing(found: FoundLengths) -> None:
    """A gain may be infinite, or no number, where the sets of a cover are too large."""
    assert found.found is not None
    bounds = found.found.bounds
    gain, closed = bounds.gain.copy(), found.found.closed.copy()
    gain[:2], closed[:2] = [np.inf, np.nan], False
    broken = replace(found, found=replace(found.found, bounds=replace(bounds, gain=gain), closed=closed))
    assert not broken.proved
    drawn = sum(patch.get_height() for patch in all_lengths.draw_cover(broken).axes[0].patches)  # type: ignore[attr-defined]
    assert drawn == len(gain) - 2


Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
PARITY = np.array([[0, 1], [1, 0]])


def third(states: Array, tokens: IntArray) -> tuple[Array, Array]:
    """s' = s/3 + 2x/3: from 0 the left ends of the Cantor set's intervals."""
    return states / 3 + 2 * tokens[:, None] / 3, tokens[:, None].astype(np.float64)


def within(radius: float, scale: float = 1.0) -> Any:
    def tolerance(states: Array, labels: IntArray) -> tuple[Array, Array]:
        return np.broadcast_to(scale * np.eye(1), (len(states), 1, 1)), np.full(len(states), radius)

    return tolerance


def test_targets_are_near_the_images_and_have_their_labels() -> None:
    found = reachable_states(third, np.zeros(1), 0, PARITY, within(1e-3), limit=1000)
    assert found is not None
    count = len(found.states)
    # every interval of length 3⁻⁶ > 1e-3 holds a state of each parity; none is within 1e-3 of another
    assert 2**6 <= count <= 2 * 2**7
    for token in (0, 1):
        images, latents = third(found.states, np.full(count, token))
        assert np.abs(images - found.states[found.targets[:, token]]).max() <= 1e-3
        np.testing.assert_array_equal(found.labels[found.targets[:, token]], PARITY[found.labels, token])
        np.testing.assert_array_equal(found.latents[:, token], latents)
    for label in (0, 1):
        own = np.sort(found.states[found.labels == label].ravel())
        assert (np.diff(own) > 1e-3).all()


def test_metrics_scale_distances() -> None:
    plain = reachable_states(third, np.zeros(1), 0, PARITY, within(1e-3), limit=1000)
    scaled = reachable_states(third, np.zeros(1), 0, PARITY, within(1e-2, scale=10.0), limit=1000)
    assert plain is not None
    assert scaled is not None
    np.testing.assert_array_equal(plain.states, scaled.states)


def test_a_stored_run_has_its_own_settings_where_none_are_given() -> None:
    plain, run = LengthsSettings(), load_run("s3-small")
    own = OF_STORED_RUNS["s3-small"]
    assert for_run(plain, run).model_dump() == {**plain.model_dump(), **own}
    chosen = LengthsSettings(rate=plain.rate, sets=7)  # given, though one of them is the default
    assert for_run(chosen, run).model_dump() == {**plain.model_dump(), **own, "rate": plain.rate, "sets": 7}
    assert (
        all_lengths.prove_lengths(run, sets=50).fault
        == "more than 50 states lie farther than 0.003 from each other; train on where answers are "
        "right (--target-accuracy none), or raise --sets"
    )


OVERSHOOT = 2.6
SMALL = {"d_model": 2, "expand": 1, "d_state": 1, "head_size": 2, "d_conv": 1, "residual": False}


def turning(**sizes: Any) -> Run:
    """A model whose latent (1, 1) is a fixed point; Φ turns a latent near it 2.6 times too far back.

    A damping of 0.3 makes that a contraction, by 0.7 − 0.3 · 2.6 = −0.08; one of 0.8 an expansion, by −1.88.
    The state stays zero, and the answer is the first label at the fixed point, the second where the latent
    goes to and fro.
    """
    chosen = {**SMALL, "damping": 0.3, "max_iterations": 200, **sizes}
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **chosen))
    weights = dict(model.named_parameters())
    across, along = torch.tensor([1.0, -1.0]), torch.ones(2)
    bias, shift = 4.0, 1.0  # where SiLU is nearly the identity: its slope is 1.05
    with torch.no_grad():
        for name, weight in weights.items():
            weight.fill_(float("norm" in name))
        weights["embedding.weight"].fill_(1.0)
        weights["injections.0.weight"][:2] = 1.5  # the gate is open
        turned = -OVERSHOOT * bias / 1.05 / 2 * torch.outer(across, across)
        weights["mixers.0.in_proj.weight"][2:4] = turned + shift * torch.outer(across, along) / 2
        weights["mixers.0.conv1d.weight"].fill_(1.0)
        weights["mixers.0.conv1d.bias"][:2] = bias - shift * across
        weights["mixers.0.D"].fill_(1.0)
        weights["mixers.0.out_proj.weight"].copy_(torch.eye(2))
        weights["head.weight"].copy_(2 * torch.outer(across, across))
        weights["head.bias"].copy_(across)
    run = load_run("parity-small")
    config = run.config.model_copy(update={"sizes": {**run.config.sizes, **chosen}})
    return constant(replace(run, model=model, config=config))


def answers(run: Run) -> torch.Tensor:
    model, tokens = copy.deepcopy(run.model).double(), torch.tensor([[0, 1, 1, 0], [1, 0, 0, 0]])
    stopping = Stopping(rtol=1e-6, max_iterations=run.config.sizes["max_iterations"])
    with torch.no_grad():
        return model.run(tokens, solve=Solve("sequential", stopping=stopping)).logits.argmax(-1)


@pytest.fixture(scope="module")
def turned() -> Certificate:
    """True of the damping 0.3."""
    run = turning()
    found = all_lengths.prove_lengths(run, distance=1e-3)
    assert found.proved
    return certificate_of(run, found)


def check_turned(turned: Certificate, run: Run) -> None:
    config = run.config.as_json()
    check_as(turned.model_copy(update={"config": config}).sealed(), run, config)


def test_where_the_iteration_contracts_the_answers_are_right_and_the_certificate_holds(
    turned: Certificate,
) -> None:
    assert (answers(turning()) == 0).all()
    check_turned(turned, turning())


def test_fixed_points_that_repel_are_refused(turned: Certificate) -> None:
    repelled = turning(damping=0.8)
    assert (answers(repelled) == 1).all()
    with pytest.raises(RefusedError, match=r"bundles\.radii\[0\]: the iteration is not proved to contract"):
        check_turned(turned, repelled)


@pytest.mark.parametrize("limit", [1, 20])
def test_a_run_that_stops_before_the_iteration_is_there_is_refused(turned: Certificate, limit: int) -> None:
    short = turning(max_iterations=limit)
    with pytest.raises(RefusedError, match=f"iterations: are more than the limit of the run, {limit}"):
        check_turned(turned, short)
    claim = turned.only
    shorter = claim.model_copy(update={"iterations": limit})
    with pytest.raises(RefusedError, match=r"iterations: are (over|not enough)"):
        check_turned(turned.model_copy(update={"claims": [shorter]}), short)


def test_a_producer_does_not_prove_what_the_iteration_does_not_reach() -> None:
    found = all_lengths.prove_lengths(turning(max_iterations=20), distance=1e-3)
    assert not found.proved
    assert "of 2 of 2 steps it is not proved that the iteration from zero ends near them within 20" in (
        found.sentence
    )
    assert found.numbers()["proved"] is False
