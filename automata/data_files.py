"""Where data lies that is not in the package: a path below the folder that an environment variable names."""

import os
from pathlib import Path

from automata.checks import check_type, shown
from automata.errors import InputError

DATA_VARIABLE = "IMPLICIT_SSM_DATA"
"""Names the folder of data that users have and that no package brings."""
_PREFIX = f"${DATA_VARIABLE}/"


def data_file(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a file, found in the data folder if the path begins with its variable.

    What is stored of a task or a run keeps the variable, so that it is the same wherever the data lies.

    Args:
        path: such as ``text.txt``, or ``$IMPLICIT_SSM_DATA/wikitext-2/test.txt``.

    Raises:
        InputError: the path begins with the variable, and it is not set.

    Example:
        >>> data_file("/texts/one.txt").as_posix()
        '/texts/one.txt'
    """
    check_type("path", path, (str, os.PathLike), "give the path of a file")
    text = os.fspath(path)
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
    """Return what is written down of a path: absolute, or with the variable as it was given.

    Example:
        >>> stored_path("$IMPLICIT_SSM_DATA/wikitext-2/test.txt"), stored_path("/texts/one.txt")
        ('$IMPLICIT_SSM_DATA/wikitext-2/test.txt', '/texts/one.txt')
    """
    text = os.fspath(path)
    return text if text.startswith(_PREFIX) else str(Path(text).absolute())
