import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from analysis import agreement
from analysis.agreement import TIGHTENING
from analysis.agreement.fixed_point_search import search_fixed_points
from analysis.framework.needs import as_implicit
from analysis.framework.visited_states import in_double_precision, sample_sequences
from implicit.modes import Solve
from implicit.runs.loading import Run, load_run

DRIVES = (0.3125, -0.3125)


def in_plain_floats(tokens: list[int], simultaneous: bool) -> list[float]:
    """Both modes of the bistable model, z = tanh(2 z + s/2 + b), as loops over numbers."""
    latents = [0.0] * len(tokens)
    for position in range(1 if simultaneous else len(tokens)):
        for _ in range(2000):
            images = [
                math.tanh(2 * latents[t] + (latents[t - 1] if t else 0.0) / 2 + DRIVES[token])
                for t, token in enumerate(tokens)
            ]
            moved = range(len(tokens)) if simultaneous else [position]
            for t in moved:
                latents[t] += 0.8 * (images[t] - latents[t])
    return latents


def test_different_fixed_points_are_found_where_a_plain_loop_finds_them(bistable_run: Run) -> None:
    found = agreement.analyse(bistable_run, sequences=6, length=5, examples=6, starts=12)
    tokens, labels = sample_sequences(bistable_run.task, 6, 5, 0)
    for row, sequence in enumerate(tokens.tolist()):
        one, other = (np.array(in_plain_floats(sequence, simultaneous)) for simultaneous in (True, False))
        distance = abs(one - other) / abs(other)
        # both solves stop at a relative residual of 1e-5; the errors are a few times that
        np.testing.assert_allclose(found.distance[row], distance, atol=1e-3)
        np.testing.assert_array_equal(found.differs[row], distance > found.tolerance[row])
        np.testing.assert_array_equal(found.same_answer[row], np.sign(one) == np.sign(other))
    assert 0 < found.differs.mean() < 1
    assert found.converged.all()
    assert found.tolerance.max() < 0.01
    assert not found.is_demanded
    numbers = found.numbers()
    assert numbers["tokens"] == found.agrees.mean() == 1 - found.differs.mean()
    assert numbers["tolerance"] == {"median": np.median(found.tolerance), "max": found.tolerance.max()}
    assert numbers["shares"]["differ"] == found.differs.mean()
    assert numbers["largest_distance_of_same"] == found.distance[found.agrees].max()
    assert numbers["smallest_distance_of_different"] == found.distance[found.differs].min()
    assert numbers["sequences"] == found.agrees.all(axis=1).mean()
    assert numbers["decoded_tokens"] == found.same_answer.mean()
    assert numbers["decoded_sequences"] == found.same_answer.all(axis=1).mean()
    assert not found.finding.holds
    (warning,) = found.finding.warnings
    assert warning.startswith(
        "less than 99.9% of the tokens agree between the modes; where they differ, trust"
    )
    # all searched tokens are in the second table, a row for every fixed point
    assert len(found.finding.rows[1].rows) == sum(len(search.fixed_points) for search in found.searches)
    # half of the examples, as far as there are sequences where the modes differ; all tokens converged
    reasons = Counter(search.reason for search in found.searches)
    assert reasons == {"modes differ": 3, "sample": 3}
    differing = [search for search in found.searches if search.reason == "modes differ"]
    assert differing
    for search in differing:
        reached = sorted(name for point in search.fixed_points for name in point.reached_by)
        assert reached == ["sequential", "simultaneous"]
        assert sorted(point.answer for point in search.fixed_points) == [0, 1]
        assert search.label == labels[search.sequence, search.position]
        assert found.differs[search.sequence].argmax() == search.position


