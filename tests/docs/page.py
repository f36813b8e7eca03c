"""The pages of docs/: their sections, the commands in them and the files that they show."""

import re
import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from implicit.command_line import run_command

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
GUIDES = ("extending.md", "your_own_analysis.md", "your_own_cell.md", "your_own_proof.md", "your_own_task.md")


def section(title: str) -> str:
    """The text below a heading of one of the guides, up to the next one of its level."""
    wanted = re.compile(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", flags=re.DOTALL | re.MULTILINE)
    (found,) = [match[1] for name in GUIDES for match in [wanted.search(page(name))] if match]
    return found


def commands_in(text: str) -> list[list[str]]:
    """The arguments of every command of a text, beginning with the module's name."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("python -m ")]
    assert lines
    return [shlex.split(line, comments=True)[2:] for line in lines]


def quoted(file: str) -> str:
    """A file of docs/examples as a page shows it."""
    kind = {"py": "python"}.get(file.rpartition(".")[2], "json")
    return f"```{kind}\n{(EXAMPLES / file).read_text(encoding='utf-8')}```"


def page(name: str) -> str:
    """The text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def python_in(name: str) -> list[str]:
    """The Python code of a page, block by block."""
    return re.findall(r"^```python\n(.*?)^```", page(name), flags=re.DOTALL | re.MULTILINE)


def run_module(arguments: Sequence[str]) -> int:
    """Do what ``python -m`` does with a package's module, in this process."""
    module: Any = import_module(arguments[0])
    if not hasattr(module, "main"):
        module = import_module(f"{arguments[0]}.__main__")
    if arguments[0] == "implicit.train":
        return run_command(module.main, list(arguments[1:]))
    code: int = module.main(list(arguments[1:]))
    return code


SHORT = {
    "implicit.train": "--steps 2 --warmup-steps 1 --batch-size 4 --length 8 --evaluation-sequences 4",
    "analysis.extraction": "--sequences 8 --length 8 --fresh-words 4",
    "analysis.jacobian": "--sequences 2 --length 6 --states 2",
    "analysis.check_certificate": "--processes 1",
    "analysis.certify": "--sequences 2 --length 8 --states 3",
    "analysis.length_generalization": "--sequences 4 --lengths 4 8",
}
"""Flags that shorten a command: of a flag that is given twice, the last counts."""
