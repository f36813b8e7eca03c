from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from analysis import length_generalization
from analysis.framework.terminal import number
from automata.tasks.audit import shortcut_audit
from automata.tasks.repl_language import ReplLanguage
from automata.tasks.text_file import TextFile
from implicit import LSTM, Run
from implicit.models.torch_rnn import LSTMConfig
from implicit.training.streams import Stream, draw_batch


@pytest.mark.parametrize("name", ["implicit-mamba2", "mamba2", "lstm"])
def test_accuracy_is_that_of_a_plain_loop(make_run: Any, name: str) -> None:
    run = make_run(name, contracting=name == "implicit-mamba2")
    found = length_generalization.analyse(run, lengths=(4, 16), sequences=6, batch_size=4, seed=5, rtol=1e-4)
    right: list[list[bool]] = []
    for index, size in enumerate((4, 2)):
        tokens = draw_batch(run.task, size, 16, 5, Stream.TEST, 16, index).tokens
        for sequence in tokens.tolist():
            state, parity, row = run.model.init_state(1), 0, []
            for token in sequence:
                with torch.no_grad():
                    state, logits = run.model.step(state, torch.tensor([token]))
                parity ^= token
                row.append(int(logits.argmax()) == parity)
            right.append(row)
    np.testing.assert_array_equal(found.runs[0].correct, right)
    assert found.runs[0].accuracy(16) == np.mean(np.array(right)[:, 6:])
    assert found.runs[0].accuracy(4) == np.mean(np.array(right)[:, :4])


@pytest.mark.parametrize("task", ["repl-3-reveals", "noisy-parity-reveals"])
def test_only_answers_that_are_asked_for_count(make_run: Any, task: str) -> None:
    run = make_run("lstm", task=task)
    found = length_generalization.analyse(run, lengths=(70, 200), sequences=6, batch_size=6, seed=5)
    batch = draw_batch(run.task, 6, 200, 5, Stream.TEST, 200, 0)
    assert not batch.counted.all()
    for length in (70, 200):
        right, given = [], []
        for row in range(6):
            state, answers = run.model.init_state(1), []
            for token, target, weight in zip(
                batch.tokens[row, :length], batch.targets[row], batch.weights[row], strict=False
            ):
                with torch.no_grad():
                    state, logits = run.model.step(state, token[None])
                if weight > 0:
                    answers.append((int(logits.argmax()), int(target)))
            right += [answer == target for answer, target in answers[-10:]]
            given += [target for _, target in answers[-10:]]
        assert found.runs[0].accuracy(length) == np.mean(right)
        assert found.runs[0].baseline[length] == Counter(given).most_common(1)[0][1] / len(given)
    shares = np.where(found.runs[0].asked, found.runs[0].correct, np.nan)
    for mean, answers in zip(found.runs[0].by_position, shares.T, strict=True):  # often of a single sequence
        np.testing.assert_equal(mean, np.nanmean(answers) if np.isfinite(answers).any() else np.nan)
    assert length_generalization.draw(found).axes


def test_where_nothing_is_asked_there_is_no_accuracy(make_run: Any) -> None:
    run = make_run("lstm", task="repl-3-reveals")
    found = length_generalization.analyse(run, lengths=(2, 200), sequences=4)
    assert np.isnan(found.runs[0].accuracy(2))
    assert np.isnan(found.runs[0].interval(2)).all()
    (rows,) = found.findings["lstm"].rows
    assert (rows.rows[0][1], rows.rows[1][1]) == ("–", "–")
    assert length_generalization.draw(found).axes


def test_padding_does_not_count_as_converged(make_run: Any) -> None:
    run = make_run("implicit-mamba2", contracting=True, task="repl-3-reveals")
    task = ReplLanguage(commands=1, reveal_every=1)  # 34 tokens or so
    found = length_generalization.analyse(
        replace(run, task=task), lengths=(60,), sequences=3, max_iterations=1, mode="sequential"
    )
    assert draw_batch(task, 3, 60, 0, Stream.TEST, 60, 0).lengths is not None
    assert found.runs[0].share_converged == {60: 0.0}
    (warning,) = found.findings[run.path.name].warnings
    assert "100.00% of the tokens up to length 60 have no converged fixed point (mode seq" in warning
    assert length_generalization.draw(found).axes


def test_the_baseline_is_that_of_the_task_where_everything_is_asked(make_run: Any) -> None:
    run = make_run("lstm", task="dyck-4")
    found = length_generalization.analyse(run, lengths=(5, 30), sequences=4)
    assert found.runs[0].baseline == {
        length: run.task.majority_baseline(length, last=10) for length in (5, 30)
    }
    assert found.runs[0].baseline[30] > 1 / run.task.output_size


