"""``pytest -m fast`` reaches every folder of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FOLDERS = sorted({path.parent for path in TESTS.rglob("test_*.py")})


@pytest.mark.fast
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_folder_has_a_fast_test(folder: Path) -> None:
    assert any("pytest.mark.fast" in path.read_text() for path in folder.glob("test_*.py"))
