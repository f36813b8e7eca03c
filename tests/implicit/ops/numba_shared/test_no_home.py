"""Kernels are compiled where the user has no home, too: nothing is kept then."""

import pwd

import pytest

pytest.importorskip("numba")
from implicit.ops.numba_shared import jit


def test_an_unknown_user_without_home_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert jit.compiled(lambda x: x + x)(1.5) == 3.0
