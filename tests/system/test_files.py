"""A file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.files import write_whole


def test_a_new_file_stands_in_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a b.csv"
    for content in (b"old", b"new"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_its_mode_stays(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(b"old")
    before = path.stat().st_mode
    path.chmod(before & ~0o066)
    kept = path.stat().st_mode
    write_whole(path, b"new")
    assert path.stat().st_mode == kept


@pytest.mark.parametrize("fails", ["write_bytes", "replace"])
def test_what_cannot_be_written_is_named_and_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    path = tmp_path / "grades.csv"
    path.write_bytes(b"old")

    def full(self: Path, *_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, fails, full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(path, b"new")
    assert caught.value.filename == str(path)
    assert [file.name for file in tmp_path.iterdir()] == ["grades.csv"]
    assert path.read_bytes() == b"old"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "x.zip"
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(path, b"")
    assert caught.value.filename == str(path)
