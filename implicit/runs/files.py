"""Files that are either as they were or complete: neither a kill nor a full disk leaves half a file behind.

Weights are read from and written to safetensors; nothing is unpickled.
"""

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from automata.data_files import LARGEST_FILE, read_file, strict_json
from automata.errors import InputError

LARGEST_STORED = 2**40
"""Bytes of weights, where no configuration says how large they are."""
TEMPORARY_SUFFIX = ".tmp"
_TEMPORARY = re.compile(r"\..*\.[0-9a-f]{16}\.tmp", re.DOTALL)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one stroke: to a temporary file in the same folder, to the disk, then into place.

    Raises:
        OSError: naming the path; the file is as it was before.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_bytes(Path(folder) / "figures", b"1 2 3")
        ...     (Path(folder) / "figures").read_bytes(), len(os.listdir(folder))
        (b'1 2 3', 1)
    """
    # The name is a fresh one and "x" follows no link: a name known before could be a link to another file.
    beginning = f".{path.name[:200]}."
    temporary = path.with_name(f"{beginning}{secrets.token_hex(8)}{TEMPORARY_SUFFIX}")
    with _named(path):
        for leftover in leftovers(path.parent):
            if leftover.name.startswith(beginning):
                leftover.unlink(missing_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        _flush_folder(path.parent)


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
    return [path for path in folder.iterdir() if _TEMPORARY.fullmatch(path.name)]


def write_json(path: Path, value: object) -> None:
    """Write JSON, indented and in UTF-8, in one stroke.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_json(Path(folder) / "config.json", {"seed": 0})
        ...     read_json(Path(folder) / "config.json")
        {'seed': 0}
    """
    write_bytes(path, (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read JSON.

    Raises:
        InputError: for a missing file or one that is not JSON.

    Example:
        >>> read_json(Path("nowhere.json"))
        Traceback (most recent call last):
        automata.errors.InputError: nowhere.json is missing; restore it or train again
    """
    return strict_json(read_stored(path), str(path), "restore it or train again")


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors as safetensors, in one stroke; one that has several names is written under each.

    Example:
        >>> import torch
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_tensors(Path(folder) / "w.safetensors", {"w": torch.ones(2)}, {"step": "3"})
        ...     read_tensors(Path(folder) / "w.safetensors")
        ({'w': tensor([1., 1.])}, {'step': '3'})
    """
    write_bytes(path, tensor_bytes(tensors, metadata))


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return named tensors as the content of a safetensors file; tied ones are in it under each name.

    Example:
        >>> import torch
        >>> tied = torch.ones(2)
        >>> sorted(safetensors.torch.load(tensor_bytes({"one": tied, "other": tied})))
        ['one', 'other']
    """
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage().data_ptr()
        separate[name] = own.clone() if storage in seen else own  # safetensors refuses shared memory
        seen.add(storage)
    return safetensors.torch.save(separate, dict(metadata or {}))


def read_tensors(path: Path, most: int = LARGEST_STORED) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read named tensors and the metadata from safetensors.

    Args:
        path: of the file.
        most: the largest size, in bytes.

    Raises:
        InputError: for a missing file or one that is not safetensors.

    Example:
        >>> read_tensors(Path("nowhere.safetensors"))
        Traceback (most recent call last):
        automata.errors.InputError: nowhere.safetensors is missing; restore it or train again
    """
    content = read_stored(path, most)
    try:
        tensors = safetensors.torch.load(content)
    except (SafetensorError, ValueError) as error:
        raise InputError(
            f"{path} is not valid safetensors ({_reason(error)}); restore it or train again"
        ) from None
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return tensors, header.get("__metadata__", {})


def check_tensors(path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not, by name, shape and dtype, those expected, or that are not finite.

    Raises:
        InputError: naming the first tensor at fault.

    Example:
        >>> import torch
        >>> check_tensors(Path("w"), {"w": torch.ones(2)}, {"w": torch.ones(3)})
        Traceback (most recent call last):
        automata.errors.InputError: w: tensor 'w' has shape (2,) where the configuration asks for (3,); ...
    """
    remedy = "restore the file or train again"
    for name, tensor in expected.items():
        if name not in tensors:
            raise InputError(f"{path}: tensor {name!r} is missing; {remedy}")
        found = tensors[name]
        if found.shape != tensor.shape:
            shapes = f"{tuple(found.shape)} where the configuration asks for {tuple(tensor.shape)}"
            raise InputError(f"{path}: tensor {name!r} has shape {shapes}; {remedy}")
        if found.dtype != tensor.dtype:
            dtypes = f"{found.dtype} where the configuration asks for {tensor.dtype}"
            raise InputError(f"{path}: tensor {name!r} has dtype {dtypes}; {remedy}")
        if not bool(found.isfinite().all()):
            raise InputError(f"{path}: tensor {name!r} holds NaN or infinity; {remedy}")
    for name in tensors:
        if name not in expected:
            raise InputError(f"{path}: tensor {name!r} is unexpected; {remedy}")


def read_stored(path: Path, most: int = LARGEST_FILE) -> bytes:
    """Return the content of a file of a run; devices, pipes and larger files are refused unread.

    Raises:
        InputError: for a missing file, or one that is refused.

    Example:
        >>> read_stored(Path("nowhere.json"))
        Traceback (most recent call last):
        automata.errors.InputError: nowhere.json is missing; restore it or train again
    """
    try:
        return read_file(path, most)
    except FileNotFoundError:
        raise InputError(f"{path} is missing; restore it or train again") from None


def _reason(error: BaseException) -> str:
    """The first line of an error's message, without a full stop, to stand in brackets."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _flush_folder(folder: Path) -> None:
    """Make a rename outlive a power cut; only POSIX systems can open a folder for that."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in an operating system error, which knows the temporary one or, after a write, none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
