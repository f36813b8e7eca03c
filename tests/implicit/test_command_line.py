"""All commands share flags, exit codes, and the one sentence on standard error."""

import errno
import io
import subprocess
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, PositiveInt

from automata.errors import InputError
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command


class Options(BaseModel):
    steps: PositiveInt = Field(default=3, description="how many steps, 100% of them")
    limit: Annotated[float, Field(gt=0)] | None = Field(default=None, description="largest norm")
    lengths: tuple[PositiveInt, ...] = Field(default=(), description="lengths to measure at")
    residual: bool = Field(default=True, description="whether the input is added")
    name: str = Field(description="a name")


def parser() -> CommandParser:
    made = CommandParser("python -m demo", "Show flags.")
    add_config_flags(made, Options, title="options")
    return made


@pytest.mark.parametrize(
    ("argv", "given"),
    [
        ("", {}),
        ("--steps 7 --name a", {"steps": 7, "name": "a"}),
        ("--steps=7", {"steps": 7}),
        ("--limit 0.5", {"limit": 0.5}),
        ("--limit none", {"limit": None}),
        ("--name none", {"name": "none"}),
        ("--lengths 8 16 32", {"lengths": (8, 16, 32)}),
        ("--residual", {"residual": True}),
        ("--no-residual", {"residual": False}),
    ],
)
def test_flags_give_the_fields(argv: str, given: dict[str, object]) -> None:
    fields = given_fields(parser().parse_args(argv.split()), Options)
    assert set(fields) == set(given)
    options = validated(Options, {"name": "b"} | fields)
    assert options == Options(**{"name": "b"} | given)


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ("--stepz 3", "flag --stepz is unknown; the nearest is --steps, and --help shows all"),
        ("--stepz=3", "flag --stepz is unknown; the nearest is --steps, and --help shows all"),
        ("--zzzzzzz", "flag --zzzzzzz is unknown; --help shows all"),
        ("--step 3", "flag --step is unknown; the nearest is --steps, and --help shows all"),
        ("--steps", "argument --steps: expected one argument; --help shows all flags"),
        ("extra", "argument 'extra' is one too many; --help shows what is taken"),
    ],
)
def test_faults_of_flags(argv: str, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        parser().parse_args(argv.split())
    assert str(caught.value) == sentence


FULL = OSError(errno.ENOSPC, "No space left on device", "out/a")
DENIED = PermissionError(errno.EACCES, "Permission denied", "out")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (InputError("length is 0; give at least 1"), 2, "length is 0; give at least 1"),
        (InputError("two\nlines"), 2, "two lines"),
        (InputError("'\x1b[2J\u202e\x9b' is unknown"), 2, "'\\x1b[2J\\u202e\\x9b' is unknown"),
        (InputError("\u3164\uffa0\u2800\ufe0f é"), 2, "\\u3164\\uffa0\\u2800\\ufe0f é"),
        (FULL, 2, "out/a: no space left on device; free some space and run the same command again"),
        (DENIED, 2, "out: permission denied; give a place that you may write to"),
        (OSError("odd"), 2, "odd; give another path or mend the file system"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to go on"),
    ],
)
def test_codes(error: BaseException, code: int, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    def main(argv: Sequence[str] | None) -> None:
        raise error

    assert run_command(main, []) == code
    captured = capsys.readouterr()
    assert (captured.err, captured.out) == (f"error: {sentence}\n", "")


@pytest.mark.filterwarnings("always:no choice")
def test_a_warning_is_one_line_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    def main(argv: Sequence[str] | None) -> None:
        for category in (UserWarning, UserWarning, FutureWarning):
            warnings.warn("no choice;\ngive \x1b two", category, stacklevel=1)

    usual = warnings.showwarning
    assert run_command(main, []) == 0
    assert capsys.readouterr().err == "warning: no choice; give \\x1b two\n"
    assert warnings.showwarning is usual


def test_faults_of_the_program_are_not_hidden() -> None:
    def main(argv: Sequence[str] | None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_command(main, [])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_signs_that_an_encoding_lacks_end_no_command(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of ours, and names that are not UTF-8; what is read in another encoding is a wrong name."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xc3"), encoding))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    assert run_command(lambda argv: print("Φ → √n", "name\udcff", sys.stdin.read()), []) == 0


def test_nobody_reads_the_output() -> None:
    """As in ``command | head -1``."""
    program = "import implicit.command_line as c, sys; sys.exit(c.run_command(lambda _: print('x' * 10**6)))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=-1, stderr=-1) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 141)


def test_a_long_sentence_keeps_its_beginning_and_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    def command(_: Sequence[str] | None) -> None:
        raise InputError(f"lengths are {'8 ' * 10**6}; give fewer")

    assert run_command(command) == 2
    error = capsys.readouterr().err
    assert len(error) < 1100
    assert error.startswith("error: lengths are 8 8")
    assert error.endswith("8 ; give fewer\n")
