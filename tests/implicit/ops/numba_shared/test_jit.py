"""Machine code is kept where nobody else can put some: numba unpickles what it finds."""

import os
import pwd
from pathlib import Path

import pytest

pytest.importorskip("numba")
from implicit.ops.numba_shared import jit


def test_the_folder_is_the_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert jit._cache_folder().stat().st_mode & 0o777 == 0o700
    assert jit.compiled(lambda x: x + x)(1.5) == 3.0
    assert list(jit._cache_folder().rglob("*.nbi"))


@pytest.mark.parametrize("how", ["others may write", "of another user"])
def test_a_folder_that_others_can_write_is_not_read(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = jit._cache_folder()
    if how == "others may write":
        folder.chmod(0o777)
    else:
        monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    assert jit.compiled(lambda x: x + x)(1.5) == 3.0
    assert not list(folder.iterdir())


def test_an_unknown_user_without_home_compiles_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert jit.compiled(lambda x: x + x)(1.5) == 3.0
