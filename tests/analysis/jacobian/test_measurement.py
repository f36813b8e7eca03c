import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from analysis import jacobian
from analysis.framework.output import json_ready
from analysis.framework.visited_states import in_double_precision, sample_sequences, visited_states
from analysis.jacobian import block_structure
from analysis.jacobian.block_structure import Block, BlockStructure, StateJacobian
from automata.tasks.repl_language import ReplLanguage
from implicit.training.streams import Stream, draw_batch
from theory import Transition, solve_fixed_point


def test_the_verdicts_of_the_three_models(make_run: Any) -> None:
    implicit = jacobian.analyse(make_run("implicit-mamba2", contracting=True), states=4, length=12)
    explicit = jacobian.analyse(make_run("mamba2"), states=4, length=12)
    lstm = jacobian.analyse(make_run("lstm"), states=4, length=12)
    assert implicit.verdict == "holds"
    assert implicit.sentence.startswith(
        "Non-diagonal and non-linear; the conclusions of Theorem 1 hold: of 4"
    )
    assert explicit.report.reasons == {
        "does not apply: the transition is diagonal and linear, to within the measured error": 4
    }
    assert lstm.report.reasons == {"does not apply: the transition is non-diagonal and non-linear": 4}
    for found, kind in ((explicit, "diagonal and linear"), (lstm, "non-diagonal and non-linear")):
        words = f"{kind}; Theorem 1 does not apply (no fixed point)"
        stored = found.numbers()
        assert stored["theorem1"]["headline"] == words
        assert found.finding.verdict == stored["theorem1"]["verdict"] == "does not apply"
        assert {state["verdict"] for state in stored["states"]} == {"does not apply"}
        assert not [row for rows in found.finding.rows for row in rows.rows if row[0].startswith("C")]
        assert not re.search(r"hold|fail", " ".join((found.sentence, repr(found.report))))


def test_what_is_stored_is_what_was_found_at_every_state(make_run: Any) -> None:
    found = jacobian.analyse(make_run("lstm"), states=8, length=12)
    numbers = found.numbers()
    assert found.blocks is not None
    for state, check in zip(numbers["states"], found.report.checks, strict=True):
        assert (state["label"], state["verdict"]) == (check.label, check.verdict.value)
        assert state["layers"] == [dataclasses.asdict(layer) for layer in check.layers]
        assert len(state["conditions"]) == len(check.conditions)
    assert json_ready(numbers["blocks"]) == json_ready(dataclasses.asdict(found.blocks))
    assert set(numbers["spectra"]) == set(found.spectra)
    assert numbers["theorem1"]["verdict_over_all_states"] == found.report.verdict.value
    assert numbers["theorem1"]["sentence"] == found.sentence
    for label, spectrum in found.spectra.items():
        stored = numbers["spectra"][label]
        assert stored["complete"] is spectrum.complete
        np.testing.assert_array_equal(stored["real"] + 1j * stored["imaginary"], spectrum.values)
    # the matrix that is shown is that of median mass
    masses = {check.label: check.off_diagonal_mass for check in found.report.checks}
    ordered = sorted(masses, key=lambda label: masses[label])
    assert ordered != list(masses)
    # the quantiles 0.5, 0.05, 0.25, 0.75 and 0.95 of eight states; halves are rounded to even
    assert list(found.spectra) == [ordered[place] for place in (4, 0, 2, 5, 7)]
    assert found.shown is not None
    block = found.shown.state_block
    mass = (block - block.diag().diag()).norm() / block.norm()
    assert mass.item() == pytest.approx(masses[ordered[4]], rel=1e-12)


STATES = [{"h": torch.tensor([value], dtype=torch.float64)} for value in (0.0, 0.25, 2.0, 3.0, 4.0)]


@pytest.mark.parametrize("limit", [1.0, 5.0])
def test_a_state_is_compared_with_nearer_ones_only_where_the_farther_have_no_fixed_point(
    limit: float,
) -> None:
    """h' = sin z with z = h below the limit, and no z above it: J differs by 1 − cos h̃ from that at 0."""
    transition = Transition(
        lambda z, s: torch.where(s["h"] < limit, s["h"], z + 1), lambda z, s: {"h": z.sin()}, 1, (("h",),)
    )
    check = jacobian._check(transition, STATES[0], STATES, 100, seed=0)
    farthest = 4.0 if limit == 5 else 0.25  # the three farthest are tried, then the nearer half
    assert check.nonlinearity == pytest.approx(1 - math.cos(farthest), rel=1e-9)


def test_states_without_a_fixed_point_are_counted_and_do_not_decide(make_run: Any) -> None:
    # Far too few iterations for most states: 40 damped ones reach 1e-16 only where the contraction is strong.
    run = make_run("implicit-mamba2", contracting=True)
    found = jacobian.analyse(run, states=6, length=12, max_iterations=2)
    assert len(found.report.checks) == 6
    assert found.report.counts == {"holds": 0, "fails": 0, "inconclusive": 6, "does not apply": 0}
    assert found.verdict == "inconclusive"
    assert "6 without a fixed point" in found.sentence
    assert found.blocks is None
    assert found.numbers()["theorem1"]["with_fixed_point"] == 0
    assert jacobian.draw(found).axes