def test_the_search_finds_the_roots_of_the_scalar_equation(bistable_run: Run) -> None:
    model = in_double_precision(as_implicit(bistable_run))
    state = {name: entry[0] for name, entry in model.init_state(1).items()}
    state["ssm.0"] = torch.full_like(state["ssm.0"], 0.4)
    starts = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    points, unconverged = search_fixed_points(model, 0, state, starts, ["lowest"], 1000)
    drive = 0.4 / 2 + DRIVES[0]

    def equation(z: float) -> float:
        return math.tanh(2 * z + drive) - z

    # The slope 2 (1 − tanh²) is 1 at the two turning points of the equation; the repelling root lies between.
    roots = [brentq(equation, low, high) for low, high in ((-1, -(0.5**0.5)), (0.5**0.5, 1))]
    assert unconverged == 0
    assert [point.answer for point in sorted(points, key=lambda point: point.answer)] == [0, 1]
    for point, root in zip(sorted(points, key=lambda point: point.answer), roots, strict=True):
        slope = 2 * (1 - root**2)
        # the solve stops at a relative residual of 1e-10
        np.testing.assert_allclose(point.spectral_radius, 0.2 + 0.8 * slope, rtol=1e-8)
        np.testing.assert_allclose(point.smallest_singular_value, 1 - slope, rtol=1e-8)
        assert point.spectral_radius < 1
    assert sum(point.starts for point in points) == 9
    assert next(point for point in points if point.answer == 0).reached_by == ("lowest",)


def test_a_contracting_model_agrees_everywhere(make_run: Any) -> None:
    found = agreement.analyse(
        make_run("implicit-mamba2", contracting=True), sequences=3, length=10, examples=3
    )
    assert found.shares == {"agree": 1.0, "differ": 0.0, "unconverged": 0.0}
    assert found.is_demanded
    assert found.numbers()["smallest_distance_of_different"] is None
    assert all(len(search.fixed_points) == 1 for search in found.searches)
    # the tolerance still tells apart what differs visibly
    assert found.tolerance.max() < 0.1


def test_a_fixed_point_of_zero_is_the_same_in_both_modes() -> None:
    run = load_run("parity-small")
    with torch.no_grad():
        run.model.get_parameter("embedding.weight")[0] = 0  # then z* is 0 at the first zeros of a word
    found = agreement.analyse(run, sequences=2, length=8, rtol=1e-12, examples=0)
    assert found.shares["agree"] == 1
    assert (found.distance == 0).any()
    assert np.isfinite(found.tolerance).all()


def test_unconverged_tokens_are_told_apart_and_count_against_agreement(make_run: Any) -> None:
    run = make_run("implicit-mamba2", contracting=True)
    found = agreement.analyse(run, sequences=2, length=6, max_iterations=2, examples=8)
    assert found.shares == {"agree": 0.0, "differ": 0.0, "unconverged": 1.0}
    assert found.finding.rows[0].rows[2][1:] == ["100.000%", "100.000%"]  # of tokens, and of sequences
    assert not found.is_demanded
    # a quarter of the examples are the first tokens that did not converge, one a sequence
    firsts = [(search.sequence, search.position, search.reason) for search in found.searches[:2]]
    assert firsts == [(0, 0, "not converged"), (1, 0, "not converged")]
    assert {search.reason for search in found.searches[2:]} == {"sample"}
    assert found.searches[0].unconverged == 19  # both modes' latents, zero, and 16 random starts
    assert agreement.draw(found).axes


def test_the_second_solve_starts_at_the_first_and_asks_for_more(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run("implicit-mamba2", contracting=True)
    solves: list[Solve] = []
    original = type(run.model).run

    def recorded(model: Any, tokens: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("solve") is not None:
            solves.append(options["solve"])
        return original(model, tokens, *arguments, **options)

    monkeypatch.setattr(type(run.model), "run", recorded)
    agreement.analyse(run, sequences=2, length=6, rtol=1e-5, max_iterations=77, examples=0)
    second = [solve for solve in solves if solve.start is not None]
    assert len(second) == 2
    for solve in second:
        assert solve.stopping is not None
        assert solve.stopping.rtol == 1e-5 / TIGHTENING
        assert solve.stopping.max_iterations == 77
