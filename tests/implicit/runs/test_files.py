"""Files are replaced whole, and tensors come back bit for bit."""

import json
import os
import secrets
from pathlib import Path
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.runs.files import (
    check_hashes,
    check_tensors,
    has_hashes,
    read_settings,
    read_tensors,
    tensor_bytes,
    write_bytes,
    write_json,
    write_tensors,
)


class Killed(BaseException):
    """Stands for the end of the process: no handler of errors may run on it."""


@pytest.mark.parametrize(("function", "before"), [("fsync", None), ("fsync", b"old"), ("replace", b"old")])
def test_file_is_old_or_new_wherever_writing_ends(
    function: str, before: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    if before is not None:
        file.write_bytes(before)

    def killed(*arguments: object) -> None:
        raise Killed

    monkeypatch.setattr(os, function, killed)
    with pytest.raises(Killed):
        write_bytes(file, b"new")
    assert (file.read_bytes() if file.exists() else None) == before
    monkeypatch.undo()
    write_bytes(file, b"new")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"new")]


def test_content_is_on_disk_before_it_is_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name, function in (("fsync", os.fsync), ("replace", os.replace)):

        def recorded(*given: Any, name: str = name, function: Any = function) -> None:
            assert name == "fsync" or given[0].read_bytes() == b"new"
            calls.append(name)
            function(*given)

        monkeypatch.setattr(os, name, recorded)
    write_bytes(tmp_path / "file", b"new")
    assert calls == ["fsync", "replace", "fsync"]


@pytest.mark.parametrize("planted", ["file.tmp", "file"])
def test_no_link_is_followed(planted: str, tmp_path: Path) -> None:
    """Whoever made a run folder could let a link lead to any file of the user's."""
    mine, folder = tmp_path / "mine", tmp_path / "run"
    mine.write_bytes(b"a thesis")
    folder.mkdir()
    (folder / planted).symlink_to(mine)
    write_bytes(folder / "file", b"new")
    assert mine.read_bytes() == b"a thesis"
    assert (folder / "file").read_bytes() == b"new"
    assert not (folder / "file").is_symlink()


def test_a_name_that_was_guessed_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    mine = tmp_path / "mine"
    mine.write_bytes(b"a thesis")
    (tmp_path / ".file.guessed.tmp").symlink_to(mine)
    with pytest.raises(FileExistsError, match="file"):
        write_bytes(tmp_path / "file", b"new")
    assert mine.read_bytes() == b"a thesis"


def test_a_new_file_can_be_read_by_others_as_far_as_the_user_says(tmp_path: Path) -> None:
    write_bytes(tmp_path / "file", b"new")
    (tmp_path / "plain").touch()
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    tensors = {
        "float": torch.tensor([0.1, -0.0, 1e-45, 3e38]),
        "double": torch.tensor([[0.1], [1e-300]], dtype=torch.float64),
        "transposed": torch.arange(6.0).view(2, 3).T,
        "scalar": torch.tensor(7),
    }
    write_tensors(tmp_path / "file", tensors, {"step": "3"})
    found, metadata = read_tensors(tmp_path / "file")
    assert metadata == {"step": "3"}
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].numpy().tobytes() == tensor.contiguous().numpy().tobytes()


def test_same_tensors_give_the_same_bytes(tmp_path: Path) -> None:
    tensors = {name: torch.zeros(2) for name in "abcdef"}
    write_tensors(tmp_path / "first", tensors)
    write_tensors(tmp_path / "second", dict(reversed(tensors.items())))
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        ({}, "tensor 'w' is missing"),
        ({"w": torch.ones(3)}, "tensor 'w' has shape (3,) where the configuration asks for (2,)"),
        (
            {"w": torch.ones(2).to(torch.float8_e4m3fn)},
            "tensor 'w' has dtype torch.float8_e4m3fn where the configuration asks for torch.float32",
        ),
        ({"w": torch.tensor([1.0, float("nan")])}, "tensor 'w' holds NaN or infinity"),
        ({"w": torch.ones(2), "v": torch.ones(2)}, "tensor 'v' is unexpected"),
    ],
    ids=["missing", "shape", "dtype", "not finite", "unexpected"],
)
def test_tensors_that_do_not_fit_are_refused(stored: dict[str, torch.Tensor], fault: str) -> None:
    with pytest.raises(InputError) as caught:
        check_tensors(Path("w.safetensors"), stored, {"w": torch.ones(2)})
    assert str(caught.value) == f"w.safetensors: {fault}; restore the file or train again"


def test_json_holds_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "other", {"loss": float("nan")})
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("place", ["name", "shape", "number", "metadata"])
def test_a_flipped_bit_is_told(place: str, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, {"weight": torch.ones(16)}, {"step": "3"})
    content = bytearray(path.read_bytes())
    sign = {"name": b"weight", "shape": b"16", "number": b"\0\0\x80\x3f", "metadata": b'"3"'}
    content[content.index(sign[place]) + 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is not as it was written|is not valid safetensors"):
        read_tensors(path)
    (tmp_path / "sha256.json").unlink()  # as in folders of older versions
    if place != "shape":
        read_tensors(path)


@pytest.mark.parametrize("name", ["/proc/self/pagemap", "../w"])
def test_hashes_of_files_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "sha256.json").write_text(json.dumps({name: ["0" * 64]}))
    with pytest.raises(InputError, match=r"sha256\.json names .*, outside of it; restore it"):
        check_hashes(tmp_path)
    (tmp_path / "sha256.json").write_text("0123  w\n")  # the user's
    assert not has_hashes(tmp_path)


def test_killed_writes_leave_the_file_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the hash and the file: one that had no hash, and one of which the hash is kept."""
    path, replace = tmp_path / "w.safetensors", os.replace

    def killed(source: Path, target: Path) -> None:
        if target == path:
            raise Killed
        replace(source, target)

    def fail(value: float) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", killed)
            with pytest.raises(Killed):
                write_tensors(path, {"w": torch.full((1,), value)})

    path.write_bytes(tensor_bytes({"w": torch.zeros(1)}))
    for value in (1.0, 2.0):
        for other in (value, 5.0)[: int(value)]:  # again and again where there is a hash
            fail(other)
            assert read_tensors(path)[0]["w"].item() == value - 1
        write_tensors(path, {"w": torch.full((1,), value)})
        assert read_tensors(path)[0]["w"].item() == value
    path.write_bytes(
        tensor_bytes({"w": torch.full((1,), 9.0)})
    )  # by somebody else: a failed write forgives it not
    fail(4.0)
    with pytest.raises(InputError, match="is not as it was written"):
        read_tensors(path)


def test_other_settings_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    with pytest.raises(InputError, match=r"settings is .*one\.json, which is not there"):
        read_settings(file)
    for text in ("[1]", '{"sizes": 3}', '{"sizes": {"lstm": 5}}', "{"):
        file.write_text(text)
        with pytest.raises(InputError, match=r"are of another form; give an object|is not valid JSON"):
            read_settings(file)
    for text, message in (
        (
            '{"sizes": {"LSTM": {"d_model": 4}}}',
            "model in sizes of .* 'LSTM' is unknown; did you mean 'lstm'",
        ),
        (
            '{"sizes": {"lstm": {"width": 4}}}',
            "size of lstm in .* 'width' is unknown; known: d_model, layers",
        ),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_settings(file)
