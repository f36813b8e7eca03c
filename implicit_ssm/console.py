"""The command ``implicit-ssm``: the main commands under one name, beside whatever modules a user has.

``python -m analysis.jacobian`` finds a folder ``analysis/`` or a file ``theory.py`` of the user's first. Here
the packages of this distribution come first. The current folder is last, once a model or a task of one's own
is named.
"""

import os
import runpy
import sys
from pathlib import Path

import implicit_ssm
from implicit_ssm import leave_current_folder

COMMANDS = {
    "train": ("implicit.train", "train a model on a task"),
    "ask": ("analysis", "answer a question about trained models; alone it lists the questions"),
    "certify": ("analysis.certify", "prove a claim about a model, and write the certificate"),
    "check": ("analysis.check_certificate", "check a certificate by other means"),
    "figures": ("paper_figures", "draw the figures of the paper"),
    "lm pretrain": ("implicit.language.pretrain", "pretrain a language model"),
    "lm harness": ("implicit.language.harness", "evaluate a language model with lm-eval"),
    "lm cost": ("implicit.language.cost", "compute what training the published sizes takes"),
}
"""The module that each runs as ``python -m`` does, and what it is for."""


def main() -> int:
    """Run the command that the arguments of the process begin with.

    Returns:
        0 after help and 2 for an unknown command; all others end the process with the code of their own.

    Example:
        >>> from unittest.mock import patch
        >>> with patch("sys.argv", ["implicit-ssm", "--help"]):
        ...     main()
        usage: implicit-ssm COMMAND ...
        ...
        0
    """
    given = sys.argv[1:]
    if not given or given[0] in ("-h", "--help") or given == ["lm"]:
        print("usage: implicit-ssm COMMAND ...; --help after a command shows what it takes\n")
        for name, (_, purpose) in COMMANDS.items():
            print(f"  {name:<12} {purpose}")
        return 0
    words = 2 if given[0] == "lm" else 1
    name = " ".join(given[:words])
    if name not in COMMANDS:
        known = f"give one of {', '.join(COMMANDS)}; a question stands behind ask, as in ask jacobian RUN"
        print(f"error: command {name!r} is unknown; {known}", file=sys.stderr)
        return 2
    _find_ours_first()
    implicit_ssm.typed = f"implicit-ssm {name} "
    sys.argv[1:] = given[words:]
    runpy.run_module(COMMANDS[name][0], run_name="__main__", alter_sys=True)
    return 0


def _find_ours_first() -> None:
    """Put our packages before all others, in this process and in those that it starts."""
    leave_current_folder(sys.maxsize)
    ours = str(Path(__file__).parents[1])
    others = [place for place in sys.path if place not in ("", ours)]
    sys.path[:] = [ours, *others]
    inherited = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place in others]
    os.environ["PYTHONPATH"] = os.pathsep.join([ours, *inherited])
    os.environ["PYTHONSAFEPATH"] = "1"
