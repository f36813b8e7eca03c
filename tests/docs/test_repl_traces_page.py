"""docs/repl_traces.md: its sessions are true, its fields those of the task, its figures the audit's."""

import re
from pathlib import Path

import numpy as np
import pytest

from automata import ReplLanguage, task_from
from automata.repl import check_with_interpreter, sample_sessions
from automata.tasks.audit import last_reveal_audit

PAGE = (Path(__file__).parents[2] / "docs" / "repl_traces.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"```text\n(.*?)\n```", PAGE, re.DOTALL)
SEED = 3441447623


def test_the_sessions_of_the_page_are_true() -> None:
    assert len(SESSIONS) == 4
    assert f"seeded with {SEED}" in PAGE
    for session in SESSIONS:
        assert check_with_interpreter(session, SEED) is None


def test_the_task_draws_what_the_page_shows() -> None:
    """The named fields, in each session's own words."""
    wanted = re.findall(r"\(`(\"[^`]*)`\)", PAGE)
    assert len(wanted) == 4
    for fields, session in zip(wanted, SESSIONS, strict=True):
        task = task_from(f'{{"repl": {{{" ".join(fields.split())}}}}}')
        assert isinstance(task, ReplLanguage)
        assert task.tokenizer.decode(task.tokenizer.encode(session)) == session
        task.beliefs([task.tokenizer.encode(session)])
    form = ReplLanguage(hidden="if", reveal_every=1).form
    drawn = sample_sessions(form, 1, np.random.default_rng(3), commands=2).trace(0)
    assert (drawn.text, drawn.seed) == (SESSIONS[2], SEED)


@pytest.mark.parametrize(
    ("name", "last_reveal", "ceiling"),
    re.findall(r"^\| `(repl-[\w-]+)` \| ([\d.]+) \| ([\d.]+) \|", PAGE, re.M),
)
def test_the_figures_are_those_of_the_audit(name: str, last_reveal: str, ceiling: str) -> None:
    task = task_from(name)
    assert isinstance(task, ReplLanguage)
    found = last_reveal_audit(task, 512, 64, 64, np.random.default_rng(0))
    assert found is not None
    assert f"{found.accuracy:.4f}" == last_reveal
    best = task.ceiling(512, last=64, sequences=64)
    assert best is not None
    # of hidden swaps from a sample of 64 sessions: some 280 answers, whose best ones are right with 1/3 to 1
    assert best.accuracy == pytest.approx(float(ceiling), abs=0.05 if task.form.hidden else 0)