def test_of_data_in_files_the_baseline_is_that_of_the_part_that_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "shift.txt"
    file.write_text("ab" * 4000 + "aaab" * 250 + "aaaaaaab" * 125)  # training, validation, test
    task = TextFile(file, "characters")
    model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=4))
    (found,) = length_generalization.analyse(Run.of(model, task), lengths=(8,), sequences=4).runs
    assert found.baseline == {8: 7 / 8}
    assert shortcut_audit(task, 8, windows=[0]).majority == 7 / 8


def test_intervals_allow_for_words_that_are_drawn_twice(make_run: Any) -> None:
    (found,) = length_generalization.analyse(make_run("lstm"), lengths=(1,), sequences=1).runs
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        drawn = rng.choice(rng.random(100) < 0.7, 100)
        low, high = replace(found, correct=drawn[:, None], counted=None, different=100).interval(1)
        covered += low <= 0.7 <= high
    assert (
        covered >= 0.93 * 400
    )  # of 0.95; two standard errors are 0.02, and without allowance 0.83 are covered


@pytest.mark.parametrize(("successes", "count"), [(0, 5), (3, 7), (512, 512), (250, 512)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_the_interval_is_scipys_for_coins(successes: int, count: int, confidence: float) -> None:
    expected = scipy.stats.binomtest(successes, count).proportion_ci(confidence, method="wilson")
    found = length_generalization.wilson_interval(successes / count, count, confidence)
    # two ways to write the same formula
    np.testing.assert_allclose(found, (expected.low, expected.high), atol=1e-12)


def test_what_is_stored_is_what_was_measured(make_run: Any) -> None:
    """Every entry of the JSON, from the arrays themselves."""
    run = make_run("implicit-mamba2", contracting=True)
    found = length_generalization.analyse(run, lengths=(4, 12), sequences=6, confidence=0.8)
    (stored,) = found.numbers().values()
    measured = found.runs[0]
    right = {length: measured.correct[:, max(0, length - 10) : length].mean() for length in (4, 12)}
    assert stored["accuracy"] == right
    assert all(number(share) in found.findings[run.path.name].sentence for share in right.values())
    assert stored["interval"] == {
        length: length_generalization.wilson_interval(right[length], 6, 0.8) for length in (4, 12)
    }
    whole = {
        length: 1 - float(np.mean([not all(row[:length]) for row in measured.correct])) for length in (4, 12)
    }
    assert stored["sequence_accuracy"] == whole
    assert stored["sequence_interval"][4] == length_generalization.wilson_interval(whole[4], 6, 0.8)
    np.testing.assert_array_equal(stored["accuracy_by_position"], measured.correct.mean(axis=0))
    assert stored["majority_baseline"] == dict.fromkeys((4, 12), 0.5)
    assert stored["chance"] == 0.5
    assert stored["share_converged"] == measured.share_converged


@pytest.mark.parametrize(
    ("option", "value"),
    [("seed", 1), ("batch_size", 2), ("rtol", 0.5), ("max_iterations", 2), ("mode", "simultaneous")],
)
def test_every_setting_changes_what_it_should(make_run: Any, option: str, value: Any) -> None:
    """The sequences for the first two, the fixed points for the others."""
    run = make_run("implicit-mamba2", contracting=True)
    seen: list[Any] = []
    forward = run.model.run

    def recorded(tokens: Any, *arguments: Any, solve: Any, **options: Any) -> Any:
        output = forward(tokens, *arguments, solve=solve, **options)
        seen.append((tokens, solve.mode, output.solution.latents, output.solution.iterations))
        return output

    run.model.run = recorded
    plain: dict[str, Any] = {"lengths": (9,), "sequences": 4, "mode": "sequential"}
    length_generalization.analyse(run, **plain)
    length_generalization.analyse(run, **{**plain, option: value})
    before, after = seen[0], seen[1]
    if option in ("seed", "batch_size"):
        assert before[0].shape != after[0].shape or (before[0] != after[0]).any()
        assert [len(entry[0]) for entry in seen] == ([4, 4] if option == "seed" else [4, 2, 2])
    else:
        assert torch.equal(before[0], after[0])
        assert (before[2] != after[2]).any()
    assert (after[1] == value) is (option == "mode")
    assert (int(after[3].max()) == 2) is (option == "max_iterations")
