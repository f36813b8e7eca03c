"""Files that are either as they were or complete: neither a kill nor a full disk leaves half a file behind.

Weights are read from and written to safetensors; nothing is unpickled. Their hashes lie in ``sha256.json``
beside them: a file that changed since is refused.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from safetensors.torch import _TYPES
from torch import Tensor

from automata.data_files import LARGEST_FILE, fresh_file, read_file, strict_json, without_repetition
from automata.errors import InputError, printable, unknown_name
from implicit.config.references import check_allowed, named_code
from implicit.models.registry import MODELS, size_names

LARGEST_STORED = 2**40
"""Bytes of weights, where no configuration says how large they are."""
LONGEST_HEADER = 10**8
"""Bytes, as safetensors has it."""
HASHES = "sha256.json"


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file in one stroke; OSError names the path, and the file is then as it was before."""
    with fresh_file(path) as file:
        file.write(content)


def refuse_links(folder: Path, written: str, flag: str = "--out") -> None:
    """Refuse links out of a run folder through which ``written``, a folder in it, would be written.

    ``flag`` gives another folder.

    The folder may itself be a link, and links within it may lead to places within it.
    """
    below = folder / written
    on_the_way = [place for place in below.parents if place != folder and place.is_relative_to(folder)]
    for place in (*reversed(on_the_way), below, *below.rglob("*")):
        if place.is_symlink() and not Path(os.path.realpath(place)).is_relative_to(os.path.realpath(folder)):
            raise InputError(
                f"{place} is a link to {os.readlink(place)}; remove it, or give another folder with {flag}"
            )


def write_json(path: Path, value: object) -> None:
    """Write JSON, indented and in UTF-8, in one stroke; InputError for a text that UTF-8 has no bytes for."""
    content = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        write_bytes(path, content.encode())
    except UnicodeEncodeError as error:  # of a path, which may have any bytes
        before, after = content[: error.start].rpartition('"')[2], content[error.start :].partition('"')[0]
        raise InputError(f"{path} cannot hold {before + after!r}, which is not UTF-8; rename that") from None


def identity(values: object) -> str:
    """Return the SHA-256 of JSON values in any order of keys, such as the configuration of a run.

    A checkpoint holds that of its run, and so is known from one of another.
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> Any:
    """Read JSON of a run; refuse a missing file."""
    return strict_json(read_stored(path), str(path), "restore it or train again")


def write_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
    beside: Iterable[Path] = (),
) -> None:
    """Write named tensors as safetensors, in one stroke; one that has several names is written under each.

    Its hash is written before it, into ``sha256.json`` beside it, with those of other files there.
    """
    content = tensor_bytes(tensors, metadata)
    hashes = _read_hashes(path.parent)
    found = [_sha256(path)] if path.is_file() else []
    # Killed between the two writes, the file is still the one before: that of any of its hashes, or of none.
    before = [known for known in hashes.get(path.name, found) if known in found]
    hashes[path.name] = [hashlib.sha256(content).hexdigest(), *before[:1]]
    _write_hashes(path.parent, {**hashes, **{file.name: [_sha256(file)] for file in beside}})
    write_bytes(path, content)


def write_hashes(folder: Path, pattern: str = "*") -> None:
    """Write hashes into ``sha256.json``: of all files in and below a folder, or of matching ones in it."""
    files = _files(folder, pattern).items()
    _write_hashes(folder, {name: [_sha256(file)] for name, file in files if name != HASHES})


def check_hashes(folder: Path, names: str = ".*") -> None:
    """Refuse a folder with a file, of matching name, that is missing or not as it was written.

    One without hashes passes.
    """
    for name, known in _read_hashes(folder).items():
        if re.fullmatch(names, name, re.DOTALL):
            if (inside := PurePath(name)).is_absolute() or ".." in inside.parts:
                raise InputError(f"{folder / HASHES} names {printable(name)}, outside of it; restore it")
            if not (folder / name).is_file():
                raise InputError(f"{folder / name} is missing; restore it or train again")
            _check_hash(folder / name, _sha256(folder / name), known)


def has_hashes(folder: Path) -> bool:
    """Return whether a folder has hashes of its files: a ``sha256.json`` of ours."""
    try:
        return bool(_read_hashes(folder))
    except InputError:
        return False


def _files(folder: Path, pattern: str) -> dict[str, Path]:
    found = folder.rglob(pattern) if pattern == "*" else folder.glob(pattern)
    return {file.relative_to(folder).as_posix(): file for file in sorted(found) if file.is_file()}


def _sha256(path: Path) -> str:
    """The hash of as much of a file as its size says: some that a link may lead to never end."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        left = os.fstat(file.fileno()).st_size
        while part := file.read(min(left, 2**20)):
            digest.update(part)
            left -= len(part)
    return digest.hexdigest()


def _read_hashes(folder: Path) -> dict[str, list[str]]:
    """The hashes that files may have, the newest first; none in folders of older versions.

    JSON of another form is the user's and has none. A file that is no JSON may be damaged, and is refused.
    """
    file = folder / HASHES
    if not file.is_file():
        return {}
    remedy = f"restore it, or delete it if it holds no hashes of {folder} or you changed the files yourself"
    hashes = strict_json(read_stored(file), str(file), remedy)
    return hashes if _is_ours(hashes) else {}


