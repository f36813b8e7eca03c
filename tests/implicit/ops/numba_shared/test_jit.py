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


@pytest.mark.parametrize(
    ("mode", "owner", "kept"),
    [
        (0o755, None, True),
        (0o1777, None, True),
        (0o777, None, False),
        (0o775, None, False),
        (0o755, 12345, False),
    ],
    ids=["ours", "sticky", "others may write", "a group may write", "of another user"],
)
@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_folder_below_one_that_others_can_write_is_not_read(
    mode: int,
    owner: int | None,
    kept: bool,
    through_a_link: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever can write a folder can put another in the place of all below it."""
    above = tmp_path / "shared" / "deeper"
    above.mkdir(parents=True)
    above.parent.chmod(mode)
    if owner is not None:
        if os.getuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(above.parent, owner, -1)
    if through_a_link:
        (tmp_path / "link").symlink_to(above)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "link" if through_a_link else above))
    assert jit.compiled(lambda x: x + x)(1.5) == 3.0
    assert bool(list(above.rglob("*.nbi"))) == kept


def test_folders_are_made_for_the_user_alone_under_any_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "new" / "deeper"))
    before = os.umask(0)
    try:
        made = jit._cache_folder()
    finally:
        os.umask(before)
    assert {place.stat().st_mode & 0o777 for place in (made, *made.parents[:3])} == {0o700}


def test_an_unknown_user_without_home_compiles_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for name in ("HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert jit.compiled(lambda x: x + x)(1.5) == 3.0
