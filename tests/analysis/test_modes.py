"""Answers and convergence of both modes, on models of which they are known."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from analysis import convergence, modes
from analysis.framework.needs import as_implicit
from analysis.framework.visited_states import in_double_precision, sample_sequences
from automata.tasks.repl_language import ReplLanguage
from implicit.fixed_point import Stopping
from implicit.models import iterated_layers
from implicit.modes import Solve, fused
from implicit.runs.loading import Run, load_run
from implicit.training.streams import Stream, draw_batch


def test_the_numbers_are_those_of_the_two_calls() -> None:
    run = load_run("parity-small")
    found = modes.analyse(run, lengths=(6, 24), sequences=3, seed=4)
    assert [entry.length for entry in found.lengths] == [6, 24]
    for entry in found.lengths:
        batch = draw_batch(run.task, 3, entry.length, 4, Stream.TEST, entry.length, 0)
        with torch.no_grad():
            called = run.model(batch.tokens).argmax(-1)
            output = run.model.run(batch.tokens, solve=Solve("sequential"))
            chosen = run.model.run(batch.tokens).solution
        assert output.solution is not None
        assert chosen is not None
        sequential = output.logits.argmax(-1)
        assert entry.tokens == called.numel()
        assert entry.equal == (called == sequential).double().mean()
        assert entry.called.accuracy == np.mean((called == batch.targets)[:, -10:].numpy())
        assert entry.called.mode == chosen.mode
        assert entry.sequential.mode == "sequential"
        assert entry.sequential.share_converged == output.solution.share_converged == 1
        assert min(entry.called.seconds, entry.sequential.seconds) > 0
    assert found.numbers()["is_demanded"]


def test_other_answers_are_told(bistable_run: Run) -> None:
    # two fixed points per token: a call is made to choose the mode that may fall to the other one
    bistable_run.model.run = other_mode(bistable_run.model.run)  # type: ignore[method-assign]
    found = modes.analyse(bistable_run, lengths=(5,), sequences=6)
    assert found.lengths[0].called.mode == "simultaneous"
    assert found.lengths[0].equal < 0.999
    assert not found.numbers()["is_demanded"]
    assert "does not answer as the sequential mode" in found.sentence
    assert not found.finding.holds


def other_mode(run: Any) -> Any:
    def changed(tokens: Any, state: Any = None, solve: Any = None, *, lengths: Any = None) -> Any:
        return run(tokens, state, solve or Solve("simultaneous"), lengths=lengths)

    return changed


def test_only_real_tokens_are_compared(make_run: Any) -> None:
    run = make_run("implicit-mamba2", contracting=True, task="repl-3-reveals")
    # it ends before the row does
    short = ReplLanguage(variables=3, reveal_every=1, commands=1, predict="values")
    run = dataclasses.replace(run, task=short)
    batch = draw_batch(run.task, 2, 40, 0, Stream.TEST, 40, 0)
    assert batch.lengths is not None
    found = modes.analyse(run, lengths=(40,), sequences=2).lengths[0]
    assert found.tokens == batch.lengths.sum() < batch.tokens.numel()
    assert found.equal == 1


def test_a_kernel_that_errs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is the definition in plain PyTorch, not the kernel that a call takes."""
    pytest.importorskip("numba")
    honest = fused.solve_sequentially_fused

    def wrong(self_map: Any, recurrence: Any, *rest: Any, **options: Any) -> Any:
        inputs = [-x for x in recurrence.inputs]
        return honest(self_map, dataclasses.replace(recurrence, inputs=inputs), *rest, **options)

    monkeypatch.setattr(iterated_layers, "solve_sequentially_fused", wrong)
    found = modes.analyse(load_run("parity-small"), lengths=(16,), sequences=6)
    assert found.lengths[0].sequential.accuracy == 1
    assert found.lengths[0].equal < 0.999


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
