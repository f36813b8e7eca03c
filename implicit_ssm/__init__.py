"""The common part of the packages of implicit-ssm: their version, and a check that they are found.

``automata``, ``theory``, ``analysis`` are names that others use as well: automata-lib, which is imported as
``automata``, or a folder of the user's. Where such a package is found instead, imports would fail somewhere
inside; `require` says at once what is wrong. This package has the name of the distribution, and is its lowest
layer.
"""

import os
import sys

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES = ("automata", "theory", "implicit", "analysis", "paper_figures")
_RUN_FILES = ("metrics.jsonl", "model.safetensors")
_left: list[tuple[int, str]] = []
"""The current folder and its place on the path, until code of the user's is looked for."""


def leave_current_folder(place: int = 0) -> None:
    """Take the current folder off Python's path, here and in processes that start here.

    A ``torch.py`` beside a stranger's files would else be imported in place of the package.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:  # it was removed
        return
    if here == _OURS:
        return
    of_run, named = _in_run_folder(here), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = [folder for folder in named if folder not in ("", ".") and not (of_run and folder == here)]
    sys.path[:] = [folder for folder in sys.path if folder and (folder != here or here in named)]
    os.environ |= {"PYTHONPATH": os.pathsep.join(named), "PYTHONSAFEPATH": "1"}
    if not of_run:
        _left.append((place, here))


def find_own_code() -> None:
    """Put the current folder on the path again: code is to be imported that the user named or allowed.

    The folder of a run, and those within, stay off it.
    """
    while _left:
        place, here = _left.pop()
        sys.path.insert(place, here)
        named = os.environ["PYTHONPATH"]
        os.environ["PYTHONPATH"] = f"{named}{os.pathsep}{here}" if named else here


def _in_run_folder(folder: str) -> bool:
    """Return whether a folder is that of a run, which may be a stranger's, or lies in one."""
    is_run = os.path.isfile(os.path.join(folder, "config.json")) and any(
        os.path.isfile(os.path.join(folder, name)) for name in _RUN_FILES
    )
    above = os.path.dirname(folder)
    return is_run or (above != folder and _in_run_folder(above))


# Python's -m finds modules in the current folder first, so that it leaves the path before anything else is
# imported. The module is what stands before its arguments, and those are all that sys.argv has by now.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    _module = sys.orig_argv[-len(sys.argv)]
    _module = _module.partition("m")[2] if _module.startswith("-") else _module
    if _module.partition(".")[0] in (*_PACKAGES, "benchmarks") or _in_run_folder(sys.path[0]):
        leave_current_folder()

from implicit_ssm.own import require
from implicit_ssm.version import __version__

typed: str | None = None
"""The beginning of the command as its user typed it, if that is not ``python -m``."""

__all__ = ["__version__", "require"]
