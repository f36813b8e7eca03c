"""One process at a time works in the folder of a run."""

import contextlib
import errno
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from automata.errors import InputError

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def held(folder: Path, begun: Callable[[], bool]) -> Iterator[None]:
    """Keep other processes from training in a folder, while the context lasts or the process lives.

    The operating system holds the lock: a process that was killed leaves nothing but an empty file. A file
    system without locks is used without, which a warning says. A folder that was made here is removed in the
    end unless a run has begun in it.
    """
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"out is {folder}, where another process trains at this moment; "
            "wait until it ends, or give another folder"
        ) from None
    except (OSError, NotImplementedError) as error:
        if isinstance(error, OSError) and error.errno == errno.ELOOP:
            raise InputError(f"{folder / 'lock'} is a link; remove it, or give another folder") from None
        if isinstance(error, OSError) and error.errno not in _NO_LOCKS:
            raise
        warnings.warn(f"{folder} lies on a file system without locks; start one process there", stacklevel=3)
    try:
        yield
    finally:
        (folder / "lock").unlink(missing_ok=True)
        lock.release()
        if not begun():
            with contextlib.suppress(OSError):
                for place in made:
                    place.rmdir()
