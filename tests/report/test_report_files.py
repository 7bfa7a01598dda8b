"""A report is at its place whole, or not at all, and nothing else is ever touched."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lshdb import Index, LshdbError, ParameterError
from lshdb.report import report_files
from tests.children.waiting import join_all
from tests.conftest import family_corpus


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.create(tmp_path / "x.lshdb", threshold=0.5, k=2) as index:
        index.add(family_corpus(6, families=4))
        index.update_clusters()
        yield index


def left_over(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "x.lshdb")


@pytest.mark.fast
@pytest.mark.parametrize("name", ["report.html", "pages"])
def test_one_that_is_there_is_replaced_only_if_it_may_be(
    index: Index, tmp_path: Path, name: str
) -> None:
    report = index.report(tmp_path / name, sample=0)
    before = report.path.read_bytes()
    with pytest.raises(LshdbError, match="exists already") as caught:
        index.report(tmp_path / name)
    assert "--overwrite" in str(caught.value.hint)
    assert report.path.read_bytes() == before
    index.add([("more", "a text that nothing else is like at all")])
    index.report(tmp_path / name, overwrite=True, sample=0)
    assert report.path.read_bytes() != before
    assert left_over(tmp_path) == [name]


def test_a_folder_with_anything_else_is_left_alone(index: Index, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    index.report(folder)  # an empty one is none
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(LshdbError, match=r"holds notes\.txt, which is no page of a report"):
        index.report(folder, overwrite=True)
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("<!DOCTYPE html><title>my own page</title>")
    with pytest.raises(LshdbError, match="no page of a report"):
        index.report(site, overwrite=True)
    assert (site / "index.html").read_text().endswith("my own page</title>")
    assert left_over(tmp_path) == ["pages", "site"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ["report.html", "pages"])
@pytest.mark.parametrize("is_there", [False, True])
def test_an_error_in_the_middle_leaves_what_was_there(
    index: Index,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    is_there: bool,
    error: BaseException,
) -> None:
    monkeypatch.setattr("lshdb.phases.phase._SECONDS", 0)
    before = None
    if is_there:
        before = index.report(tmp_path / name, sample=0).path.read_bytes()

    def fail(count: int, total: int | None, unit: str) -> None:
        if unit == "clusters" and count == 2:
            raise error

    with pytest.raises(type(error)):
        index.report(tmp_path / name, sample=0, overwrite=True, on_progress=fail)
    assert left_over(tmp_path) == ([name] if is_there else [])
    if before is not None:
        page = tmp_path / name
        assert (page / "index.html" if page.is_dir() else page).read_bytes() == before
    index.report(tmp_path / name, sample=0, overwrite=True)


def test_a_disk_that_fills_up_where_pages_are_written(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report_files, "sync_file", full)
    with pytest.raises(OSError, match="No space left"):
        index.report(tmp_path / "pages", sample=0)
    assert left_over(tmp_path) == []
    with pytest.raises(OSError, match=r"No space left.*: ./dev/full"):
        index.report("/dev/full", sample=0)


def test_a_link_is_written_through_and_stays(index: Index, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link.html").symlink_to(tmp_path / "real" / "report.html")
    index.report(tmp_path / "link.html", sample=0)
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real" / "report.html").read_bytes().startswith(b"<!DOCTYPE html>")
    (tmp_path / "pages").symlink_to(tmp_path / "real2")
    with pytest.raises(LshdbError, match="leads nowhere"):
        index.report(tmp_path / "pages", sample=0)
    (tmp_path / "real2").mkdir()
    index.report(tmp_path / "pages", sample=0)
    assert (tmp_path / "pages").is_symlink() and (tmp_path / "real2" / "index.html").is_file()


def test_a_pipe_gets_the_page(index: Index, tmp_path: Path) -> None:
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()), daemon=True)
    reader.start()
    index.report(pipe, sample=0)
    join_all([reader])
    assert got[0].startswith(b"<!DOCTYPE html>") and got[0].endswith(b"</html>")


def test_standard_output_may_be_a_file(index: Index, tmp_path: Path) -> None:
    """What a shell wrote there before stays."""
    command = [sys.executable, "-m", "lshdb", "report", str(index.path), "-o", "-", "--sample", "0"]
    for name in ("page", "page.html"):
        (tmp_path / name).write_text("before\n")
        with (tmp_path / name).open("ab") as file:
            subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=True, timeout=300)
        text = (tmp_path / name).read_text()
        assert text.startswith("before\n<!DOCTYPE html>") and text.endswith("</html>")


def test_places_where_nothing_can_be_written(index: Index, tmp_path: Path) -> None:
    with pytest.raises(LshdbError, match="does not exist"):
        index.report(tmp_path / "none" / "report.html")
    with pytest.raises(ParameterError, match="lies inside the index"):
        index.report(index.path / "report.html")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(LshdbError, match="is a file"):
        index.report(tmp_path / "file", overwrite=True)
    (tmp_path / "folder.html").mkdir()
    index.report(tmp_path / "folder.html")
    assert (tmp_path / "folder.html" / "index.html").is_file()
    assert index.check() == []


def test_two_processes_do_not_write_one_folder(index: Index, tmp_path: Path) -> None:
    aside = tmp_path / ".pages.lshdb-part"
    aside.mkdir()
    (aside / "clusters-0001.html").write_text("half")
    descriptor = os.open(aside, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(LshdbError, match="another process is writing this report"):
        index.report(tmp_path / "pages", sample=0)
    assert (aside / "clusters-0001.html").read_text() == "half"
    os.close(descriptor)
    index.report(tmp_path / "pages", sample=0)  # the other was killed
    assert left_over(tmp_path) == ["pages"]
    aside.mkdir()
    (aside / "mine.txt").write_text("mine")
    with pytest.raises(LshdbError, match="in the way"):
        index.report(tmp_path / "pages", sample=0, overwrite=True)
    assert (aside / "mine.txt").exists()


def test_all_is_of_one_state(index: Index, tmp_path: Path) -> None:
    """What another process commits while a report is made is not in it, not even in part."""
    added: list[Any] = []

    def meanwhile(_count: int, _total: int | None, unit: str) -> None:
        if unit == "clusters" and not added:
            with Index.open(index.path) as writer:
                added.append(writer.add([("f000-0", "another text for this key altogether")]))
                writer.remove("f001-0")
                writer.update_clusters()

    report = index.report(tmp_path / "report.html", sample=0, on_progress=meanwhile)
    assert added
    text = report.path.read_text()
    assert "another text for this key" not in text and "f001-0" in text
    assert f"<dd>{len(index) + 1}<" in text
