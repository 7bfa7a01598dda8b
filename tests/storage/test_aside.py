"""What is written aside is there whole or not at all, wherever Ctrl-C comes, and is free again."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("write", [write_file, write_folder])
@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.long(when=lambda write, is_there: is_there != (write is write_folder))
# A file that is open, and in no ``with`` yet, is left to Python.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_it_is_whole_or_not_there_wherever_an_interrupt_comes(
    write: Callable[[Path], None], is_there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
