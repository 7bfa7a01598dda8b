"""Users' programs under the type checkers that users run, in their strict modes.

Where pyright is installed (``pip install pyright``; it needs Node.js), run it with
``pyright -p tests/typing``.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import lshdb

HERE = Path(__file__).parent
PROGRAMS = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("test_"))


def test_mypy_is_content_with_every_program(tmp_path: Path) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed; it comes with the extra lshdb[dev]")
    command = [
        sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports",
        "silent",  # as of an installed package, of which mypy reports no errors
        "--cache-dir", str(tmp_path), *map(str, PROGRAMS),
    ]  # fmt: skip
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(lshdb.__file__).parents[1]
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_pyright_is_content_with_every_program() -> None:
    if shutil.which("pyright") is None:
        pytest.skip("pyright is not installed: pip install pyright, which needs Node.js")
    found = subprocess.run(
        ["pyright", "-p", str(HERE)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout


@pytest.mark.fast
def test_names_for_type_checkers_are_those_that_there_are() -> None:
    """The table of names is one list; the imports that type checkers read are compared with it."""
    block = next(
        node
        for node in ast.parse(Path(lshdb.__file__).read_text()).body
        if isinstance(node, ast.If)
    )
    typed = {
        alias.asname: node.module.removeprefix("lshdb.")
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
        if alias.asname == alias.name
    }
    assert typed == lshdb._HOME_OF
    assert list(lshdb.__all__) == sorted(["__version__", *lshdb._HOME_OF])
    assert all(getattr(lshdb, name) is not None for name in lshdb.__all__)
