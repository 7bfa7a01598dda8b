"""``pytest -m fast`` reaches every folder of tests, and what is marked as long waits."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDERS = sorted({path.parent for path in TESTS.rglob("test_*.py")})


@pytest.mark.fast
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_folder_has_a_fast_test(folder: Path) -> None:
    assert any("pytest.mark.fast" in path.read_text() for path in folder.glob("test_*.py"))


@pytest.mark.fast
@pytest.mark.long(when=lambda number: number > 1)
@pytest.mark.parametrize("number", [1, 2])
def test_a_mark_says_which_parameters_take_long(number: int, is_long: bool) -> None:
    assert is_long or number == 1