def test_no_state_at_padding_is_checked(make_run: Any) -> None:
    run = make_run("lstm", task="repl-3-reveals")
    task = ReplLanguage(commands=1, reveal_every=1)  # 34 tokens or so
    found = jacobian.analyse(dataclasses.replace(run, task=task), states=12, sequences=2, length=60)
    lengths = draw_batch(task, 2, 60, 0, Stream.TEST, 60, 0).lengths
    assert lengths is not None
    for check in found.report.checks:
        _, position, sequence = map(int, re.findall(r"\d+", check.label))
        assert position < lengths[sequence]


def test_the_matrix_is_that_of_autodiff_through_the_unrolled_iteration(make_run: Any) -> None:
    run = make_run("implicit-mamba2", contracting=True)
    model = in_double_precision(run.model)
    tokens, _ = sample_sequences(run.task, 2, 8, 0)
    visited = visited_states(model, tokens, 2)[0]
    transition = model.transition(visited.token)
    found = StateJacobian.at(transition, visited.state, solve_fixed_point(transition, visited.state).latent)
    shapes = {name: visited.state[name].shape for name in ("ssm.0", "conv.0")}
    sizes = [shape.numel() for shape in shapes.values()]

    def unrolled(vector: Tensor) -> Tensor:
        pieces = vector.split(sizes)
        state = {
            name: piece.reshape(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        }
        latent = torch.zeros(transition.latent_size, dtype=torch.float64)
        for _ in range(100):
            latent = 0.2 * latent + 0.8 * transition.self_map(latent, state)
        following = transition.state_update(latent, state)
        return torch.cat([following[name].flatten() for name in shapes])

    start = torch.cat([visited.state[name].flatten() for name in shapes])
    expected = torch.autograd.functional.jacobian(unrolled, start, vectorize=True)
    # 100 contracting steps leave rounding errors only
    torch.testing.assert_close(found.matrix, expected, rtol=1e-8, atol=1e-10)
    assert [block.label for block in found.blocks] == ["head 0", "head 1", "conv.0"]
    assert found.state_size == sizes[0]


def test_masses_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((7, 7))
    blocks = (Block("head 0", "state", 0, 2), Block("head 1", "state", 2, 4), Block("window", "window", 4, 7))
    found = StateJacobian(torch.from_numpy(matrix), blocks, has_windows=True)
    norm = np.linalg.norm
    total = norm(matrix)
    np.testing.assert_allclose(found.masses[1, 2], norm(matrix[2:4, 4:]) / total, rtol=1e-12)
    np.testing.assert_allclose((found.masses**2).sum(), 1, rtol=1e-12)
    state = matrix[:4, :4]
    heads = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
    expected = {
        "diagonal": norm(np.diag(state)),
        "within heads, off the diagonal": norm((state - np.diag(np.diag(state)))[heads]),
        "across heads": norm(state[~heads]),
        "window to state": norm(matrix[:4, 4:]),
        "state to window": norm(matrix[4:, :4]),
        "window to window": norm(matrix[4:, 4:]),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found.groups[name], value / total, rtol=1e-12, err_msg=name)
    doubled = BlockStructure.over([found, found])
    np.testing.assert_allclose(doubled.masses, found.masses, rtol=1e-12)


def test_an_explicit_model_has_no_mass_off_the_diagonal_of_its_heads(make_run: Any) -> None:
    blocks = jacobian.analyse(make_run("mamba2"), states=4, length=8).blocks
    assert blocks is not None
    assert blocks.groups["across heads"] == 0
    assert blocks.groups["within heads, off the diagonal"] == 0
    assert blocks.groups["state to window"] == 0
    assert blocks.groups["diagonal"] > 0.1
    assert blocks.groups["window to state"] > 0


def test_leading_eigenvalues_of_a_large_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_structure, "DENSE_SPECTRUM_LIMIT", 10)
    monkeypatch.setattr(block_structure, "LEADING_EIGENVALUES", 3)
    found = jacobian.Spectrum.of(torch.diag(torch.arange(1.0, 21.0, dtype=torch.float64)))
    assert not found.complete
    # Arnoldi iteration runs to machine precision by default
    np.testing.assert_allclose(np.sort(found.values.real), [18, 19, 20], rtol=1e-10)


@pytest.mark.parametrize(("size", "most"), [(12, 4), (7, 3), (3, 8)])
def test_cells_of_a_picture_keep_the_norm(size: int, most: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(size, size))
    image, cell = block_structure.averaged(matrix, most)
    assert len(image) <= most
    widths = np.diff([*range(0, size, cell), size])
    # the squares are only summed in another order
    np.testing.assert_allclose((image**2 * np.outer(widths, widths)).sum(), (matrix**2).sum(), rtol=1e-12)
    corner = matrix[: widths[0], size - widths[-1] :]
    np.testing.assert_allclose(image[0, -1] ** 2, (corner**2).mean(), rtol=1e-12)
