"""SIGTERM as a request that a training loop reads between two steps."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

EXIT_CODE = 128 + signal.SIGTERM


@contextlib.contextmanager
def noted_termination() -> Iterator[Callable[[], bool]]:
    """Note SIGTERM, so that the caller can store its work; then the process ends with exit code 143.

    A second SIGTERM ends the process at once. A handler of another's stays. The yielded function returns True
    after SIGTERM.
    """
    noted: list[int] = []

    def note(number: int, _: object) -> None:
        noted.append(number)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if ours:
        signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: bool(noted)
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if noted:
        raise SystemExit(EXIT_CODE)
