"""Operations with several backends: the readable reference, and the fast forms checked against it."""

from implicit.ops.ssd import explain

__all__ = ["explain"]
