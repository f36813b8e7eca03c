"""The common part of the packages of implicit-ssm: their version, and a check that they are found.

``automata``, ``theory``, ``analysis`` are names that others use as well: automata-lib, which is imported as
``automata``, or a folder of the user's. Where such a package is found instead, imports would fail somewhere
inside; `require` says at once what is wrong. This package has the name of the distribution, and is its lowest
layer.
"""

import os
import sys


def in_run_folder() -> bool:
    """Return whether the current folder is that of a run, which may be a stranger's."""
    return os.path.isfile("config.json") and os.path.isfile("metrics.jsonl")


# Python's -m finds modules in the current folder first. In a run folder those would be a stranger's, so that
# folder leaves the path before anything else is imported, in this process and in those that it starts.
if sys.argv[:1] == ["-m"] and in_run_folder():
    sys.path[:] = [place for place in sys.path if place not in ("", os.getcwd())]
    os.environ["PYTHONSAFEPATH"] = "1"

from implicit_ssm.own import require
from implicit_ssm.version import __version__

__all__ = ["__version__", "require"]
