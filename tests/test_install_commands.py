"""Commands that install something name what lshdb was installed from.

Nothing is published: a package of that name in an index of packages is somebody else's.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import lshdb
from lshdb.errors import install_command

ROOT = Path(lshdb.__file__).resolve().parents[1]
FROM_INDEX = re.compile(r"pip3? install (?:[^`\n&\"]* )?['\"]?lshdb\b")


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///a%20b/c", "dir_info": {}}, "pip install '/a b/c[plot]'"),
        ({"url": "file:///c", "dir_info": {"editable": True}}, "pip install -e '/c[plot]'"),
        ({"url": "file:///d/l.whl", "archive_info": {}}, "'lshdb[plot] @ file:///d/l.whl'"),
        ({"url": "https://x/l.git", "vcs_info": {"vcs": "git"}}, " @ git+https://x/l.git'"),
        (None, "pip install 'lshdb[plot]'"),  # from an index of packages, as PEP 610 has it
    ],
)
def test_it_names_what_lshdb_came_from(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = None if origin is None else json.dumps(origin)
    installed = SimpleNamespace(read_text=lambda name: text)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: installed)
    assert install_command("plot").endswith(command)


def test_a_checkout_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert install_command("plot") == f"pip install -e '{ROOT}[plot]'"


def test_no_page_and_no_message_installs_from_an_index_of_packages() -> None:
    if not (ROOT / "docs").is_dir():
        pytest.skip("not in a checkout")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    for path in {*pages, *(ROOT / "lshdb").rglob("*.py")} - {ROOT / "docs" / "releasing.md"}:
        assert not FROM_INDEX.search(path.read_text("utf-8")), path
    assert FROM_INDEX.search("`pip install 'lshdb[plot]'`")
    assert FROM_INDEX.search("pip install duckdb lshdb")
