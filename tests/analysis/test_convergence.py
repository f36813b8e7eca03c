from typing import Any

import numpy as np
import torch

from analysis import convergence
from analysis.framework.needs import as_implicit
from analysis.framework.visited_states import in_double_precision, sample_sequences
from implicit.fixed_point import Stopping


def test_histories_are_those_of_a_plain_loop(make_run: Any) -> None:
    run = make_run("implicit-mamba2", contracting=True)
    model = in_double_precision(as_implicit(run))
    tokens, _ = sample_sequences(run.task, 2, 5, 0)
    found = convergence.follow(model, tokens, "sequential", Stopping(rtol=1e-6))
    state = {name: entry[0] for name, entry in model.init_state(1).items()}
    for position, token in enumerate(tokens[0].tolist()):
        transition = model.transition(token)
        latent = torch.zeros(transition.latent_size, dtype=torch.float64)
        residuals = [1.0]
        with torch.no_grad():
            while True:
                defect = transition.self_map(latent, state) - latent
                if latent.norm() > 0:
                    residuals.append(float(defect.norm() / latent.norm()))
                    if residuals[-1] <= 1e-6:
                        break
                latent = latent + 0.8 * defect
            state = transition.state_update(latent, state)
        assert found.iterations[0, position] == len(residuals)
        # the same arithmetic in another order: rounding errors relative to residuals of 1e-6
        np.testing.assert_allclose(found.history[position, : len(residuals)], residuals, rtol=1e-6)
        np.testing.assert_array_equal(found.history[position, len(residuals) :], found.residual[0, position])


def test_shorter_sequences_are_prefixes_in_both_modes(make_run: Any) -> None:
    run = make_run("implicit-mamba2", contracting=True)
    model = in_double_precision(as_implicit(run))
    tokens, _ = sample_sequences(run.task, 3, 12, 0)
    for mode in convergence.MODES:
        whole = convergence.follow(model, tokens, mode, Stopping(rtol=1e-6))
        prefix = convergence.follow(model, tokens[:, :7], mode, Stopping(rtol=1e-6))
        np.testing.assert_array_equal(whole.iterations[:, :7], prefix.iterations)
        np.testing.assert_array_equal(whole.until(7), prefix.iterations.max(axis=1))


def test_tokens_that_do_not_converge_are_counted(make_run: Any) -> None:
    found = convergence.analyse(make_run("implicit-mamba2"), sequences=2, length=6, max_iterations=2)
    for mode in convergence.MODES:
        assert found.modes[mode].share_converged == 0
        assert found.numbers()[mode]["by_length"][6]["token_evaluations"] == 12  # 6 tokens, 2 iterations
    assert convergence.draw(found).axes
