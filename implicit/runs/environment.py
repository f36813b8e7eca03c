"""The environment that a result was made in, without anything that names a user or a machine."""

import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import numpy as np
import torch

from implicit_ssm import __version__

Environment = dict[str, str | int | None]


def describe_environment() -> Environment:
    """Return versions, this package's too, platform, threads and, where known, the commit of this code.

    The commit is that of the working copy which tracks this file, with ``-dirty`` appended if it has changes;
    None for an installed package, which the version names.

    Example:
        >>> environment = describe_environment()
        >>> environment["torch"] == torch.__version__, list(environment)[:6]
        (True, ['implicit-ssm', 'python', 'torch', 'numpy', 'numba', 'platform'])
    """
    return {
        "implicit-ssm": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "numba": metadata.version("numba"),
        "platform": platform.system(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit that this file belongs to; None outside of a working copy of its own repository."""
    git = shutil.which("git")
    here = Path(__file__)
    if git is None:
        return None
    # An installed copy may lie in the working copy of another project, which does not track it.
    for arguments in (
        ["ls-files", "--error-unmatch", here.name],
        ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
    ):
        answer = subprocess.run(
            [git, *arguments], cwd=here.parent, capture_output=True, text=True, check=False, timeout=10
        )
        if answer.returncode:
            return None
    return answer.stdout.strip()
