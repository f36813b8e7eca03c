"""Compilation of kernels by numba, kept on disk.

Numba looks only at the date of the file that a function stands in, not at what it calls in other files. Here
the code is kept in a folder whose name has the hash of the sources of all kernels.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

if numba.config.DISABLE_JIT:
    raise ImportError("NUMBA_DISABLE_JIT is set, without which kernels are compiled")

PACKAGE = Path(__file__).parents[2]
FLOATING = {"contract", "reassoc", "nsz"}
"""Sums and products may be reordered and fused; nothing else is approximated. A sum that overflows in one
order may be finite in another, so that a bound may not rest on an infinity or NaN: see `ordered`."""
OPTIONS: dict[str, Any] = {"fastmath": FLOATING, "error_model": "numpy", "nogil": True, "_nrt": False}
"""Division by zero gives an infinity, the lock of the interpreter is released, and references are not
counted, since kernels make no arrays."""
ORDERED: dict[str, Any] = {**OPTIONS, "fastmath": {"contract"}}
"""Sums and products keep their order; they may be fused."""
FOR_KERNELS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Without what Python needs to call a function."""


def compiled(function: Callable[..., Any]) -> Any:
    """Return a function compiled at its first call, and kept on disk for the next process."""
    return _kept(function, OPTIONS)


def inner(function: Callable[..., Any]) -> Any:
    """Return a function that only compiled functions call, without what Python needs: it compiles faster."""
    return _kept(function, {**OPTIONS, **FOR_KERNELS})


def once(function: Callable[..., Any]) -> Any:
    """Return a function that stands in the place of its calls; for one that a kernel calls once.

    What is compiled by itself is optimised again, and translated, with everything that calls it.
    """
    return numba.njit(inline="always", **OPTIONS, **FOR_KERNELS)(function)


def ordered(function: Callable[..., Any]) -> Any:
    """Return what `compiled` does, of a function whose sums and products keep their order.

    Products may be fused with sums, so that results are as IEEE 754 has them or nearer; infinities and NaN
    stay what they are.
    """
    return _kept(function, ORDERED)


def ordered_inner(function: Callable[..., Any]) -> Any:
    """Return what `inner` does, of a function whose sums and products keep their order."""
    return _kept(function, {**ORDERED, **FOR_KERNELS})


def _kept(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    settings = vars(numba.config)
    before = settings["CACHE_DIR"]
    try:
        settings["CACHE_DIR"] = str(_cache_folder())  # read when a function is decorated
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # the user has no home, no folder can be written, or the function stands in no file
        return numba.njit(**options)(function)
    finally:
        settings["CACHE_DIR"] = before


def _cache_folder() -> Path:
    """The folder of machine code, which numba unpickles: nobody else may be able to write it."""
    given = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    parent = Path(given) if given else Path.home() / ".cache"
    folder = parent.absolute() / "implicit-ssm" / _hash_of_sources()
    try:
        for place in (*reversed(folder.parents), folder):
            place.mkdir(mode=0o700, exist_ok=True)
        folder.parent.chmod(0o700)  # a umask may have let a group write it
        folder = folder.resolve()  # a link could lead elsewhere later
        safe = os.name != "posix" or _is_safe(folder)
    except OSError as error:
        raise RuntimeError(f"{folder} cannot be written") from error
    if not safe:
        raise RuntimeError(f"{folder} can be written or replaced by others")
    return folder


def _is_safe(folder: Path) -> bool:
    """Return whether nobody else but root can write to a folder, or put another in the place of one above."""
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        return False
    return all(
        above.st_uid in (0, os.getuid()) and (not above.st_mode & 0o022 or above.st_mode & stat.S_ISVTX)
        for above in (place.stat() for place in folder.parents)
    )


def _hash_of_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.glob("**/numba_*/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