def _is_ours(hashes: Any) -> bool:
    return isinstance(hashes, dict) and all(
        isinstance(known, list) and all(isinstance(one, str) and len(one) == 64 for one in known)
        for known in hashes.values()
    )


def _write_hashes(folder: Path, hashes: dict[str, list[str]]) -> None:
    file = folder / HASHES
    remedy = f"holds something else than the hashes of {folder}; move it away"
    if file.exists() and not _is_ours(strict_json(read_stored(file), str(file), f"it {remedy}")):
        raise InputError(f"{file} {remedy}")
    write_json(file, hashes)


def _check_hash(path: Path, found: str, known: list[str]) -> None:
    if found not in known:
        raise InputError(
            f"{path} is not as it was written: its SHA-256 is another than in {HASHES}; restore it, or "
            f"delete {HASHES} if you changed it yourself"
        )


def tensor_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return named tensors as the content of a safetensors file; tied ones are in it under each name."""
    separate: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        storage = own.untyped_storage().data_ptr()
        separate[name] = own.clone() if storage in seen else own  # safetensors refuses shared memory
        seen.add(storage)
    return safetensors.torch.save(separate, dict(metadata or {}))


def read_tensors(path: Path, most: int = LARGEST_STORED) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read named tensors and metadata from safetensors of at most so many bytes, as they were written."""
    content = read_stored(path, most)
    with _valid(path):
        tensors = safetensors.torch.load(content)
    if path.name in (hashes := _read_hashes(path.parent)):
        _check_hash(path, hashlib.sha256(content).hexdigest(), hashes[path.name])
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return tensors, header.get("__metadata__", {})


def declared_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return what `read_tensors` does, from the header alone: tensors without content, on the meta device."""
    if not path.is_file():
        raise InputError(f"{path} is missing; restore it or train again")
    with _valid(path), path.open("rb") as file:  # safetensors' own reader takes no path but UTF-8
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(size, LONGEST_HEADER):
            raise ValueError("its header is too long")
        header = json.loads(file.read(length), object_pairs_hook=without_repetition)
    with _valid(path):
        tensors, held, metadata = {}, 0, header.pop("__metadata__", {})
        for name, tensor in header.items():
            tensors[name] = torch.empty(tensor["shape"], dtype=_TYPES[tensor["dtype"]], device="meta")
            begin, end = tensor["data_offsets"]
            if end - begin != tensors[name].numel() * tensors[name].element_size():
                raise ValueError("its header stands for another size")
            held += end - begin
        if 8 + length + held != size:
            raise ValueError("its header stands for another size")
        if not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError("its metadata is no text")
        return tensors, metadata


@contextlib.contextmanager
def _valid(path: Path) -> Iterator[None]:
    """Tell in one sentence what safetensors raises of a file."""
    try:
        yield
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError(
            f"{path} is not valid safetensors ({_reason(error)}); restore it or train again"
        ) from None


def check_tensors(path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not, by name, shape and dtype, those expected, or not finite where those are.

    Nothing is known of the content of tensors on the meta device, as `declared_tensors` returns them.
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
        if not found.is_meta and not bool((found.isfinite() | ~tensor.isfinite().cpu()).all()):
            raise InputError(f"{path}: tensor {name!r} holds NaN or infinity; {remedy}")
    for name in tensors:
        if name not in expected:
            raise InputError(f"{path}: tensor {name!r} is unexpected; {remedy}")


def check_within(path: Path, expected: Mapping[str, Tensor]) -> None:
    """Refuse a safetensors file with other tensors than some of those expected, before it is read."""
    declared, _ = declared_tensors(path)
    check_tensors(path, declared, {name: expected[name] for name in declared if name in expected})


def read_stored(path: Path, most: int = LARGEST_FILE) -> bytes:
    """Return the content of a file of a run; devices, pipes and larger files are refused unread."""
    try:
        return read_file(path, most)
    except FileNotFoundError:
        raise InputError(f"{path} is missing; restore it or train again") from None


def _reason(error: BaseException) -> str:
    """The first line of an error's message, without a full stop, to stand in brackets."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def read_settings(
    path: Path, given: Mapping[str, Any] = MappingProxyType({}), *, allow_code: bool = False
) -> dict[str, Any]:
    """Read settings: a JSON object of flat fields, with ``sizes`` an object of sizes by model.

    Fields that are given replace those of the file, which may name code only if that is allowed.
    """
    if not path.is_file():
        raise InputError(f"settings is {path}, which is not there; give a JSON file, such as that of a paper")
    found = read_json(path)
    sizes = found.get("sizes", {}) if isinstance(found, dict) else None
    if not isinstance(sizes, dict) or not all(isinstance(entry, dict) for entry in sizes.values()):
        raise InputError(f"settings in {path} are of another form; give an object of fields, sizes by model")
    for values in (found | given, *found.get("sizes", {}).values()):
        check_allowed(f"settings file {path}", values, allow_code or named_code(given))
    for model, values in sizes.items():
        if ":" in model:  # a user's own is imported when it is trained
            continue
        if model not in MODELS:
            raise unknown_name(f"model in sizes of {path}", model, MODELS)
        for size in sorted(values.keys() - {*size_names(model)}):
            raise unknown_name(f"size of {model} in {path}", size, size_names(model))
    return found | given
