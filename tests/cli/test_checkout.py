"""``python cli.py`` in a checkout: which lshdb runs, and what is said where no kernel does."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from lshdb import KernelWarning, __version__, kernel_name
from lshdb.errors import warn_caller
from tests.cli.conftest import ROOT

KERNEL = f"compiled{EXTENSION_SUFFIXES[0]}"


def copied(place: Path, *, with_kernel: bool, with_sources: bool) -> Path:
    """A copy of the package, with its compiled kernel or without."""
    left_out = ["__pycache__"] + ([] if with_kernel else ["compiled.*.so"])
    left_out += [] if with_sources else ["*.[ch]"]
    shutil.copytree(ROOT / "lshdb", place / "lshdb", ignore=shutil.ignore_patterns(*left_out))
    shutil.copytree(ROOT / "migrations", place / "lshdb" / "_migrations", dirs_exist_ok=True)
    return place


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose kernel was not built."""
    place = copied(tmp_path / "checkout", with_kernel=False, with_sources=True)
    shutil.copy(ROOT / "cli.py", place)
    lines = (json.dumps({"id": str(n), "text": f"w{n} " * 30}) + "\n" for n in range(3_000))
    (tmp_path / "many.jsonl").write_text("".join(lines))
    return place


def test_the_installed_kernel_runs_in_place_of_none(
    process: Any, checkout: Path, tmp_path: Path
) -> None:
    installed = copied(tmp_path / "site", with_kernel=True, with_sources=False)
    options: dict[str, Any] = {
        "command": [sys.executable, str(checkout / "cli.py")],
        "env": {"PYTHONPATH": str(installed)},
    }
    done = process("--version", **options)
    assert done.stdout.decode().split("kernel ")[1].startswith("compiled ("), done
    assert kernel_name().startswith("compiled ("), "which this test is about"
    said = (
        f"the checkout {checkout} has no compiled kernel for this Python: running lshdb from "
        f"{installed / 'lshdb'}; pip install -e {checkout} builds it\n"
    )
    assert done.stderr.decode() == said
    added = process("add", "x.lshdb", "many.jsonl", "--workers", "2", **options)
    assert added.returncode == 0 and b"added 3,000" in added.stdout + added.stderr
    assert added.stderr.decode().startswith(said + "making the index")


EDITABLE = """
import sys
from importlib.machinery import PathFinder

class Editable:  # as setuptools has one in site-packages, after the finders of Python
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{place!r}]) if name == "lshdb" else None

sys.meta_path.insert(sys.meta_path.index(PathFinder) + 1, Editable)
"""


@pytest.mark.parametrize("other_python", [False, True])
def test_an_editable_install_is_seen(
    process: Any, checkout: Path, tmp_path: Path, other_python: bool
) -> None:
    if other_python:
        (checkout / "lshdb" / "kernel" / "compiled.cpython-300-other.so").touch()
    built = copied(tmp_path / "built", with_kernel=True, with_sources=True)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(EDITABLE.format(place=str(built)))
    done = process(
        "--version",
        command=[sys.executable, str(checkout / "cli.py")],
        env={"PYTHONPATH": str(tmp_path / "site")},
    )
    assert b"kernel compiled (" in done.stdout
    said = f"{checkout} has no compiled kernel for this Python: running lshdb from {built}"
    assert said in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_a_checkout_with_its_kernel_is_what_runs(
    process: Any, checkout: Path, tmp_path: Path
) -> None:
    other = copied(tmp_path / "site", with_kernel=True, with_sources=False)
    installed = other / "lshdb" / "__init__.py"
    installed.write_text(installed.read_text().replace(f'"{__version__}"', '"9.9.9"'))
    shutil.copy(ROOT / "lshdb" / "kernel" / KERNEL, checkout / "lshdb" / "kernel")
    command = [sys.executable, str(checkout / "cli.py")]
    done = process("--version", command=command, env={"PYTHONPATH": str(other)})
    assert done.stderr == b"" and b"9.9.9" not in done.stdout and b"compiled" in done.stdout


def test_without_any_kernel_the_cause_is_said_once(
    process: Any, checkout: Path, tmp_path: Path
) -> None:
    installed = copied(tmp_path / "site", with_kernel=False, with_sources=False)
    options: dict[str, Any] = {
        "command": [sys.executable, str(checkout / "cli.py")],
        "env": {"PYTHONPATH": str(installed)},
    }
    said = (
        f"the compiled kernel is not built in the checkout {checkout}; signing is tens of times "
        f"slower. With a C compiler, pip install -e {checkout} builds it\n"
    )
    options["env"]["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    done = process("--version", **options)
    assert done.stdout.endswith(b"kernel reference\n") and done.stderr.decode() == said
    again = process("--version", **options)
    assert again.stdout == done.stdout and again.stderr == b"", "once a day"
    notice = tmp_path / "cache" / "lshdb" / "kernel-notice"
    day, text = notice.read_text().split("\n", 1)
    assert text == said
    notice.write_text(f"2001-01-01\n{text}")
    assert process("--version", **options).stderr.decode() == said
    notice.write_text(f"{day}\nanother cause\n")
    assert process("--version", **options).stderr.decode() == said
    options["env"]["XDG_CACHE_HOME"] = "/dev/null"
    added = process("add", "x.lshdb", "many.jsonl", "--workers", "2", **options)
    assert added.returncode == 0 and added.stderr.decode().count(said) == 1
    assert b"Warning" not in added.stderr and b".py:" not in added.stderr


def warned(folder: Path) -> str:
    room = folder / "lshdb" / "kernel"
    return str(KernelWarning.without(str(room / "__init__.py"), ImportError("not to be loaded")))


def test_the_true_cause_is_said(tmp_path: Path) -> None:
    room = tmp_path / "lshdb" / "kernel"
    room.mkdir(parents=True)
    (room / "compiled.pyi").touch()
    assert warned(tmp_path).startswith(
        f"lshdb was installed in {tmp_path} without its compiled kernel; signing is tens of times"
    )
    (room / "compiled.cpython-300-other.so").touch()
    assert "is for another Python: compiled.cpython-300-other.so;" in warned(tmp_path)
    (room / KERNEL).touch()
    assert f"in {room} cannot be imported: not to be loaded;" in warned(tmp_path)
    assert warned(tmp_path).endswith("installing lshdb again builds it")
    shutil.rmtree(room)
    room.mkdir(parents=True)
    (room / "module.c").touch()
    assert f"is not built in the checkout {tmp_path};" in warned(tmp_path)


def test_what_is_to_be_said_once_is() -> None:
    with pytest.warns(KernelWarning) as caught:
        for _ in range(3):
            warn_caller(KernelWarning("said by a test, once"), once=True)
    assert len(caught) == 1 and caught[0].filename == __file__
