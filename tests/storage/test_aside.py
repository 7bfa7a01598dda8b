"""What is written aside is there whole or not at all, wherever Ctrl-C comes, and is free again."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lshdb.files.aside import AsideFolder
from lshdb.files.whole_files import whole_file
from lshdb.report.report_files import write_page, written_folder
from tests.interrupts import every_interrupt

PAGE = b'<meta name="generator" content="lshdb report">'


def write_file(path: Path) -> None:
    with whole_file(str(path), overwrite=True) as file:
        file.write(PAGE)


def write_folder(path: Path) -> None:
    with written_folder(str(path), overwrite=True) as folder:
        write_page(folder, "index.html", [PAGE])


def write_folder_in_two_steps(path: Path) -> None:
    """As where a file system cannot exchange two names."""
    write_folder(path)


@pytest.mark.parametrize("write", [write_file, write_folder, write_folder_in_two_steps])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.long(when=lambda write, is_there: is_there != (write is not write_file))
# A file that is open, and in no ``with`` yet, is left to Python.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_it_is_whole_or_not_there_wherever_an_interrupt_comes(
    write: Callable[[Path], None], is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if write is write_folder_in_two_steps:
        monkeypatch.setattr(AsideFolder, "exchange", lambda *_: False)
    unseen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unseen.append)
    path = tmp_path / "made"
    n_open = len(os.listdir("/dev/fd"))
    for interrupt in every_interrupt():
        if is_there and not path.exists():
            write(path)
        with interrupt:
            write(path)
        assert os.listdir(tmp_path) in ([], ["made"]), interrupt.place
        assert path.exists() or (interrupt.has_come and not is_there), interrupt.place
        for page in (path / "index.html", path):
            if page.is_file():
                assert page.read_bytes() == PAGE
        assert len(os.listdir("/dev/fd")) == n_open, interrupt.place
    assert interrupt.place > 100 and unseen == []
    write(path)


def test_two_folders_change_names_or_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, target = tmp_path / "made", tmp_path / "target"
    folder = AsideFolder(str(made), re.compile("page"))
    assert folder.take()
    (made / "page").touch()
    with pytest.raises(FileNotFoundError, match="target"):
        folder.exchange(str(target))
    target.mkdir()
    (target / "mine").touch()
    assert folder.exchange(str(target))
    assert os.listdir(target) == ["page"] and os.listdir(made) == ["mine"]
    monkeypatch.setattr("lshdb.files.aside._RENAME_EXCHANGE", 1 << 20)  # no flag of any kernel
    assert not folder.exchange(str(target))
    monkeypatch.undo()
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # a system without the call
    assert not folder.exchange(str(target))
    assert os.listdir(target) == ["page"] and os.listdir(made) == ["mine"]
