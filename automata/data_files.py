"""Files of users: where they lie, reading in bounded memory, writing in one stroke, JSON of one meaning.

A path may begin with the environment variable of the data folder.
"""

import contextlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from automata.checks import check_memory, check_type, repeated, shown
from automata.errors import InputError

LARGEST_FILE = 2**30
"""Bytes of a file that is read whole, unless its reader states another limit."""
MOST_VALUES = 3 * 10**7
"""In JSON; an empty list takes three bytes there and 64 in memory. The table of S7 has 25 million."""
DEEPEST = 32
"""Lists and objects inside of each other in JSON; a certificate has seven."""

TEMPORARY_SUFFIX = ".tmp"
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp", re.DOTALL)

DATA_VARIABLE = "IMPLICIT_SSM_DATA"
"""Names the folder of data that users have and that no package brings."""
_PREFIX = f"${DATA_VARIABLE}/"


def data_file(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file, found in the data folder if the path begins with its variable.

    Stored tasks and runs keep the variable, so that they are the same wherever the data lies.
    InputError if the variable is not set.
    """
    check_type("path", path, (str, os.PathLike), "give the path of a file")
    text = os.fspath(path)
    if not text:
        raise InputError("path is ''; give the path of a file")
    try:
        os.stat(text)
    except ValueError:  # a zero byte, or a letter that no file system takes
        raise InputError(f"path is {shown(text)}; give one that the file system can hold") from None
    except OSError:
        pass  # told by whoever reads it
    if not text.startswith(_PREFIX):
        return Path(text).absolute()
    folder = os.environ.get(DATA_VARIABLE)
    if not folder:
        raise InputError(f"{text} begins with {DATA_VARIABLE}, which is not set; set it to the data's folder")
    return (Path(folder) / text.removeprefix(_PREFIX)).absolute()


def stored_path(path: str | os.PathLike[str]) -> str:
    """Return what is written down of a path: absolute, or with the variable as it was given."""
    text = os.fspath(path)
    return text if text.startswith(_PREFIX) else str(Path(text).absolute())


def read_file(path: str | os.PathLike[str], most: int = LARGEST_FILE, memory: int = 1) -> bytes:
    """Return the content of a regular file; devices, pipes and large files are refused unread.

    ``memory`` is what the caller needs for each byte of the file, the content included.

    OSError passes, which every caller tells in its own words.
    """
    remedy = f"give a file of at most {most} bytes"
    with open_regular(path, remedy) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise InputError(f"{path} is too large; {remedy}")
        check_memory(f"what {path} holds", memory * size, "give a smaller file")
        content = file.read(size + 1) or b""
    if len(content) > size:
        raise InputError(f"{path} grows while it is read; {remedy}")
    return content


def open_regular(path: str | os.PathLike[str], remedy: str = "give a regular file") -> BinaryIO:
    """Open a regular file to read its bytes; devices and pipes, which may never end, are refused at once.

    OSError passes, which every caller tells in its own words.
    """
    try:
        file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115
    except ValueError as error:  # of a path that no file can have
        raise InputError(f"{path} is no path of a file ({error}); {remedy}") from None
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise InputError(f"{path} is not a regular file; {remedy}")
    return file


def _without_waiting(path: str, flags: int) -> int:
    """Open a path at once, even a pipe that nobody writes to."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


@contextlib.contextmanager
def fresh_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be written in one stroke: beside its place, to the disk, then into place.

    Neither a kill nor a full disk leaves half a file. OSError names the path; the file is then as it was.
    """
    # The name is a fresh one and "x" follows no link: a name known before could be a link to another file.
    beginning = f".{path.name[:200]}."
    temporary = path.with_name(f"{beginning}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    try:
        for leftover in leftovers(path.parent):
            if leftover.name.startswith(beginning):
                leftover.unlink(missing_ok=True)
        try:
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except (Exception, KeyboardInterrupt):
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _flush_folder(path.parent)
    except OSError as error:  # which knows the temporary name or, after a write, none
        raise OSError(error.errno, error.strerror, str(path)) from None


def leftovers(folder: Path) -> list[Path]:
    """Return the temporary files that writers which were killed have left in a folder.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for name in ("notes.tmp", ".config.json.0123456789abcdef.tmp"):
        ...         (Path(folder) / name).touch()
        ...     [path.name for path in leftovers(Path(folder))]
        ['.config.json.0123456789abcdef.tmp']
    """
    return [path for path in folder.iterdir() if _TEMPORARY.fullmatch(path.name) and not path.is_dir()]


def _flush_folder(folder: Path) -> None:
    """Make a rename outlive a power cut; only POSIX systems can open a folder for that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def strict_json(content: str | bytes, name: str, remedy: str = "correct it there") -> Any:
    """Return the value of a JSON text that has one meaning; refuse any other.

    Python's own reader takes the last of two equal keys, and takes NaN and numbers beyond float64. InputError
    if the text is no JSON, names a key twice in one object, holds NaN, Infinity, a number beyond float64 or
    half of a surrogate pair, or is nested too deeply.
    """
    try:
        text = (content.encode() if isinstance(content, str) else content).decode("utf-8")
        if sum(map(text.count, ",[{")) > MOST_VALUES:
            raise InputError(f"holds more than {MOST_VALUES} values")
        value = _STRICT.decode(text.removeprefix("\ufeff"))
        if "\\ud" in text.casefold():
            json.dumps(value, ensure_ascii=False).encode()
        _check_depth(value)
        return value
    except RecursionError:
        reason = f"is nested more than {DEEPEST} deep"
    except UnicodeEncodeError:
        reason = "holds half of a surrogate pair"
    except UnicodeDecodeError as fault:
        reason = f"is not valid JSON (byte {fault.start} is not UTF-8)"
    except json.JSONDecodeError as fault:
        reason = f"is not valid JSON ({fault})"
    except InputError as fault:  # of a function below
        reason = str(fault)
    except ValueError:  # Python's own limit of digits
        reason = "holds an integer beyond 64 bits"
    raise InputError(f"{name} {reason}{remedy and '; '}{remedy}")


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these pairs, for ``json.loads(object_pairs_hook=…)``; refuse a key twice."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise InputError(f"holds the key {shown(repeated(key for key, _ in pairs))} twice in one object")
    return content


def _no_literal(text: str) -> NoReturn:
    raise InputError(f"holds the literal {text}, which is no JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InputError("holds a number beyond float64")
    return number


_STRICT = json.JSONDecoder(  # made once, for a file may have many lines of JSON
    object_pairs_hook=without_repetition, parse_constant=_no_literal, parse_float=_finite_float
)


def _check_depth(content: Any) -> None:
    level = [content]
    for _ in range(DEEPEST + 1):
        inner = [
            part.values() if isinstance(part, dict) else part
            for part in level
            if isinstance(part, dict | list)
        ]
        if not inner:
            return
        level = [part for parts in inner for part in parts]
    raise RecursionError
