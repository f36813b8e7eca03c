"""Warnings that point at the line of the user, not into this package or PyTorch."""

import sys
import warnings
from types import FrameType

_OURS = frozenset(
    ("automata", "theory", "implicit", "analysis", "paper_figures", "torch", "contextlib", "transformers")
)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, in one sentence, at the innermost line that is neither of these packages nor of PyTorch."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__"),
        registry=frame.f_globals.setdefault("__warningregistry__", {}),
    )


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OURS
