"""Sessions in files and records. For Hugging Face's package something stands in."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.errors import InputError
from automata.repl import (
    ReplTrace,
    SessionFormat,
    check_with_interpreter,
    record,
    sample_traces,
    write_jsonl,
    write_text,
)
from automata.repl.__main__ import main
from tests.automata.repl.sessions import EVERY_KIND


def traces(form: SessionFormat, count: int = 6) -> list[ReplTrace]:
    return list(sample_traces(form, count, np.random.default_rng(4), commands=5))


@pytest.mark.parametrize("form", EVERY_KIND[::13])
def test_records_hold_all_of_a_session(form: SessionFormat) -> None:
    for trace in traces(form):
        found = json.loads(json.dumps(record(trace)))
        assert set(found) == {"text", "commands", "reveal_spans", "states", "seed"}
        assert check_with_interpreter(found["text"], found["seed"]) is None
        assert (found["seed"] is None) == (form.hidden is None)
        values = [found["text"][begin:end] for begin, end in found["reveal_spans"]]
        assert values
        assert all(value.isdigit() for value in values)
        assert len(found["states"]) == len(found["commands"])
        assert found["states"][-1] == list(trace.states[-1])
        if form.reveal == "full":
            last = found["states"][-1]
            assert values[-form.variables :] == list(map(str, last))


def test_files_give_the_sessions_back(tmp_path: Path) -> None:
    given = traces(SessionFormat(hidden="if"))
    assert write_text(tmp_path / "sessions.txt", given) == len(given)
    assert (tmp_path / "sessions.txt").read_text() == "\n\n".join(trace.text for trace in given) + "\n"
    assert write_jsonl(tmp_path / "sessions.jsonl", given) == len(given)
    lines = (tmp_path / "sessions.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [record(trace) for trace in given]


@pytest.mark.parametrize("write", [write_text, write_jsonl])
@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_file_is_as_it_was_wherever_writing_ends(write: Any, fault: BaseException, tmp_path: Path) -> None:
    def some() -> Iterator[ReplTrace]:
        yield from traces(SessionFormat())
        raise fault

    (tmp_path / "sessions").write_text("before")
    with pytest.raises((InputError, KeyboardInterrupt)):
        write(tmp_path / "sessions", some())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("sessions", "before")]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    given = traces(SessionFormat(), 1)
    assert write_text(tmp_path / "pipe", given) == 1
    assert os.read(reading, 10**5).decode() == given[0].text + "\n"
    os.close(reading)


def test_blocks_are_drawn_one_after_the_other() -> None:
    many = traces(SessionFormat(3), 300)
    assert len(many) == 300
    # a session is one of 3⁵ sequences of swaps with one of 3² reveals
    assert [trace.text for trace in many[:44]] != [trace.text for trace in many[256:]]


def test_the_command_writes_prints_and_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "sessions.jsonl"
    fields = '{"variables": 2, "hidden": "if"}'
    assert main(["--format", fields, "--sessions", "3", "--commands", "4", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"3 sessions in {out}\n"
    assert len(out.read_text().splitlines()) == 3
    assert main(["--out", str(out)]) == 2  # the file exists
    assert main(["--sessions", "2", "--commands", "2"]) == 0
    for text in capsys.readouterr().out.removesuffix("\n").split("\n\n"):
        assert check_with_interpreter(text) is None
    assert main(["--verify", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 19
    assert all(line.split()[-1] == "0" for line in lines[1:])
    assert main(["--verify", "10", "--format", '{"variables": 4, "reveal": "full", "spacing": "end"}']) == 0
    (_, line) = capsys.readouterr().out.splitlines()
    assert line.split()[-3:] == ["10", "40", "0"]  # ten sessions with one reveal of four values each
    assert main(["--verify", "2", "--out", str(out)]) == 2
    assert "which --verify does not read; leave one of them out" in capsys.readouterr().err


def test_the_command_says_when_a_session_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the rule of composition turned around, most sessions of groups are no longer true."""

    def inverse(form: SessionFormat, initial: Any, actions: Any, happens: Any) -> Any:
        moved = [initial]
        for column in actions.T:
            images = np.argsort(np.array(form.permutations), axis=1)[column]
            moved.append(np.take_along_axis(moved[-1], images, axis=1))
        return np.stack(moved, axis=1)

    monkeypatch.setattr("automata.repl.sampling._states", inverse)
    assert main(["--verify", "20"]) == 1
    shown = capsys.readouterr().out
    assert "and the interpreter shows" in shown


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--verify", "0"], "verify is 0"),
        (["--format", "x"], "format 'x' is not valid JSON"),
        (["--format", "3"], "format is '3'; give an object"),
        (["--commands", "1000000000000"], "of 1000000000000 actions, 1 at once, needs at least"),
        (["--seed", "-1"], "seed is -1"),
        (["--out", "x.csv"], "out is 'x.csv'; give a file that ends in .txt or .jsonl"),
        (["--out", "/no/such/folder/x.txt"], "path /no/such/folder/x.txt cannot be written"),
        (["--task", "x"], "--help shows all flags"),
    ],
)
def test_bad_arguments_are_told(argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert words in capsys.readouterr().err
