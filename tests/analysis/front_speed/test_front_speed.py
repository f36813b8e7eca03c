"""Speeds of fronts against chains whose speed is known, a construction that is exact, and a plain loop."""

from typing import Any

import numpy as np
import pytest
import torch

from analysis import front_speed
from analysis.framework.needs import as_implicit
from analysis.framework.visited_states import in_double_precision, sample_sequences
from analysis.front_speed import Front, arrivals
from automata.errors import InputError
from automata.monoids import Monoid, cyclic_group, symmetric_group
from implicit.modes import Solve
from implicit.runs.loading import load_run
from theory.constructions import ssm_of_automaton
from theory.mode_agreement import SweepInequality


def test_a_chain_of_known_speed() -> None:
    """e_t ← ρ e_t + (1 − ρ) e_{t−1}: neutral, so that the front moves by 1 − ρ tokens per sweep."""
    rho, tokens = 0.6, 400
    error, errors = np.ones(tokens), []
    while error.max() > 1e-3:
        errors.append(error)
        error = rho * error + (1 - rho) * np.concatenate([[0.0], error[:-1]])
    found = Front(arrivals(np.array([*errors, error])[:, None], 0.5), tokens // 4)
    # half of the way the sum of k coins is at its mean, to within a token
    assert found.speed == pytest.approx(1 - rho, rel=0.01)
    assert SweepInequality(rho, 1 - rho, 0.0).guaranteed_speed() == pytest.approx(1 - rho, rel=1e-5)


@pytest.mark.parametrize("group", [symmetric_group(3), cyclic_group(5)], ids=["S3", "C5"])
def test_groups_in_exact_weights_take_one_sweep_per_token(group: Monoid) -> None:
    """After s sweeps a state is what the last s tokens lead to, wrong until the first token is among them."""
    model = ssm_of_automaton(group.table, group.identity)
    others = torch.tensor([element for element in range(len(group.table)) if element != group.identity])
    tokens = others[torch.randint(len(others), (4, 40), generator=torch.Generator().manual_seed(0))]
    right = model.run(tokens)
    right = torch.cat([model.initial.expand(4, 1, -1), right[:, :-1]], dim=1)  # z* is the state before
    latents, errors = model.initial.expand(4, 40, -1), []
    for _ in range(45):
        errors.append((latents - right).abs().amax(-1).numpy())
        decay, drive = model.decay(latents, tokens), model.drive(latents, tokens)
        states = [model.initial.expand(4, -1)]
        for t in range(39):
            states.append(decay * states[-1] + drive[:, t])
        # Φ undoes the update: the image is the state that the latents of the last sweep lead to
        latents = torch.stack(states, dim=1)
    found = Front(arrivals(np.array(errors), 0.1), 0)
    np.testing.assert_array_equal(found.arrivals, np.tile(np.arange(40), (4, 1)))
    assert found.in_words() == "1.000 ± 0.000"
    assert Front(np.zeros((2, 8), np.int64), 0).in_words() == "no front"  # all tokens arrive together
    assert Front(found.arrivals[:1], 0).in_words() == "1.000"  # one sequence has no spread


def test_arrivals_are_those_of_a_plain_loop() -> None:
    errors = np.random.default_rng(0).uniform(0, 1, (12, 3, 7)) * np.linspace(1, 0, 12)[:, None, None]
    found = arrivals(errors, 0.2)
    for sequence in range(3):
        for token in range(7):
            sweep = 12
            while sweep and (errors[sweep - 1, sequence, : token + 1] <= 0.2).all():
                sweep -= 1
            assert found[sequence, token] == sweep
    with pytest.raises(InputError, match="ends above the level"):
        arrivals(errors + 1, 0.2)


def test_errors_are_those_to_the_sequential_answer() -> None:
    run = load_run("parity-small")
    found = front_speed.analyse(run, sequences=2, length=16, walls=4, window=8).runs[0]
    model = in_double_precision(as_implicit(run))
    tokens, _ = sample_sequences(run.task, 2, 16, 0)
    with torch.no_grad():
        right = model.fixed_points(tokens, solve=Solve("sequential")).latents[0]
        latents, problem = torch.zeros(2, 16, 8).double(), model.problem(tokens)
        for sweep, expected in enumerate(found.errors):
            error = (latents[0] - right).norm(dim=-1) / right.norm(dim=-1)
            # the answer here is known to the model's tolerance of 1e-4 and what that means at contraction 1/2
            np.testing.assert_allclose(error, expected, atol=1e-3, err_msg=f"sweep {sweep}")
            latents = 0.2 * latents + 0.8 * problem.function(latents)


def test_walls_foretell_whole_sequences_and_derivatives_do_not() -> None:
    found = front_speed.analyse(load_run("parity-small"), sequences=3, length=48, walls=16, window=16).runs[0]
    assert np.isinf(found.linear)  # small errors are forgotten
    assert found.exponents[0] < -0.5
    # three sequences of 48 tokens and 16 walls are known to some 6% each; measured apart by 5%
    assert found.wall.speed == pytest.approx(found.measured.speed, rel=0.25)


def test_what_does_not_converge_is_refused(make_run: Any) -> None:
    with pytest.raises(InputError, match="max_iterations"):
        front_speed.analyse(
            make_run("implicit-mamba2", contracting=True), length=8, window=8, max_iterations=2
        )
