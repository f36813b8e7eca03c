"""Ways to spoil a run folder, or the place of a new one, before a command is given it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import safetensors.torch
from torch import Tensor

Prepare = Callable[[Path], object]


def nothing(folder: Path) -> None:
    """Leave the folder as it is."""


def edit_config(**values: object) -> Prepare:
    """Change fields in the stored configuration on purpose: the hash is deleted, too."""

    def edit(folder: Path) -> None:
        file = folder / "run" / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))
        file.with_name("sha256.json").unlink(missing_ok=True)

    return edit


def swap(name: str, old: bytes, new: bytes) -> Prepare:
    """Replace what stands in a file."""
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes().replace(old, new))


def edit_weights(change: Callable[[dict[str, Tensor]], object]) -> Prepare:
    """Change the stored weights on purpose: the hash is deleted, too."""

    def edit(folder: Path) -> None:
        file = folder / "run" / "model.safetensors"
        weights = safetensors.torch.load_file(file)
        change(weights)
        file.write_bytes(safetensors.torch.save(weights))
        file.with_name("sha256.json").unlink()

    return edit


def write(name: str, content: bytes) -> Prepare:
    """Write a file, and the folder it is in."""

    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return make


def remove(name: str) -> Prepare:
    """Remove a file."""
    return lambda folder: (folder / name).unlink()


def pipe(name: str) -> Prepare:
    """Put a pipe in the place of a file: who waits for its content waits for ever."""

    def prepare(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return prepare


def link(name: str, target: str) -> Prepare:
    """Put a link in the place of a file."""

    def prepare(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return prepare


def make_unfinished(folder: Path) -> None:
    """Turn the finished run into one that was interrupted."""
    (folder / "run" / "checkpoint").mkdir()
    (folder / "run" / "model.safetensors").rename(folder / "run" / "checkpoint" / "state.safetensors")
